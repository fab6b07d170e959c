"""What a query may read: streams, and relations that the store has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from millstream.plan.nodes import AggregateView, Part, QueryView, Stream, TopView


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


def stream_relation(stream: Stream) -> Relation:
    """What a query finds under the name of a stream or a table."""
    if not stream.primary_key:
        return Relation(stream.name, stream.schema.names(), stream)
    return Relation(
        stream.name,
        stream.stored.names(),
        versioned=stream.rules.versioned,
        event_stream=stream if stream.has_event_versions else None,
    )


def view_relation(part: Part) -> Relation:
    """What a query finds under the name of a view, or of a part of one."""
    match part:
        case QueryView():
            return Relation(part.name, part.columns, append_only=part.only_grows)
        case TopView() | AggregateView():
            return Relation(part.name, tuple(out.name for out in part.outputs))
    return Relation(part.name, tuple(name for name, _ in part.columns), append_only=part.only_grows)
