"""What computes deltas without a JVM: the kernel in this process, behind the protocol `Compute`.

For unit tests of the engine. Rows are decoded and aggregated by the same kernel that Spark's tasks run,
and types are DuckDB's, put right where Spark has another (`_spark_type`). What the kernel leaves to
Spark SQL is refused, so a test that needs it belongs to `tests/integration`. Two things are computed
here because the kernel leaves them to Spark: lines that cannot be decoded, and the changes of tables.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millstream.duck import quote, store_sql
from millstream.duck.connection import open_kernel
from millstream.kernel.agreement import NotNativeError
from millstream.kernel.evaluation import evaluate, select
from millstream.kernel.handover import receive
from millstream.kernel.json_lines import JsonKernel
from millstream.kernel.lines import RefusedError
from millstream.kernel.native import ROWS, NativeView, late_sql, native_view, parsed, rows_schema
from millstream.kernel.program import Program, check_binding, partners
from millstream.kernel.shares import read_rows, share_out
from millstream.model.errors import MillstreamError
from millstream.model.schema import TIMESTAMP, Schema
from millstream.model.settings import Kernel
from millstream.model.user_functions import UserFunction
from millstream.plan.compute import Computed, Deliver, LaneName, Portion, StreamStats, ViewDelta
from millstream.plan.nodes import AggregateView, Stream, View
from millstream.plan.slices import BatchSlice, FrameSlice, RowsSlice

_PLACE = ("__p", "__o", "__landed", "__pt")


class InProcessCompute:
    def __init__(self, directory: Path | None = None) -> None:
        self.functions: tuple[UserFunction, ...] = ()
        self.kernel: Kernel = "auto"
        self.sources: list[PushedRows] = []
        self.on_read: Callable[[Portion], object] = lambda portion: None
        """Called before a portion is read: a test may wait or raise in it."""
        self.asked: list[tuple[str, str]] = []
        """The rows that were asked for after a read: (kind, relation)."""
        self.open = 0
        """The number of open reads."""
        self.typed = 0
        """The number of expressions whose types were asked for."""
        self.forms: dict[tuple[Stream, View], NativeView] = {}
        self._connection = open_kernel(threads=1)
        self._typing = threading.RLock()
        """Threads that run concurrently share the connection."""
        self._lanes: dict[LaneName, InProcessLane] = {
            "present": InProcessLane(self),
            "past": InProcessLane(self),
            "beside": InProcessLane(self),
        }

    def begin(self) -> None:
        pass

    def warm_up(self) -> None:
        pass

    # -- definitions -----------------------------------------------------------------------------

    def types(self, stream: Stream, sqls: Sequence[str]) -> list[pa.DataType]:
        self.typed += len(sqls)
        with self._typing:
            return self._types(stream, sqls)

    def _types(self, stream: Stream, sqls: Sequence[str]) -> list[pa.DataType]:
        return [self._described(stream, [(store_sql(parsed(sql)), "c")]).field("c").type for sql in sqls]

    def schema(self, stream: Stream, view: View) -> pa.Schema:
        return self.form(stream, view).schema

    def form(self, stream: Stream, view: View) -> NativeView:
        with self._typing:
            return self._form(stream, view)

    def _form(self, stream: Stream, view: View) -> NativeView:
        if (stream, view) not in self.forms:
            try:
                untyped = native_view(view, stream, _AnySchema())
                columns = [*((sql, name) for name, sql in untyped.keys), *((o.sql, o.name) for o in untyped.outputs)]
                form = native_view(view, stream, self._described(stream, columns))
                check_binding(form, stream, self._connection)
            except NotNativeError as error:
                raise MillstreamError("NOT_SUPPORTED", f"{view.name} is left to Spark: {error}") from None
            self.forms[stream, view] = form
        return self.forms[stream, view]

    def _described(self, stream: Stream, columns: Sequence[tuple[str, str]]) -> pa.Schema:
        """The columns that a query over the rows of a stream has."""
        rows = pa.schema([*rows_schema(stream), pa.field("__wt", pa.int64())]).empty_table()
        self._connection.register(ROWS, rows)
        try:
            listed = ", ".join(f"{sql} AS {quote(name)}" for sql, name in columns)
            found = self._connection.sql(f"SELECT {listed} FROM {ROWS} GROUP BY ALL").to_arrow_table().schema
        except duckdb.Error as error:
            raise MillstreamError("INVALID_EXPRESSION", str(error).splitlines()[0]) from None
        finally:
            self._connection.unregister(ROWS)
        return pa.schema([pa.field(each.name, _spark_type(each.type)) for each in found])

    def keep(self, views: Iterable[View]) -> None:
        live = set(views)
        self.forms = {key: form for key, form in self.forms.items() if key[1] in live}

    def sharing(self, part: View, stream: Stream, live: Sequence[View]) -> list[str] | str:
        others = [self.form(stream, view) for view in live if view.name != part.name]
        return partners(self.form(stream, part), others)

    def use_functions(self, functions: Sequence[UserFunction]) -> None:
        self.functions = tuple(functions)

    def use_kernel(self, kernel: Kernel) -> None:
        self.kernel = kernel

    # -- rows ------------------------------------------------------------------------------------

    def lane(self, name: LaneName) -> InProcessLane:
        return self._lanes[name]

    def streaming(
        self, format_: str, path: str | None, options: Mapping[str, str], schema: Schema, checkpoint: Path
    ) -> PushedRows:
        """Rows that a test pushes, for the stream that names them as its path, or for the only one: see `push`."""
        (source,) = self.sources if path is None else [each for each in self.sources if each.name == path]
        return source

    def push(self, stream: str, *batches: pa.Table) -> PushedRows:
        """The batches that a stream of `source = 'spark'` has."""
        source = PushedRows(stream, list(batches))
        self.sources.append(source)
        return source

    def close(self) -> None:
        self._connection.close()


@dataclass
class InProcessLane:
    compute: InProcessCompute
    reads: list[tuple[tuple[str, ...], bool]] = field(default_factory=list)
    """The streams of each read, and whether it was ahead."""
    costs: list[tuple[float, float]] = field(default_factory=list)

    def read(self, portions: Sequence[Portion], *, ahead: bool = False) -> list[Computed]:
        self.reads.append((tuple(portion.stream.name for portion in portions), ahead))
        for portion in portions:
            self.compute.on_read(portion)
        done = [_computed(self.compute, portion) for portion in portions]
        self.compute.open += len(done)
        return done

    def took(self, work_seconds: float, commit_seconds: float) -> None:
        self.costs.append((work_seconds, commit_seconds))


@dataclass
class PushedRows:
    """Stands in for a query of Structured Streaming: batch n is the n-th table."""

    name: str
    batches: list[pa.Table]
    ended: MillstreamError | None = None
    deliver: Deliver | None = None

    def run_available(self, deliver: Deliver) -> None:
        if self.ended is not None:
            raise self.ended
        for number, batch in enumerate(self.batches):
            deliver(BatchSlice(batch, number))

    def start(self, deliver: Deliver) -> None:
        self.run_available(deliver)
        self.deliver = deliver

    def push(self, batch: pa.Table) -> None:
        """Another batch, while the query runs."""
        assert self.deliver is not None
        self.batches.append(batch)
        self.deliver(BatchSlice(batch, len(self.batches) - 1))

    def stop(self) -> None:
        self.deliver = None

    def failure(self) -> MillstreamError | None:
        return self.ended


# -- one portion ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Share:
    """Rows that were read already, as a share of the kernel."""

    rows: pa.Table

    def read(self, schema: pa.Schema, *, raw: bool = False) -> pa.Table:
        return self.rows if raw else self.rows.drop_columns(["__raw"])


@dataclass
class InProcessRows:
    compute: InProcessCompute
    portion: Portion
    rows: pa.Table
    program: Program
    dead: pa.Table
    failed: dict[str, dict[int, str]]
    """By view: rows on which it fails, by number, each with the reason."""
    closed: bool = False

    def dead_rows(self) -> pa.Table:
        self.compute.asked.append(("dead", self.portion.stream.name))
        return self.dead

    def late_rows(self, view: View, before: int) -> pa.Table:
        self.compute.asked.append(("late", view.name))
        sql = late_sql(view, self.portion.stream, before)
        assert sql is not None, "late rows of sessions are Spark's"
        good = [number for number in range(self.rows.num_rows) if number not in self.failed.get(view.name, {})]
        return receive(select(self.program, _Share(self.rows.take(good)), None, sql))

    def failed_rows(self, view: View) -> pa.Table:
        self.compute.asked.append(("failed", view.name))
        failed = self.failed[view.name]
        rows = self.rows.take(list(failed)).drop_columns(["__landed", "__pt"])
        return rows.append_column("__reason", pa.array(list(failed.values()), pa.string()))

    def close(self) -> None:
        self.compute.open -= not self.closed
        self.closed = True


def _computed(compute: InProcessCompute, portion: Portion) -> Computed:
    stream = portion.stream
    rows, gone, broken = _decoded(portion)
    if stream.primary_key:
        return _table(compute, portion, rows, gone, broken)
    views = tuple(compute.form(stream, view) for view in portion.views)
    on_clock = any(isinstance(view, AggregateView) and view.on_clock for view in portion.views)
    program = Program(stream, portion.max_ahead, views, on_clock)
    outcome = evaluate(program, _Share(rows))
    if outcome.refused is not None:
        raise MillstreamError("SPARK_FAILED", outcome.refused)
    dead = pa.concat_tables([broken, *([receive(outcome.dead_rows)] if outcome.dead_rows is not None else [])])
    if outcome.dead_rows is not None:
        alive = receive(select(program, _Share(rows), None, f"SELECT * FROM {ROWS}"))
        rows = alive.select(rows.column_names).cast(rows.schema)
    stats = StreamStats(
        outcome.rows + broken.num_rows, outcome.dead + broken.num_rows, dict(outcome.newest), dict(outcome.landed)
    )
    deltas: dict[str, ViewDelta] = {}
    failed: dict[str, dict[int, str]] = {}
    for view, form in zip(portion.views, views, strict=True):
        failed[view.name], delta = _delta(Program(stream, portion.max_ahead, (form,)), form, rows)
        deltas[view.name] = delta
    opened = InProcessRows(compute, portion, rows, program, dead, failed)
    return Computed(opened, stats, deltas, None, 0.001, work_seconds=outcome.seconds)


def _delta(program: Program, form: NativeView, rows: pa.Table) -> tuple[dict[int, str], ViewDelta]:
    """The delta of one view, with the rows set aside on which it fails by itself."""
    outcome = evaluate(program, _Share(rows))
    failed: dict[int, str] = {}
    if None in outcome.results:
        alone = [evaluate(program, _Share(rows.slice(number, 1))) for number in range(rows.num_rows)]
        failed = {n: "an expression failed" for n, each in enumerate(alone) if None in each.results}
        good = [number for number in range(rows.num_rows) if number not in failed]
        outcome = evaluate(program, _Share(rows.take(good)))
    ((_, delta),) = (
        taken
        for query, result in zip(program.queries, outcome.results, strict=True)
        if result is not None
        for taken in query.deltas([receive(result)], program.views).items()
    )
    if form.top is not None:
        used = outcome.used[0] or 0
    else:
        used = (pc.sum(delta.column("__rows")).as_py() or 0) if form.is_grouped else delta.num_rows
    return failed, ViewDelta(delta, used, rows.num_rows - len(failed) - used, len(failed))


# -- decoding ------------------------------------------------------------------------------------


def _decoded(portion: Portion) -> tuple[pa.Table, pa.Array, pa.Table]:
    """The rows of a portion, which of them delete, and as letters the lines that cannot be decoded."""
    schema = portion.stream.schema.to_arrow()
    typed: list[pa.Table] = []
    gone: list[bool] = []
    lines: list[pa.Table] = []
    match portion.slice:
        case RowsSlice(given, text, _):
            typed += [given] if given is not None else []
            lines += [text] if text is not None else []
        case FrameSlice(frames, _, floor):
            for frame in frames:
                rows = read_rows(frame, schema, floor)
                (typed if pc.all(rows.column("__typed")).as_py() else lines).append(rows)
        case BatchSlice(frame, batch, landed):
            count = frame.num_rows
            place = {"__p": (0, pa.int32()), "__o": (batch, pa.int64()), "__landed": (landed, pa.int64())}
            rows = pa.table([frame.column(each.name).cast(each.type) for each in schema], schema)
            for name, (value, type_) in place.items():
                rows = rows.append_column(name, pa.repeat(pa.scalar(value, type_), count))
            typed.append(rows.append_column("__pt", pa.nulls(count, pa.int64())))
        case other:
            typed += [share.read(schema, raw=True) for share in share_out(other, schema, 1)]
    tables: list[pa.Table] = []
    for rows in typed:
        has = "__tombstone" in rows.column_names
        gone += rows.column("__tombstone").to_pylist() if has else [False] * rows.num_rows
        raw = rows.column("__raw") if "__raw" in rows.column_names else pa.nulls(rows.num_rows, pa.string())
        tables.append(rows.select([*schema.names, *_PLACE]).append_column("__raw", raw.cast(pa.string())))
    good, broken = _lines(lines, schema)
    gone += [False] * good.num_rows
    return pa.concat_tables([*tables, good]).combine_chunks(), pa.array(gone, pa.bool_()), broken


def _lines(lines: Sequence[pa.Table], schema: pa.Schema) -> tuple[pa.Table, pa.Table]:
    """Lines as rows; and those that the kernel refuses, each by itself, as letters."""
    place = [pa.field("__p", pa.int32()), *(pa.field(name, pa.int64()) for name in _PLACE[1:])]
    whole = pa.schema([*schema, *place, pa.field("__raw", pa.string())])
    good: list[pa.Table] = []
    broken: list[dict[str, Any]] = []
    for each in lines:
        kernel = JsonKernel.of(schema, {})
        for number in range(each.num_rows):
            line = each.slice(number, 1)
            raw = line.column("__raw").cast(pa.string())
            try:
                row = kernel.decode(line.column("__raw").combine_chunks())
                for name in _PLACE:
                    row = row.append_column(name, line.column(name))
                good.append(row.append_column("__raw", raw).cast(whole))
            except RefusedError:
                at = {name: line.column(name)[0].as_py() for name in ("__p", "__o")}
                broken.append({**at, "__raw": raw[0].as_py(), "__reason": "malformed json"})
    letters = pa.schema([*schema, *place[:2], pa.field("__raw", pa.string()), pa.field("__reason", pa.string())])
    return pa.concat_tables([whole.empty_table(), *good]), pa.Table.from_pylist(broken, letters)


# -- tables --------------------------------------------------------------------------------------


def _table(compute: InProcessCompute, portion: Portion, rows: pa.Table, gone: pa.Array, broken: pa.Table) -> Computed:
    """The last change of each key, or the one with the greatest sequence."""
    stream = portion.stream
    keys = list(stream.primary_key)
    instants = [stream.event_time] if stream.has_event_versions and stream.event_time else []
    operation, deletes = stream.rules.operation, stream.rules.deletes
    newest: dict[tuple[Any, ...], tuple[Any, dict[str, Any], int]] = {}
    dead: list[dict[str, Any]] = []
    for row, tombstone in zip(rows.to_pylist(), gone.to_pylist(), strict=True):
        missing = next((key for key in keys if row[key] is None), None)
        if missing is not None:
            dead.append({**row, "__reason": f"primary key {missing} is NULL"})
            continue
        delete = tombstone or (operation is not None and str(row[operation]).lower() in deletes)
        key = tuple(row[name] for name in (*keys, *instants))
        order = (row[stream.rules.sequence] if stream.rules.sequence else 0, row["__o"], row["__p"])
        before = newest.get(key)
        count = 1 if before is None else before[2] + 1
        if before is not None and before[0] > order:
            newest[key] = (before[0], before[1], count)
        else:
            newest[key] = (order, {**row, "__delete": delete}, count)
    stored = stream.stored.to_arrow()
    fields = [*stored, pa.field("__delete", pa.bool_()), pa.field("__rows", pa.int64())]
    found = [{**row, "__rows": count} for _, row, count in newest.values()]
    if instants:
        fields.append(pa.field("__from", pa.int64()))
        micros = pa.array([row[instants[0]] for row in found], TIMESTAMP).cast(pa.int64()).to_pylist()
        found = [{**row, "__from": at} for row, at in zip(found, micros, strict=True)]
    letters = pa.concat_tables([broken, pa.Table.from_pylist(dead, broken.schema)])
    stats = StreamStats(rows.num_rows + broken.num_rows, letters.num_rows, _newest(stream, rows))
    opened = InProcessRows(compute, portion, rows, Program(stream, None, ()), letters, {})
    return Computed(opened, stats, {}, pa.Table.from_pylist(found, pa.schema(fields)), 0.001)


def _newest(stream: Stream, rows: pa.Table) -> dict[int, int]:
    if stream.event_time is None:
        return {}
    times = rows.column(stream.event_time).cast(pa.int64()).to_pylist()
    found: dict[int, int] = {}
    for partition, at in zip(rows.column("__p").to_pylist(), times, strict=True):
        if at is not None:
            found[partition] = max(at, found.get(partition, at))
    return found


# -- types ---------------------------------------------------------------------------------------


class _AnySchema:
    """A schema in which every column is a number: only the expressions of such a form are read."""

    def field(self, name: str) -> pa.Field:
        return pa.field(name, pa.int64())


def _spark_type(type_: pa.DataType) -> pa.DataType:
    """Spark's type for one of DuckDB's, whose sums are 128 bits wide."""
    if pa.types.is_unsigned_integer(type_) or type_ == pa.decimal128(38, 0):
        return pa.int64()
    if pa.types.is_large_string(type_):
        return pa.string()
    if pa.types.is_timestamp(type_):
        return TIMESTAMP
    return type_
