"""What tells the rows of a view apart, and how its changelog says that one came or went."""

from __future__ import annotations

from typing import Literal

from millstream.plan.nodes import AggregateView, AppendView, Part, QueryView
from millstream.plan.windows import CountWindow


def identity(part: Part) -> tuple[str, ...]:
    """The columns that tell the rows apart, where some are known to: those of the keys and of the window."""
    match part:
        case QueryView():
            return part.identity
        case AggregateView():
            return tuple(out.name for out in part.outputs if out.name in part.key_columns)
        case AppendView():
            return ()


def add_op(part: Part) -> Literal["insert", "upsert"]:
    """How the changelog says that a row is there: by itself, or in place of the one with its identity."""
    match part:
        case QueryView():
            refined = bool(part.identity) and part.accumulation != "retracting" and not part.only_grows
            return "upsert" if refined else "insert"
        case AggregateView():
            refined = part.trigger.accumulation == "accumulating" and not isinstance(part.window, CountWindow)
            return "upsert" if refined else "insert"
        case AppendView():
            return "insert"
