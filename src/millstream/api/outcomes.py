"""What a statement did.

What always holds: a statement has exactly one outcome. One that reads gives rows, SUBSCRIBE gives changes,
and every other statement gives a `Done`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from millstream.api.result import Result
from millstream.api.subscription import Subscription

Effect: TypeAlias = Literal["created", "replaced", "kept", "dropped", "absent", "altered", "inserted", "deleted"]
"""`kept`: what was to be created is there already. `absent`: what was to be dropped is not there."""


@dataclass(frozen=True, slots=True)
class Done:
    """A statement that changed something, or found that nothing was to be changed."""

    done: str
    """The statement's verb and kind: `CREATE STREAM`, `INSERT`, `SET`."""
    effect: Effect
    name: str
    """The relation, function or setting."""
    rows: int | None = None
    """Rows that were accepted, for INSERT and DELETE."""
    notices: tuple[str, ...] = ()
    """What the user should know although nothing failed, a sentence each."""


Outcome: TypeAlias = Done | Result | Subscription
