"""Reads that follow one another: by the kernel where it takes them, else by Spark SQL.

Owns that choice, the number of tasks, and which temporary views belong to which read. What always
holds: of portions that are read together, all are open afterwards or none.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import ceil

from pyspark.sql import SparkSession

from millstream.kernel.lines import RefusedError
from millstream.model.errors import MillstreamError, own_fault
from millstream.model.settings import Kernel
from millstream.plan.compute import OPEN_AT_ONCE, Computed, Portion, StreamStats, ViewDelta
from millstream.plan.nodes import AggregateView, View
from millstream.plan.slices import BatchSlice, Slice
from millstream.spark.epoch import OpenEpoch
from millstream.spark.errors import reported
from millstream.spark.native import NativeEpoch, NativeForms, evaluate_together
from millstream.spark.relation import Decoder
from millstream.spark.sessions import Sessions
from millstream.spark.trials import Trials


@dataclass(slots=True)
class KernelChoice:
    """What computes deltas, for all lanes of a database."""

    kernel: Kernel


class SparkLane:
    def __init__(
        self,
        sessions: Sessions,
        spark: Callable[[], SparkSession],
        forms: NativeForms,
        choice: KernelChoice,
        number: int,
    ) -> None:
        self._sessions = sessions
        self._spark = spark
        self._forms = forms
        self._choice = choice
        self._trials = Trials()
        # Lanes of one session use different temporary views.
        self._first = number * OPEN_AT_ONCE
        self._generation = 0
        self._lock = threading.Lock()
        self._most_tasks: int | None = None
        # What the last epoch took: the time of processors in its tasks, and that of its commit.
        self._work_seconds = 0.0
        self._commit_seconds = 0.0

    def read(self, portions: Sequence[Portion], *, ahead: bool = False) -> list[Computed]:
        with reported():
            return self._read(portions, ahead=ahead)

    def _read(self, portions: Sequence[Portion], *, ahead: bool) -> list[Computed]:
        started = time.perf_counter()
        generation = self._next_generation()
        done: list[Computed] = []
        # Where the kernel is asked for, no refusal counts.
        trials = Trials() if self._choice.kernel == "native" else self._trials
        openings = [self._opening(portion, generation, trials, ahead) for portion in portions]
        native = [opening.native for opening in openings if opening.native is not None]
        try:
            if native:
                try:
                    evaluate_together(native[0].spark, self._forms, native)
                except Exception as error:
                    if own_fault(error) is None:
                        raise
                    # Which view is at fault is found by Spark SQL, one at a time.
                    for opening in openings:
                        opening.leave_kernel()
            together = (time.perf_counter() - started) / max(1, len(portions))
            for opening in openings:
                done.append(opening.read(together))  # noqa: PERF401, a failure must find what is open already
        except BaseException:
            for opened in (*native, *(computed.opened for computed in done)):
                opened.close()
            raise
        return done

    def took(self, work_seconds: float, commit_seconds: float) -> None:
        self._work_seconds, self._commit_seconds = work_seconds, commit_seconds

    def _next_generation(self) -> int:
        """Sets of temporary views for all that may be open at a time."""
        with self._lock:
            self._generation = (self._generation + 1) % OPEN_AT_ONCE
            return self._first + self._generation

    def _session(self, slice_: Slice) -> SparkSession:
        """The session in which a slice is read."""
        return self._sessions.prepared(slice_.frame.sparkSession) if isinstance(slice_, BatchSlice) else self._spark()

    def _tasks(self, spark: SparkSession, *, ahead: bool) -> int:
        """The number of tasks that a job may have at a time.

        A job that runs during a commit has as many as are ready when the commit is. More of them would find the
        same groups again, and the store would have to merge these.
        """
        if self._most_tasks is None:
            most = spark.sparkContext.defaultParallelism
            self._most_tasks = min(int(spark.conf.get("spark.sql.shuffle.partitions") or most), most)
        return tasks_beside(self._work_seconds, self._commit_seconds, self._most_tasks) if ahead else self._most_tasks

    def _opening(self, portion: Portion, generation: int, trials: Trials, ahead: bool) -> _Opening:
        opening = _Opening(portion, self._session(portion.slice), generation, trials)
        # Which of two rows of a file came first is known to Spark's reader only: where that matters, it reads them.
        if self._choice.kernel != "spark" and not portion.stream.is_ordered and trials.is_due(portion.stream.name):
            opening.try_kernel(self._forms, self._tasks(opening.spark, ahead=ahead))
        return opening


def tasks_beside(work: float, commit: float, most: int) -> int:
    """The number of tasks that do `work` seconds of work during a commit of `commit` seconds, at most all.

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


@dataclass(slots=True)
class _Opening:
    """A portion on its way to being read: by the kernel if that takes it, else by Spark SQL."""

    portion: Portion
    spark: SparkSession
    generation: int
    trials: Trials
    native: NativeEpoch | None = None

    def try_kernel(self, forms: NativeForms, tasks: int) -> None:
        portion = self.portion
        on_clock = any(isinstance(view, AggregateView) and view.on_clock for view in portion.views)
        with suppress(RefusedError), _left_to_spark():
            self.native = NativeEpoch(
                self.spark,
                portion.slice,
                portion.stream,
                portion.max_ahead,
                portion.views,
                forms,
                tasks,
                self.trials,
                self._on_spark,
                on_clock,
            )

    def _on_spark(self, views: Sequence[View]) -> OpenEpoch:
        portion = self.portion
        decoder = Decoder(portion.stream, portion.max_ahead, self.generation)
        return OpenEpoch(self.spark, decoder, portion.slice, views, portion.partitions, portion.newest)

    def leave_kernel(self) -> None:
        """Read by Spark SQL after all."""
        if self.native is not None:
            self.native.close()
            self.native = None

    def read(self, together: float) -> Computed:
        """What became of it, when the tasks of the kernel are done; `together` is its share of their time."""
        started = time.perf_counter() - together
        stream, views = self.portion.stream, self.portion.views
        if self.native is not None:
            native = self.native
            with _left_to_spark():
                try:
                    stats, deltas = native.finish()
                    self.trials.record(stream.name, refused=False)
                    seconds = time.perf_counter() - started
                    return Computed(native, stats, deltas, None, seconds, work_seconds=native.work_seconds)
                except RefusedError:
                    self.trials.record(stream.name, refused=True)
            self.leave_kernel()
        if stream.primary_key:
            opened = self._on_spark(views)
            with _closed_on_failure(opened):
                stats, table_rows = opened.run_table()
            return Computed(opened, stats, {}, table_rows, time.perf_counter() - started)
        opened, stats, deltas, failures = self._run_apart(views)
        return Computed(opened, stats, deltas, None, time.perf_counter() - started, failures)

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
