"""What an epoch hands to a store, and what any store promises.

The promise: `commit` is one transaction. Offsets, state, published rows, changelog and the epoch
record are all there afterwards, or none of them; a reader sees one epoch, never a mixture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import pyarrow as pa

from millstream.model.errors import MillstreamError
from millstream.plan.lateness import Lateness
from millstream.plan.nodes import AppendView, QueryView, Stream, View, ViewPlan

BEGINNING = -(2**62)
"""An instant before all others: the watermark of a stream that had no event yet."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stream, or a view that is catching up, has come. Per partition, by number."""

    offsets: Mapping[int, int] = field(default_factory=dict)
    newest: Mapping[int, int] = field(default_factory=dict)
    active_at: Mapping[int, int] = field(default_factory=dict)
    """When the partition last brought a row, in processing time."""
    watermark: int = BEGINNING
    clock: int = BEGINNING
    """Up to which processing time all rows have been read: what closes windows on processing time."""
    lateness: Lateness | None = None
    """How late rows have been, where the slack follows that."""


@dataclass(frozen=True, slots=True)
class StreamPart:
    """A stream's share of an epoch."""

    stream: Stream
    progress: Progress
    rows: int = 0
    dead: int = 0
    dead_rows: pa.Table | None = None
    files: Sequence[tuple[int, str]] = ()
    """Files that the epoch has read: (sequence number, path)."""
    table_rows: pa.Table | None = None
    """For a table: the changes that win within the epoch (see `store.duckdb.table`)."""


@dataclass(frozen=True, slots=True)
class ViewPart:
    """A view's share of an epoch: its delta, the watermarks around it, its accounting."""

    view: View
    delta: pa.Table | None
    before: int
    after: int
    repeats: bool = False
    """Whether a group may be in several rows of the delta; only for aggregates over time or over all."""
    used: int = 0
    filtered: int = 0
    late: int = 0
    failed: int = 0
    late_rows: pa.Table | None = None
    failed_rows: pa.Table | None = None
    arrived: pa.Table | None = None
    """Rows by pane, late ones too, where the watermark closes the windows."""
    catching_up: Progress | None = None
    """Set while the view reads history: its own progress instead of the stream's."""


@dataclass(frozen=True, slots=True)
class QueryPart:
    """A query in the store, or rows that are kept for one, with the watermarks around the epoch."""

    view: QueryView | AppendView
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Swap:
    """A view that was built anew and takes the place of the old one."""

    old: ViewPlan
    new: ViewPlan
    built: tuple[str, ...]
    """What the parts of `new` are called until now: by the name they were built under, or as parts of `old`."""
    statement: str

    @property
    def gone(self) -> tuple[str, ...]:
        """The parts of the old view that end."""
        return tuple(part.name for part in self.old.parts if part.name not in self.built)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a view stands still, and since when."""

    state: Literal["failed", "blocked"]
    """Blocked: it reads a view that stands still."""
    code: str
    message: str
    detail: str | None
    epoch: int
    """The first epoch that the view lacks."""
    offsets: Mapping[str, Mapping[int, int]]
    """How far the view has read each of its streams."""
    failed_at: int


class ViewFailedError(MillstreamError):
    """One view cannot be maintained; nothing of the epoch was committed."""

    def __init__(self, view: str, error: MillstreamError) -> None:
        super().__init__(error.code, error.message, detail=error.detail, hint=error.hint, position=error.position)
        self.view = view
        """The part of a view that was being maintained."""


@dataclass(frozen=True, slots=True)
class EpochPart:
    """All of one epoch."""

    now: int
    streams: Sequence[StreamPart]
    views: Sequence[ViewPart]
    queries: Sequence[QueryPart] = ()
    """All that is computed in the store, in an order in which every input comes first."""
    kept: Sequence[QueryPart] = ()
    """Rows kept for queries, of which some may be let go."""
    timings: Mapping[str, float] = field(default_factory=dict)
    swaps: Sequence[Swap] = ()
    failed: Mapping[str, Failure] = field(default_factory=dict)
    """Views that stand still from this epoch on, by name. They have no share in it."""


class Store(Protocol):
    """The transaction: merge, fire, changelog, epoch record. One implementation per backend."""

    def commit(self, part: EpochPart) -> int:
        """Make an epoch durable; returns its number. Raises `ViewFailedError` if a view cannot be maintained."""

    def last_epoch(self) -> int: ...

    def progress(self, stream: str) -> Progress | None: ...

    def view_progress(self, view: str) -> Progress | None: ...

    def failures(self) -> Mapping[str, Failure]:
        """The views that stand still, by name."""

    def files(self, stream: str) -> list[str]: ...

    def next_due_at(self, views: Sequence[View]) -> int | None:
        """When the next processing-time trigger of some views is due, if one is set."""

    def close(self) -> None: ...
