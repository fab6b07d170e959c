"""What the engine asks of whatever computes the deltas of views.

The promise: whoever computes, an expression means what Spark SQL says it means, and every row of a
portion is counted once. Spark keeps it (`spark.compute`); the engine knows this protocol alone.
What is asked for here may take seconds and run jobs, unless its description says that it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import pyarrow as pa

from millstream.model.errors import MillstreamError
from millstream.model.schema import Schema
from millstream.model.settings import Kernel
from millstream.model.user_functions import UserFunction
from millstream.plan.nodes import Stream, View
from millstream.plan.slices import BatchSlice, Slice


@dataclass(frozen=True, slots=True)
class Portion:
    """Rows of a stream, to be read for some views."""

    stream: Stream
    slice: Slice
    views: tuple[View, ...]
    max_ahead: int
    """By how much event time may be ahead of the instant at which a row landed, in microseconds."""
    partitions: int = 1
    newest: Mapping[int, int] = field(default_factory=dict)
    """The newest event time that each partition had brought before; only where the slack follows lateness."""


@dataclass(frozen=True, slots=True)
class StreamStats:
    """What arrived: rows, how many of them are dead, and the newest event time per partition."""

    rows: int
    dead: int
    newest: dict[int, int]
    landed: dict[int, int] = field(default_factory=dict)
    """When the last row of a partition landed; known if a view has windows on processing time."""
    lateness: dict[int, int] = field(default_factory=dict)
    """Rows by the bucket of their lateness, where the slack follows it."""

    @property
    def decoded(self) -> int:
        return self.rows - self.dead


@dataclass(frozen=True, slots=True)
class ViewDelta:
    """What the epoch adds to a view, and what became of its rows (lateness is judged later)."""

    rows: pa.Table
    used: int
    filtered: int
    failed: int
    repeats: bool = False
    """Whether a group may be in several rows."""


class OpenRows(Protocol):
    """The rows of a portion, which can be asked for until they are closed. To ask for them may run a job.

    All have the stream's columns, `__p`, `__o`, `__raw` and `__reason`.
    """

    def dead_rows(self) -> pa.Table:
        """Rows that could not be decoded."""

    def late_rows(self, view: View, before: int) -> pa.Table:
        """Used rows of a view that are late when the watermark was at `before`."""

    def failed_rows(self, view: View) -> pa.Table:
        """Rows on which an expression of a view fails, each with the reason."""

    def close(self) -> None:
        """Release what is held for them."""


@dataclass(frozen=True, slots=True)
class Computed:
    """What became of a portion."""

    opened: OpenRows
    stats: StreamStats
    deltas: dict[str, ViewDelta]
    """By view; empty for the changes of a table."""
    table_rows: pa.Table | None
    """For a table: the changes that win within the portion (see `store.duckdb.table`)."""
    seconds: float
    """How long it took: of portions that were computed together, its share."""
    failures: Mapping[str, MillstreamError] = field(default_factory=dict)
    """The views whose deltas cannot be computed, and why; the others have theirs."""
    work_seconds: float = 0.0
    """The time of processors that it took, where that is known."""


OPEN_AT_ONCE = 3
"""The most reads of a lane that are open at a time: one in its commit, one ahead, one about to be closed."""

LaneName = Literal["present", "past", "beside"]
"""Live epochs; history while nothing else runs; history while live epochs run, to which it leaves a core."""


class Lane(Protocol):
    """Reads that follow one another. Lanes do not disturb each other."""

    def read(self, portions: Sequence[Portion], *, ahead: bool = False) -> list[Computed]:
        """What becomes of portions of different streams, in their order; if it fails, nothing stays open.

        `ahead` says that it is done during the commit of the one before.
        """

    def took(self, work_seconds: float, commit_seconds: float) -> None:
        """Learn what the work of an epoch and its commit took, to choose how many tasks the next one gets."""


Deliver = Callable[[BatchSlice], object]


class Streaming(Protocol):
    """A source that pushes its rows: it hands micro-batches over, each until it was taken once."""

    def run_available(self, deliver: Deliver) -> None:
        """Deliver what is there now, then stop."""

    def start(self, deliver: Deliver) -> None:
        """Deliver batches until `stop`."""

    def stop(self) -> None: ...

    def failure(self) -> MillstreamError | None:
        """Why it has ended by itself, if it has."""


class Compute(Protocol):
    """Types, schemas and deltas. One implementation per engine that can compute them."""

    def begin(self) -> None:
        """Start in the background what takes long to start."""

    def warm_up(self) -> None:
        """Start it, and return when it is there."""

    def types(self, stream: Stream, sqls: Sequence[str]) -> list[pa.DataType]:
        """The types of expressions over the rows of a stream."""

    def schema(self, stream: Stream, view: View) -> pa.Schema:
        """The schema of a view's delta. What else its first epoch needs is made as well, while its author waits.

        Refuses a view that fails whatever its rows are.
        """

    def keep(self, views: Iterable[View]) -> None:
        """Release what was made for other views. Runs nothing."""

    def sharing(self, part: View, stream: Stream, live: Sequence[View]) -> list[str] | str:
        """The other live parts that share the aggregation of a part in the kernel; or why that does not have it."""

    def use_functions(self, functions: Sequence[UserFunction]) -> None:
        """The users' functions that expressions may call from now on. Runs nothing."""

    def use_kernel(self, kernel: Kernel) -> None:
        """What computes deltas from the next read on. Runs nothing."""

    def lane(self, name: LaneName) -> Lane:
        """The lane of a name, the same one each time. Runs nothing."""

    def streaming(
        self, format_: str, path: str | None, options: Mapping[str, str], schema: Schema, checkpoint: Path
    ) -> Streaming:
        """A source of `source = 'spark'`. Runs nothing until it is started."""

    def close(self) -> None: ...


OpenCompute = Callable[[Path], Compute]
"""Makes what computes for the database in a directory."""
