"""Reads of epochs, some of them ahead of the commits.

While an epoch is judged and committed, the deltas of the next one are already computed, if its
rows are there. Where a slice begins does not depend on what becomes of the one before it. What is
computed ahead is used only if nothing has changed since (offsets, views); otherwise it is dropped,
which costs time and nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa

from millstream.engine.define.catalog import StreamEntry
from millstream.model.errors import MillstreamError
from millstream.model.progress import Progress
from millstream.plan.compute import Computed, Lane, OpenRows, Portion, StreamStats, ViewDelta
from millstream.plan.nodes import View
from millstream.sources import Cut, Offsets
from millstream.sources.options import DAY

# More in flight at a time share the same cores and were measured to gain nothing; and some jobs must know the newest
# event times of the one before them. `plan.compute.OPEN_AT_ONCE` allows for it.
_AHEAD = 1


@dataclass(frozen=True, slots=True)
class Job:
    """A cut of a stream to be read for some views."""

    entry: StreamEntry
    start: Offsets
    cut: Cut
    plans: tuple[View, ...]
    at: int = 0
    """When it was cut, in processing time."""
    newest: Mapping[int, int] = field(default_factory=dict)
    """The newest event times before the cut; only where the slack follows lateness."""
    fault: MillstreamError | None = None
    """Why it cannot be read, if that is known before."""

    def portion(self) -> Portion:
        """What is computed of it. Raises the fault, if there is one."""
        if self.fault is not None:
            raise self.fault
        entry = self.entry
        max_ahead = entry.options.max_ahead if entry.options.max_ahead is not None else DAY
        return Portion(entry.stream, self.cut.slice, self.plans, max_ahead, entry.source.partitions, self.newest)


@dataclass(frozen=True, slots=True)
class Read:
    """What became of a job. Open until it is committed: late and dead rows may be asked for."""

    job: Job
    opened: OpenRows
    stats: StreamStats
    deltas: dict[str, ViewDelta]
    table_rows: pa.Table | None
    seconds: float
    failures: Mapping[str, MillstreamError] = field(default_factory=dict)
    """The views whose deltas cannot be computed, and why."""
    work_seconds: float = 0.0


Following = Callable[[Mapping[str, Progress]], tuple[Job, ...]]
"""The jobs that follow when streams have come some way."""


class Reader:
    """Reads sets of jobs, some of them ahead of the caller."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._pool = ThreadPoolExecutor(_AHEAD, thread_name_prefix="millstream-read-ahead")
        self._ahead: deque[tuple[tuple[Job, ...], Future[list[Read]]]] = deque()

    @property
    def is_ahead(self) -> bool:
        """Whether something is being read that nobody has asked for yet."""
        return bool(self._ahead)

    def ahead(self, is_current: Callable[[Job], bool]) -> tuple[Job, ...] | None:
        """The next jobs that are being read ahead, if they are still the right ones."""
        if not self._ahead:
            return None
        jobs, _ = self._ahead[0]
        if all(is_current(job) for job in jobs):
            return jobs
        self.discard()
        return None

    def read(self, jobs: Sequence[Job]) -> list[Read]:
        """The results of jobs, computed now or already ahead."""
        if self._ahead and self._ahead[0][0] is jobs:
            _, future = self._ahead.popleft()
            return future.result()
        return self._read(jobs)

    def go_ahead(self, reached: Mapping[str, Progress], following: Following) -> None:
        """Begin to read what follows while the caller goes on."""
        if self._ahead:
            return
        jobs = following(reached)
        if jobs:
            self._ahead.append((jobs, self._pool.submit(self._read, jobs, ahead=True)))

    def took(self, reads: Sequence[Read], commit_seconds: float) -> None:
        """Learn what the tasks of an epoch and its commit took."""
        if any(read.stats.rows for read in reads):
            self._lane.took(sum(read.work_seconds for read in reads), commit_seconds)

    def discard(self) -> None:
        """Drop what was read ahead."""
        while self._ahead:
            _, future = self._ahead.popleft()
            if not future.cancel() and future.exception() is None:
                for read in future.result():
                    read.opened.close()

    def close(self) -> None:
        self.discard()
        self._pool.shutdown()

    def _read(self, jobs: Sequence[Job], *, ahead: bool = False) -> list[Read]:
        found = self._lane.read([job.portion() for job in jobs], ahead=ahead)
        return [_read(job, done) for job, done in zip(jobs, found, strict=True)]


def _read(job: Job, done: Computed) -> Read:
    return Read(
        job, done.opened, done.stats, done.deltas, done.table_rows, done.seconds, done.failures, done.work_seconds
    )
