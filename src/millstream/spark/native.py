"""One epoch of one stream by the kernel: Spark schedules, distributes and retries, the kernel computes.

The counterpart of `OpenEpoch`, with the same questions and the same answers. A job of plain tasks,
without planning or shuffle: each task evaluates all views over its share, and the driver makes one
delta of theirs. What the kernel does not take goes to Spark SQL: rows that it refuses, views that it
cannot express, views on whose rows it failed, and whole rows that are asked for afterwards.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark import RDD, Broadcast, SparkContext
from pyspark.sql import SparkSession

from millstream.duck.connection import open_kernel
from millstream.kernel.agreement import NotNativeError
from millstream.kernel.evaluation import Outcome, evaluate, select
from millstream.kernel.handover import Parcel, drop, receive
from millstream.kernel.lines import RefusedError
from millstream.kernel.native import NativeView, late_sql, native_view
from millstream.kernel.program import PIECES, Program, Query, check_binding
from millstream.kernel.shares import Share, share_out
from millstream.plan.compute import StreamStats, ViewDelta
from millstream.plan.nodes import AggregateView, Stream, View
from millstream.plan.slices import Slice
from millstream.spark.epoch import OpenEpoch, delta_schema
from millstream.spark.errors import reported
from millstream.spark.trials import Trials

# As many sets of views as live epochs and readers of the past have at a time, and more.
_MOST_PROGRAMS = 16


class NativeForms:
    """The kernel's forms of views, each made once and kept while the view lives, and the programs made of them."""

    def __init__(self, directory: str | None) -> None:
        self.directory = directory
        """Through which large tables come back from tasks, if executors can reach it."""
        self._lock = threading.Lock()
        self._connection = open_kernel(threads=os.cpu_count() or 1)
        self._forms: dict[tuple[Stream, View], NativeView | NotNativeError] = {}
        self._programs: dict[tuple[object, ...], Program] = {}
        self._broadcasts: dict[Program, Broadcast[Program]] = {}
        self._nothing: dict[int, RDD[object]] = {}
        self._context: SparkContext | None = None
        """The Spark that has these broadcasts and lists."""

    def form(
        self, spark: SparkSession, stream: Stream, view: View, schema: pa.Schema | None = None
    ) -> NativeView | NotNativeError:
        """A view for the kernel, or why it is left to Spark; Spark is asked for the schema of its delta if need be."""
        with self._lock:
            key = (stream, view)
            if key not in self._forms:
                types = schema if schema is not None else delta_schema(spark, stream, view)
                try:
                    form = native_view(view, stream, types)
                    check_binding(form, stream, self._connection)
                    self._forms[key] = form
                except NotNativeError as error:
                    self._forms[key] = error
            return self._forms[key]

    def keep(self, views: Iterable[View]) -> None:
        """Let go of the forms of all views but these."""
        live = set(views)
        with self._lock:
            self._forms = {key: form for key, form in self._forms.items() if key[1] in live}

    def program(
        self, stream: Stream, max_ahead: int | None, views: tuple[NativeView, ...], needs_landed: bool
    ) -> Program:
        """The program of some views, the same one each time; those that were not asked for longest are let go."""
        with self._lock:
            key = (stream, max_ahead, views, needs_landed)
            program = self._programs.pop(key, None) or Program(*key)
            self._programs[key] = program
            if len(self._programs) > _MOST_PROGRAMS:
                oldest = self._broadcasts.pop(self._programs.pop(next(iter(self._programs))), None)
                if oldest is not None:
                    oldest.unpersist()
            return program

    def _bind(self, spark: SparkSession) -> SparkContext:
        """Begin again with what lives in Spark if that is another one than before."""
        context = spark.sparkContext
        if self._context is not context:
            self._broadcasts.clear()
            self._nothing.clear()
            self._context = context
        return context

    def broadcast(self, spark: SparkSession, program: Program) -> Broadcast[Program]:
        """A program where tasks find it."""
        with self._lock:
            context = self._bind(spark)
            if program not in self._broadcasts:
                self._broadcasts[program] = context.broadcast(program)
            return self._broadcasts[program]

    def nothing(self, spark: SparkSession, tasks: int) -> RDD[object]:
        """What so many tasks read if all that they need comes with them: to hand out rows takes 3 ms a time."""
        with self._lock:
            context = self._bind(spark)
            if tasks not in self._nothing:
                self._nothing[tasks] = context.parallelize([], tasks)
            return self._nothing[tasks]

    def combine(self, query: Query, pieces: Sequence[pa.Table]) -> pa.Table:
        """One result of those that several tasks have of a query."""
        some = [piece for piece in pieces if piece.num_rows] or pieces[:1]
        result = pa.concat_tables(some)
        if query.combine is None or len(some) == 1:
            return result
        with self._lock:
            self._connection.register(PIECES, result)
            try:
                return self._connection.sql(query.combine).to_arrow_table()
            finally:
                self._connection.unregister(PIECES)

    def close(self) -> None:
        with self._lock:
            self._connection.close()


Task = Callable[[Program, Share, str | None, int], Any]


def run_tasks(
    spark: SparkSession, forms: NativeForms, work: Sequence[tuple[Program, Share]], task: Task, tasks: int
) -> list[Any]:
    """What a task makes of each share and its number, in one job of so many tasks."""
    programs = list(dict.fromkeys(program for program, _ in work))
    known, directory = [forms.broadcast(spark, program) for program in programs], forms.directory
    # A task costs some milliseconds by itself: there are as many as work at a time, of about the same size.
    loads = balance([share.weight for _, share in work], tasks)
    parts = [[(index, programs.index(work[index][0]), work[index][1]) for index in load] for load in loads]
    with reported():
        nothing = forms.nothing(spark, len(parts))
        found = nothing.mapPartitionsWithIndex(partial(_run, parts, known, directory, task)).collect()
        if len(found) != len(work):
            # PySpark takes it for the end of the results when the JVM is gone while it sends them.
            raise EOFError
    return [outcome for _, outcome in sorted(found, key=itemgetter(0))]


def _run(
    parts: Sequence[Sequence[tuple[int, int, Share]]],
    known: Sequence[Broadcast[Program]],
    directory: str | None,
    task: Task,
    number: int,
    nothing: Iterable[object],
) -> Iterator[tuple[int, Any]]:
    """A task: its part of the shares, each with its number and that of its program."""
    # Only a worker that has read its input to the end is used again.
    assert not list(nothing)
    for index, program, share in parts[number]:
        yield index, task(known[program].value, share, directory, index)


def _may_repeat(view: View) -> bool:
    """Whether the store may be given a group in several rows."""
    if not isinstance(view, AggregateView):
        return False
    return view.is_mergeable and not any(kept.accumulator.floating for kept in view.kept)


def balance(weights: Sequence[int], count: int) -> list[list[int]]:
    """Indexes of weights in `count` lists of about the same sum, the heaviest first; none of them empty.

    >>> balance([1, 5, 3, 2], 2)
    [[1, 0], [2, 3]]
    """
    lists: list[list[int]] = [[] for _ in range(max(1, min(count, len(weights))))]
    for index in sorted(range(len(weights)), key=lambda i: -weights[i]):
        min(lists, key=lambda chosen: sum(weights[i] for i in chosen)).append(index)
    return lists


def evaluate_together(spark: SparkSession, forms: NativeForms, epochs: Sequence[NativeEpoch]) -> None:
    """The shares of all streams of an epoch, in one job."""
    work = [(epoch.program, share) for epoch in epochs for share in epoch.shares]
    outcomes = iter(run_tasks(spark, forms, work, evaluate, max(epoch.tasks for epoch in epochs)))
    for epoch in epochs:
        epoch.outcomes = [next(outcomes) for _ in epoch.shares]


@dataclass(slots=True)
class NativeEpoch:
    """The rows of one stream in one epoch, open until they are committed.

    Raises `RefusedError` if the kernel does not take the rows, when it is made or when it is finished.
    """

    spark: SparkSession
    slice: Slice
    stream: Stream
    max_ahead: int | None
    views: Sequence[View]
    forms: NativeForms
    tasks: int
    trials: Trials
    leave_to_spark: Callable[[Sequence[View]], OpenEpoch]
    """Opens the same rows for some views on Spark SQL."""
    needs_landed: bool = False
    program: Program = field(init=False)
    shares: list[Share] = field(init=False)
    outcomes: list[Outcome] = field(init=False, default_factory=list)
    _dead_rows: list[pa.Table] = field(init=False, default_factory=list)
    _on_spark: OpenEpoch | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.shares = share_out(self.slice, self.stream.schema.to_arrow(), self.tasks)
        due = [view for view in self.views if self.trials.is_due(view.name)]
        found = [self.forms.form(self.spark, self.stream, view) for view in due]
        native = tuple(form for form in found if isinstance(form, NativeView))
        if self.views and not native:
            raise RefusedError("there is no view for it")
        self.program = self.forms.program(self.stream, self.max_ahead, native, self.needs_landed)

    @property
    def work_seconds(self) -> float:
        """The time of processors that the tasks took."""
        return sum(outcome.seconds for outcome in self.outcomes)

    def finish(self) -> tuple[StreamStats, dict[str, ViewDelta]]:
        """The statistics of the stream and the delta of every view, once the tasks are done."""
        outcomes = self.outcomes
        refused = next((outcome.refused for outcome in outcomes if outcome.refused is not None), None)
        if refused is not None:
            drop([parcel for outcome in outcomes for parcel in (outcome.dead_rows, *outcome.results)])
            raise RefusedError(refused)
        stats = _stats(outcomes)
        self._dead_rows = [receive(outcome.dead_rows) for outcome in outcomes if outcome.dead_rows is not None]
        deltas: dict[str, ViewDelta] = {}
        # What the store puts together anyway need not be put together before. Floating-point numbers are: the store
        # would sort them first, to add them in one order.
        may_repeat = {view.name: _may_repeat(view) for view in self.views}
        for number, query in enumerate(self.program.queries):
            pieces = [outcome.results[number] for outcome in outcomes]
            failed = any(piece is None for piece in pieces)
            if failed:
                drop(pieces)
            else:
                results = [receive(piece) for piece in pieces if piece is not None]
                repeats = all(may_repeat[self.program.views[view].name] for view in query.views)
                if not repeats:
                    results = [self.forms.combine(query, results)]
                counted = [outcome.used[number] for outcome in outcomes]
                for view, rows in query.deltas(results, self.program.views).items():
                    form = self.program.views[view]
                    deltas[form.name] = _delta(form, rows, stats, counted, repeats and len(results) > 1)
            for view in query.views:
                self.trials.record(self.program.views[view].name, failed)
        rest = [view for view in self.views if view.name not in deltas]
        if rest:
            self._on_spark = self.leave_to_spark(rest)
            deltas |= self._on_spark.run()[1]
        return stats, deltas

    def dead_rows(self) -> pa.Table:
        return pa.concat_tables(self._dead_rows)

    def late_rows(self, view: View, before: int) -> pa.Table:
        sql = late_sql(view, self.stream, before)
        if sql is None or self._on_spark is not None:
            return self._spark_epoch(view).late_rows(view, before)
        work = [(self.program, share) for share in self.shares]

        def find(program: Program, share: Share, directory: str | None, _: int) -> Parcel:
            return select(program, share, directory, sql)

        parcels = run_tasks(self.spark, self.forms, work, find, self.tasks)
        return pa.concat_tables([receive(parcel) for parcel in parcels])

    def failed_rows(self, view: View) -> pa.Table:
        return self._spark_epoch(view).failed_rows(view)

    def _spark_epoch(self, view: View) -> OpenEpoch:
        if self._on_spark is None:
            self._on_spark = self.leave_to_spark([view])
        return self._on_spark

    def close(self) -> None:
        if self._on_spark is not None:
            self._on_spark.close()


def _delta(
    form: NativeView, rows: pa.Table, stats: StreamStats, counted: Sequence[int | None], repeats: bool
) -> ViewDelta:
    if form.top is not None:
        used = sum(count or 0 for count in counted)
    else:
        used = int(rows.column("__rows").to_numpy().sum()) if form.is_grouped else rows.num_rows
    return ViewDelta(rows, used=used, filtered=stats.rows - stats.dead - used, failed=0, repeats=repeats)


def _stats(outcomes: Sequence[Outcome]) -> StreamStats:
    newest: dict[int, int] = {}
    landed: dict[int, int] = {}
    for outcome in outcomes:
        for known, found in ((newest, outcome.newest), (landed, outcome.landed)):
            for partition, at in found:
                known[partition] = max(at, known.get(partition, at))
    return StreamStats(sum(o.rows for o in outcomes), sum(o.dead for o in outcomes), newest, landed)
