"""When a merge happens."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.model.progress import BEGINNING


@dataclass(frozen=True, slots=True)
class Moment:
    """The epoch a merge belongs to: its number, processing time and the watermarks around it."""

    epoch: int
    now: int
    before: int = BEGINNING
    after: int = BEGINNING


@dataclass(frozen=True, slots=True)
class NamedMoment:
    """A moment that a statement knows by the names of parameters, and so is the same for all of them."""

    epoch: str = "CAST($epoch AS BIGINT)"
    now: str = "CAST($now AS BIGINT)"
    before: str = "CAST($before AS BIGINT)"
    after: str = "CAST($after AS BIGINT)"


NAMED = NamedMoment()
