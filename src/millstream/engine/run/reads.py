"""Spark's side of epochs, run ahead of the commits.

While an epoch is judged and committed, Spark already computes the deltas of the next one, if its
rows are there: where a slice begins does not depend on how the one before it ends up. What is
computed ahead is used only if nothing has changed since (offsets, views); otherwise it is dropped,
which costs time and nothing else.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import ceil

import pyarrow as pa
from pyspark.sql import SparkSession

from millstream.engine.define.catalog import StreamEntry
from millstream.kernel.agreement import NotNativeError
from millstream.kernel.lines import RefusedError
from millstream.kernel.native import NativeView
from millstream.kernel.program import partners
from millstream.model.errors import MillstreamError, own_fault
from millstream.model.settings import Kernel
from millstream.plan.nodes import AggregateView, Stream, View
from millstream.plan.slices import BatchSlice, Slice
from millstream.sources import Cut, Offsets
from millstream.sources.options import DAY
from millstream.spark.epoch import OpenEpoch, StreamStats, ViewDelta
from millstream.spark.native import NativeEpoch, NativeForms, evaluate_together
from millstream.spark.relation import Decoder
from millstream.spark.trials import Trials
from millstream.store.protocol import Progress

# More in flight at a time share the same cores and were measured to gain nothing; and some jobs must know the newest
# event times of the one before them.
_AHEAD = 1
GENERATIONS = _AHEAD + 2
"""How many sets of temporary views a reader uses in turn."""


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


@dataclass(frozen=True, slots=True)
class Read:
    """What Spark has made of a job. Open until it is committed: late and dead rows may be asked for."""

    job: Job
    opened: OpenEpoch | NativeEpoch
    stats: StreamStats
    deltas: dict[str, ViewDelta]
    table_rows: pa.Table | None
    seconds: float
    failures: Mapping[str, MillstreamError] = field(default_factory=dict)
    """The views that Spark cannot compute a delta of, and why."""


Following = Callable[[Mapping[str, Progress]], tuple[Job, ...]]
"""The jobs that follow when streams have come some way."""


class Reader:
    """Reads sets of jobs, some of them ahead of the caller."""

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        prepare: Callable[[SparkSession], None],
        forms: NativeForms,
        kernel: Kernel = "auto",
        *,
        first_generation: int = 0,
    ) -> None:
        self._spark = spark
        self._prepare = prepare
        self._pool = ThreadPoolExecutor(_AHEAD, thread_name_prefix="millstream-read-ahead")
        self._ahead: deque[tuple[tuple[Job, ...], Future[list[Read]]]] = deque()
        self._first = first_generation
        self._generation = 0
        self._trials = Trials()
        self.forms = forms
        self._most_tasks: int | None = None
        # What the last epoch took: the time of processors in its tasks, and that of its commit.
        self._work_seconds = 0.0
        self._commit_seconds = 0.0
        self.kernel: Kernel = kernel

    def sharing(self, part: View, stream: Stream, live: Sequence[View]) -> list[str] | str:
        """The other live parts that share the aggregation of a part in the kernel; or why that does not have it."""
        if self.kernel == "spark":
            return "kernel is set to 'spark'"
        spark = self._spark()
        form = self.forms.form(spark, stream, part)
        if isinstance(form, NotNativeError):
            return str(form)
        others = [self.forms.form(spark, stream, view) for view in live if view.name != part.name]
        return partners(form, [other for other in others if isinstance(other, NativeView)])

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
        return self._read_all(jobs, self._next_generation())

    def go_ahead(self, reached: Mapping[str, Progress], following: Following) -> None:
        """Begin to read what follows while the caller goes on."""
        if self._ahead:
            return
        jobs = following(reached)
        if jobs:
            self._ahead.append((jobs, self._pool.submit(self._read_all, jobs, self._next_generation(), ahead=True)))

    def took(self, reads: Sequence[Read], commit_seconds: float) -> None:
        """Learn what the tasks of an epoch and its commit took."""
        if any(read.stats.rows for read in reads):
            native = [read.opened for read in reads if isinstance(read.opened, NativeEpoch)]
            self._work_seconds = sum(opened.work_seconds for opened in native)
            self._commit_seconds = commit_seconds

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

    def _next_generation(self) -> int:
        """Sets of temporary views for all that may be open at a time."""
        self._generation = (self._generation + 1) % GENERATIONS
        return self._first + self._generation

    def _read_all(self, jobs: Sequence[Job], generation: int, *, ahead: bool = False) -> list[Read]:
        started = time.perf_counter()
        reads: list[Read] = []
        # Where the kernel is asked for, no refusal counts.
        trials = Trials() if self.kernel == "native" else self._trials
        openings = [_Opening(self, job, generation, trials, ahead) for job in jobs]
        native = [opening.native for opening in openings if opening.native is not None]
        try:
            if native:
                try:
                    evaluate_together(native[0].spark, self.forms, native)
                except Exception as error:
                    if own_fault(error) is None:
                        raise
                    # Which view is at fault is found by Spark SQL, one at a time.
                    for opening in openings:
                        opening.leave_kernel()
            together = (time.perf_counter() - started) / max(1, len(jobs))
            for opening in openings:
                reads.append(opening.read(together))  # noqa: PERF401, a failure must find what is open already
        except BaseException:
            for opened in (*native, *(read.opened for read in reads)):
                opened.close()
            raise
        return reads

    def session(self, slice_: Slice) -> SparkSession:
        """The session in which a slice is read."""
        spark = slice_.frame.sparkSession if isinstance(slice_, BatchSlice) else self._spark()
        self._prepare(spark)
        return spark

    def tasks(self, spark: SparkSession, *, ahead: bool) -> int:
        """How many tasks a job may have at a time.

        One that is done beside a commit has as many as are ready when the commit is: what more of them find of
        the same groups, the store would have to put together.
        """
        if self._most_tasks is None:
            most = spark.sparkContext.defaultParallelism
            self._most_tasks = min(int(spark.conf.get("spark.sql.shuffle.partitions") or most), most)
        return tasks_beside(self._work_seconds, self._commit_seconds, self._most_tasks) if ahead else self._most_tasks


def tasks_beside(work: float, commit: float, most: int) -> int:
    """How many tasks do so many seconds of work during a commit, if not all.

    >>> [tasks_beside(work, 1.0, 4) for work in (0.2, 1.5, 9.0)], tasks_beside(0.2, 0.0, 4)
    ([1, 2, 4], 4)
    """
    return max(1, min(most, ceil(work / commit))) if commit else most


@contextmanager
def _left_to_spark() -> Iterator[None]:
    """Whatever fails inside because of a view is tried again by Spark SQL, which finds out which it is."""
    try:
        yield
    except Exception as error:
        if own_fault(error) is None:
            raise


@contextmanager
def _closed_on_failure(opened: OpenEpoch) -> Iterator[None]:
    try:
        yield
    except BaseException:
        opened.close()
        raise


_Apart = tuple[OpenEpoch, StreamStats, dict[str, ViewDelta], dict[str, MillstreamError]]
"""What was read, and the views that failed."""


class _Opening:
    """A job on its way to becoming a read: by the kernel if that takes it, else by Spark SQL."""

    def __init__(self, reader: Reader, job: Job, generation: int, trials: Trials, ahead: bool) -> None:
        entry, slice_ = job.entry, job.cut.slice
        self._job = job
        self._generation = generation
        self._trials = trials
        self._spark = reader.session(slice_)
        self._max_ahead = entry.options.max_ahead if entry.options.max_ahead is not None else DAY
        # Which of two rows of a file came first is known to Spark's reader only: where that matters, it reads them.
        self.native: NativeEpoch | None = None
        if reader.kernel == "spark" or entry.stream.is_ordered or not trials.is_due(entry.name):
            return
        on_clock = any(isinstance(view, AggregateView) and view.on_clock for view in job.plans)
        with suppress(RefusedError), _left_to_spark():
            self.native = NativeEpoch(
                self._spark,
                slice_,
                entry.stream,
                self._max_ahead,
                job.plans,
                reader.forms,
                reader.tasks(self._spark, ahead=ahead),
                trials,
                self._on_spark,
                on_clock,
            )

    def _on_spark(self, views: Sequence[View]) -> OpenEpoch:
        entry, slice_ = self._job.entry, self._job.cut.slice
        decoder = Decoder(entry.stream, self._max_ahead, self._generation)
        return OpenEpoch(self._spark, decoder, slice_, views, entry.source.partitions, self._job.newest)

    def leave_kernel(self) -> None:
        """Read by Spark SQL after all."""
        if self.native is not None:
            self.native.close()
            self.native = None

    def read(self, together: float) -> Read:
        """The read, when the tasks of the kernel are done; `together` is this job's share of their time."""
        started = time.perf_counter() - together
        job, entry = self._job, self._job.entry
        if self.native is not None:
            with _left_to_spark():
                try:
                    stats, deltas = self.native.finish()
                    self._trials.record(entry.name, refused=False)
                    return Read(job, self.native, stats, deltas, None, time.perf_counter() - started)
                except RefusedError:
                    self._trials.record(entry.name, refused=True)
            self.leave_kernel()
        if entry.is_table:
            opened = self._on_spark(job.plans)
            with _closed_on_failure(opened):
                stats, table_rows = opened.run_table()
            return Read(job, opened, stats, {}, table_rows, time.perf_counter() - started)
        opened, stats, deltas, failures = self._run_apart(job.plans)
        return Read(job, opened, stats, deltas, None, time.perf_counter() - started, failures)

    def _run_apart(self, views: Sequence[View]) -> _Apart:
        """The deltas of views by one job; if it fails, without those that fail by themselves."""
        fault = None
        try:
            return *self._run(views), {}
        except Exception as error:
            fault = own_fault(error)
            if fault is None or not views:
                raise
        # If this fails too, no view is at fault but the rows, or Spark.
        self._run(())[0].close()
        failures = {views[0].name: fault} if len(views) == 1 else self._failing(views)
        return *self._run([view for view in views if view.name not in failures]), failures

    def _failing(self, views: Sequence[View]) -> dict[str, MillstreamError]:
        """The views that fail by themselves, and why."""
        failures: dict[str, MillstreamError] = {}
        for view in views:
            try:
                self._run((view,))[0].close()
            except Exception as error:
                fault = own_fault(error)
                if fault is None:
                    raise
                failures[view.name] = fault
        return failures

    def _run(self, views: Sequence[View]) -> tuple[OpenEpoch, StreamStats, dict[str, ViewDelta]]:
        opened = self._on_spark(views)
        with _closed_on_failure(opened):
            return opened, *opened.run()
