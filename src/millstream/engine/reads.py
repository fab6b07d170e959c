"""Spark's side of epochs, run ahead of the commits.

While an epoch is judged and committed, Spark already computes the deltas of the next one, if its
rows are there: where a slice begins does not depend on how the one before it ends up. What is
computed ahead is used only if nothing has changed since (offsets, views); otherwise it is dropped,
which costs time and nothing else.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import SparkSession

from millstream.engine.catalog import StreamEntry
from millstream.kernel.agreement import NotNativeError
from millstream.kernel.lines import RefusedError
from millstream.kernel.native import NativeView
from millstream.kernel.program import partners
from millstream.model.settings import Kernel
from millstream.plan.nodes import AggregateView, Stream, View
from millstream.plan.slices import BatchSlice, FileSlice
from millstream.sources import Cut, Offsets
from millstream.sources.options import DAY
from millstream.spark.epoch import OpenEpoch, StreamStats, ViewDelta
from millstream.spark.native import NativeEpoch, NativeForms
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
        self._forms = forms
        self._most_tasks: int | None = None
        self.kernel: Kernel = kernel

    def sharing(self, part: View, stream: Stream, live: Sequence[View]) -> tuple[NativeView | str, list[str]]:
        """The kernel's form of a part and the other live parts that share its aggregation; or why it has none."""
        if self.kernel == "spark":
            return "kernel is set to 'spark'", []
        spark = self._spark()
        form = self._forms.form(spark, stream, part)
        if isinstance(form, NotNativeError):
            return str(form), []
        others = [self._forms.form(spark, stream, view) for view in live if view.name != part.name]
        return form, partners(form, [other for other in others if isinstance(other, NativeView)])

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
            self._ahead.append((jobs, self._pool.submit(self._read_all, jobs, self._next_generation())))

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

    def _read_all(self, jobs: Sequence[Job], generation: int) -> list[Read]:
        reads: list[Read] = []
        try:
            for job in jobs:
                reads.append(self._read(job, generation))  # noqa: PERF401, a failure must find what is open already
        except BaseException:
            for read in reads:
                read.opened.close()
            raise
        return reads

    def _read(self, job: Job, generation: int) -> Read:
        entry, slice_ = job.entry, job.cut.slice
        started = time.perf_counter()
        spark = slice_.frame.sparkSession if isinstance(slice_, BatchSlice) else self._spark()
        self._prepare(spark)
        max_ahead = entry.options.max_ahead if entry.options.max_ahead is not None else DAY
        partitions = entry.source.partitions if entry.source is not None else 1
        # Which of two rows of a file came first is known to Spark's reader only.
        by_order = entry.stream.is_ordered
        is_csv = isinstance(slice_, FileSlice) and slice_.format == "csv" and not by_order

        def on_spark(views: Sequence[View]) -> OpenEpoch:
            decoder = Decoder(entry.stream, max_ahead, generation, by_kernel=is_csv and due)
            return OpenEpoch(spark, decoder, slice_, views, partitions, job.newest)

        # Where the kernel is asked for, no refusal counts.
        trials = Trials() if self.kernel == "native" else self._trials
        due = trials.is_due(entry.name)
        opened: OpenEpoch | NativeEpoch
        if due and not by_order and self.kernel != "spark":
            on_clock = any(isinstance(view, AggregateView) and view.on_clock for view in job.plans)
            opened = NativeEpoch(
                spark,
                slice_,
                entry.stream,
                max_ahead,
                job.plans,
                self._forms,
                self._tasks(spark),
                on_spark,
                trials,
                on_clock,
            )
            try:
                stats, deltas = opened.run()
                trials.record(entry.name, refused=False)
                return Read(job, opened, stats, deltas, None, time.perf_counter() - started)
            except RefusedError:
                opened.close()
                due = False
                trials.record(entry.name, refused=True)
            except BaseException:
                opened.close()
                raise
        opened = on_spark(job.plans)
        try:
            table_rows: pa.Table | None = None
            if entry.is_table:
                stats, table_rows = opened.run_table()
                deltas = {}
            else:
                stats, deltas = opened.run()
        except BaseException:
            opened.close()
            raise
        if is_csv and due:
            trials.record(entry.name, opened.refused)
        return Read(job, opened, stats, deltas, table_rows, time.perf_counter() - started)

    def _tasks(self, spark: SparkSession) -> int:
        """How many tasks a session may have at a time."""
        if self._most_tasks is None:
            most = spark.sparkContext.defaultParallelism
            self._most_tasks = min(int(spark.conf.get("spark.sql.shuffle.partitions") or most), most)
        return self._most_tasks
