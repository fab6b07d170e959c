"""The commands of a store: one ordered sequence of definitions, commits, acknowledgements and retention.

What always holds: nothing else changes a store; a command is applied whole or not at all, and says everything that its
effect depends on, the processing time included. `codec` writes commands as bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from millstream.model.progress import Progress
from millstream.plan.nodes import AppendView, Part, QueryView, Stream, View, ViewPlan

# -- definitions -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateStream:
    """Create a stream, or a table where it has a primary key."""

    stream: Stream
    statement: str
    now: int
    files: Sequence[str] = ()
    """Files that it leaves out, as if they had been read."""
    incarnation: str = ""
    instead_of: str | None = None
    """The stream or table that is dropped in the same transaction."""


@dataclass(frozen=True, slots=True)
class ChangeStream:
    """Give a stream that nothing was read of another text, and the files that it leaves out."""

    name: str
    statement: str
    files: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class CreateView:
    """Create a view and its hidden parts."""

    plan: ViewPlan
    deltas: Mapping[str, pa.Schema]
    """The delta of each part that Spark computes, by name."""
    statement: str
    now: int
    history: Mapping[str, Progress] = field(default_factory=dict)
    """Where parts begin that catch up before they join their stream."""
    kind: Literal["view", "successor"] = "view"
    """A successor is built under a name of its own and takes the place of another view: see `Swap`."""
    built: Sequence[str] = ()
    """Of a successor: the names of all parts of its query. `plan` lacks those that the other view has already."""
    incarnation: str = ""
    instead_of: Sequence[str] = ()
    """Parts that are dropped in the same transaction, with their letters of the streams `letters_of`."""
    letters_of: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ChangeView:
    """Give a view another text, or other options, in place: its contents stay."""

    old: ViewPlan
    new: ViewPlan
    statement: str
    ending: Sequence[str] = ()
    """Parts of a successor that was being built. They are dropped in the same transaction, with their letters of the
    streams `letters_of`."""
    letters_of: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Drop:
    """Drop a stream or a table, or a view with its hidden parts; also its letters of some streams."""

    names: Sequence[str]
    letters_of: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class CreateFunction:
    """Note a user's function. Its Python does not travel: `Store.register_function` hands that over."""

    name: str
    statement: str
    now: int


@dataclass(frozen=True, slots=True)
class DropFunction:
    name: str


@dataclass(frozen=True, slots=True)
class CreateSink:
    """Create a sink that needs the changes of a view after an epoch; -1: all that are left."""

    name: str
    view: str
    statement: str
    now: int
    epoch: int
    target: str
    """The target's own mark of that position."""


@dataclass(frozen=True, slots=True)
class DropSink:
    name: str


# -- epochs ------------------------------------------------------------------------------------


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
    """A view that was built again and takes the place of the old one."""

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


@dataclass(frozen=True, slots=True)
class Commit:
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


# -- upkeep ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Note that the target of a sink has all changes up to an epoch."""

    name: str
    epoch: int
    target: str


@dataclass(frozen=True, slots=True)
class Retain:
    """Delete the changes, letters and epoch records of earlier epochs that have expired by an instant."""

    now: int
    views: Sequence[Part]
    """The views whose changelogs are looked at, and what they are made of."""
    streams: Sequence[Stream]


Definition = (
    CreateStream | ChangeStream | CreateView | ChangeView | Drop | CreateFunction | DropFunction | CreateSink | DropSink
)
Command = Definition | Commit | Acknowledge | Retain
