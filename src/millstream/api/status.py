"""The state of a database, in figures.

Plain dicts, because a status travels as JSON and is shown as it is. Reading one starts no Spark job and
counts no rows of a view. Instants are UTC, without a zone.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TypedDict


class StreamStatus(TypedDict):
    """One stream or table."""

    name: str
    is_table: bool
    source: str
    topic: str | None
    """The topic of the log that it reads; None for other sources."""
    watermark: datetime | None
    """None before the first event, or without event time."""
    position: int
    """The sum of its offsets: for a log, the rows read."""
    waiting: int | None
    """Rows in the log that no epoch has read; None where the source cannot tell."""
    state: str
    """`live` or `failing`: a source that cannot be read is tried again."""
    error: str | None


class ViewStatus(TypedDict):
    """One view."""

    name: str
    state: str
    """`live`, or how far it has read history or is rebuilt."""


class SinkStatus(TypedDict):
    """One sink."""

    name: str
    view: str
    connector: str
    state: str
    """`live` or `failing`."""
    epoch: int
    """Its target has all changes up to this epoch."""
    lag: int
    """The epochs that are still to be looked at."""
    error: str | None


class Status(TypedDict):
    """A database at one moment."""

    directory: str
    epoch: int
    committed_at: datetime | None
    """When the last epoch was committed."""
    running: bool
    failure: str | None
    """What background processing fails at, if anything; it is tried again. Streams and sinks have their own errors."""
    rows_in: int
    rows_late: int
    """Summed over views."""
    rows_dead: int
    """Rows that could not be decoded, and rows on which a view failed."""
    streams: list[StreamStatus]
    views: list[ViewStatus]
    sinks: list[SinkStatus]
    pace: Mapping[str, float | None]
    """What sizes epochs in a running database."""
