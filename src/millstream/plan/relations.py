"""What a query may read: streams, and relations that the store has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from millstream.plan.nodes import Stream


@dataclass(frozen=True, slots=True)
class Relation:
    """A stream (with `stream` set), or a view or a table in the store."""

    name: str
    columns: tuple[str, ...]
    stream: Stream | None = None
    append_only: bool = False
    """Whether the store only ever adds rows to it, each marked with its epoch."""
    versioned: bool = False
    """Whether it is a table that keeps its versions."""
    event_stream: Stream | None = None
    """For a table with an event time: the stream of its changes, whose watermark says what is final."""


Relations = Callable[[str], Relation | None]
