"""One epoch of one stream on Spark: a slice in, deltas out, as Arrow.

Owns running the delta queries: all views of the stream in one job over one decoded relation. What
always holds: a row on which an expression fails is set aside and the others go on. That costs
nothing until it happens: only when the job fails are the failing rows looked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.classic.column import Column
from pyspark.sql.pandas.types import to_arrow_schema

from millstream.model.errors import MillstreamError
from millstream.plan.compute import StreamStats, ViewDelta
from millstream.plan.nodes import DEAD, FAILED, FILTERED, USED, AggregateView, AppendView, Stream, View
from millstream.plan.slices import RowsSlice, Slice
from millstream.spark.arrow import collect, flatten, naive
from millstream.spark.delta import (
    append_counts_sql,
    delta_sql,
    failure_sql,
    late_rows_sql,
    lateness_sql,
    rows_sql,
    stats_sql,
    table_sql,
)
from millstream.spark.errors import reported, spark_error
from millstream.spark.relation import Decoder, temporary_name
from millstream.sql.user_calls import as_written, spark_errors


@dataclass(slots=True)
class OpenEpoch:
    """The rows of one stream in one epoch, open until they are committed."""

    spark: SparkSession
    decoder: Decoder
    slice: Slice
    views: Sequence[View]
    partitions: int
    newest: Mapping[int, int] = field(default_factory=dict)
    """The newest event time that each partition had brought before; only where the slack follows lateness."""
    _relation: str = field(init=False)
    _careful: dict[str, str] = field(init=False, default_factory=dict)
    _kept: DataFrame | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        with reported():
            self._relation = self.decoder.open(self.spark, self.slice)

    # -- deltas --------------------------------------------------------------------------------

    def run(self) -> tuple[StreamStats, dict[str, ViewDelta]]:
        """The statistics of the stream and the delta of every view."""
        with reported():
            try:
                return self._attempt()
            except PySparkException:
                if not any(view.checks for view in self.views):
                    raise
            for view in self.views:
                if view.checks:
                    self._set_aside(view)
            return self._attempt()

    def run_table(self) -> tuple[StreamStats, pa.Table]:
        """The changes that win within the epoch (see `table_sql`), for a stream of changes to a table."""
        with reported():
            return self._attempt_table()

    def _attempt_table(self) -> tuple[StreamStats, pa.Table]:
        self._keep()
        keyed, stats = self._collect([table_sql(self.decoder.stream, self._relation), stats_sql(self._relation)])
        return _stats(stats), flatten(keyed.column("__newest")).append_column("__rows", keyed.column("__rows"))

    def _attempt(self) -> tuple[StreamStats, dict[str, ViewDelta]]:
        stream = self.decoder.stream
        # With one partition any aggregate over all rows already knows the stream's statistics.
        counting = next((v for v in self.views if isinstance(v, AggregateView)), None)
        on_clock = any(isinstance(v, AggregateView) and v.on_clock for v in self.views)
        needs_stats = self.partitions > 1 or counting is None or on_clock
        if needs_stats or len(self.views) > 1 or stream.percentile is not None:
            self._keep()
        queries: list[str] = []
        for view in self.views:
            relation = self._careful.get(view.name, self._relation)
            queries.append(delta_sql(view, stream, relation))
            if isinstance(view, AppendView):
                queries.append(append_counts_sql(view, stream, relation))
        if needs_stats:
            queries.append(stats_sql(self._relation))
        if stream.percentile is not None:
            queries.append(lateness_sql(self._relation, self.newest))
        tables = iter(self._collect(queries))
        deltas: dict[str, ViewDelta] = {}
        stats: StreamStats | None = None
        for view in self.views:
            table = next(tables)
            if isinstance(view, AppendView):
                deltas[view.name] = _append_delta(table, next(tables))
            else:
                deltas[view.name] = _aggregate_delta(table)
                if view is counting and not needs_stats:
                    stats = _stats_of_delta(table)
        stats = stats or _stats(next(tables))
        if stream.percentile is not None:
            buckets, counts = (next_.to_pylist() for next_ in next(tables).columns)
            stats = replace(stats, lateness=dict(zip(buckets, counts, strict=True)))
        return stats, deltas

    def _collect(self, queries: list[str]) -> list[pa.Table]:
        """The results of several queries over the rows, in one job."""
        if len(queries) == 1:
            return [collect(self.spark.sql(queries[0]))]
        branches = []
        for index, query in enumerate(queries):
            packs = ", ".join(f"{'struct(*)' if i == index else 'NULL'} AS b{i}" for i in range(len(queries)))
            branches.append(f"SELECT {index} AS __branch, {packs} FROM ({query})")
        packed = collect(self.spark.sql(" UNION ALL ".join(branches)))
        return [
            flatten(packed.filter(pc.equal(packed.column("__branch"), index)).column(f"b{index}"))
            for index in range(len(queries))
        ]

    def _keep(self) -> None:
        """Decode the rows once for several queries, unless they are few."""
        if self._kept is not None or isinstance(self.slice, RowsSlice):
            return
        self._kept = self.spark.sql(f"SELECT * FROM {self._relation}").persist()
        self._relation = f"`{temporary_name(self.decoder.stream.name, 'kept', str(self.decoder.generation))}`"
        self._kept.createOrReplaceTempView(self._relation.strip("`"))

    # -- rows that are set aside ---------------------------------------------------------------

    def dead_rows(self) -> pa.Table:
        """Rows that could not be decoded: the stream's columns, `__p`, `__o`, `__raw`, `__reason`."""
        stream = self.decoder.stream
        with reported():
            return collect(self.spark.sql(rows_sql(stream, self._relation, "__dead IS NOT NULL", "__dead AS __reason")))

    def late_rows(self, view: View, before: int) -> pa.Table:
        """Used rows of a view that are late when the watermark was at `before`."""
        relation = self._careful.get(view.name, self._relation)
        with reported():
            return collect(self.spark.sql(late_rows_sql(view, self.decoder.stream, relation, before)))

    def failed_rows(self, view: View) -> pa.Table:
        """Rows on which an expression of a view fails, each with the reason."""
        with reported():
            return self._failed_rows(view)

    def _failed_rows(self, view: View) -> pa.Table:
        relation = self._careful[view.name]
        bad = self.spark.table(relation.strip("`")).where("__bad AND __dead IS NULL")
        which: Any = None
        for index, check in reversed(list(enumerate(view.checks))):
            which = functions.when(self._fails(f"struct({check} AS c)"), index).otherwise(which)
        flagged = bad.withColumn("__check", which)
        sample = {
            row["__check"] for row in flagged.select("__check").distinct().collect() if row["__check"] is not None
        }
        said = {index: spark_errors(view.checks[index]) for index in sample}
        own = " ".join(f"WHEN __check = {i} THEN coalesce({', '.join(sqls)})" for i, sqls in said.items() if sqls)
        # A user's function says itself of each row what failed.
        flagged = flagged.withColumn("__said", functions.expr(f"CASE {own} END" if own else "CAST(NULL AS STRING)"))
        reasons = {index: self._reason(flagged, view, index) for index in sample}
        name = f"{relation.strip('`')}_failed"
        flagged.createOrReplaceTempView(name)
        rows = collect(
            self.spark.sql(rows_sql(self.decoder.stream, f"`{name}`", "true", "struct(__check, __said) AS __check"))
        )
        reason = [
            found["__said"] or reasons.get(found["__check"], "an expression failed")
            for found in rows.column("__check").to_pylist()
        ]
        column = rows.schema.get_field_index("__check")
        return rows.set_column(column, "__reason", pa.array(reason, pa.string()))

    def _reason(self, flagged: DataFrame, view: View, index: int) -> str:
        """Why a check fails on rows of which no function of a user says it."""
        rows = flagged.where(f"__check = {index} AND __said IS NULL").limit(1)
        written = as_written(view.checks[index])
        try:
            collect(rows.selectExpr(f"{view.checks[index]} AS c"))
        except PySparkException as error:
            return f"{written}: {spark_error(error).message}"
        return f"{written}: failed"

    def _set_aside(self, view: View) -> None:
        """Replace the view's relation by one in which failing rows are marked `__bad`."""
        name = temporary_name(self.decoder.stream.name, "of", view.name, str(self.decoder.generation))
        marked = self.spark.sql(f"SELECT * FROM {self._relation}").withColumn("__bad", self._fails(failure_sql(view)))
        marked.createOrReplaceTempView(name)
        self._careful[view.name] = f"`{name}`"

    def _fails(self, struct_sql: str) -> Any:
        """A column: whether computing a struct fails. Spark's TryEval makes NULL of a failure, and
        a struct itself is never NULL."""
        jvm: Any = self.spark._jvm
        session: Any = self.spark._jsparkSession
        parsed = session.sessionState().sqlParser().parseExpression(struct_sql)
        attempt = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(parsed)
        return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(attempt)).isNull()

    def close(self) -> None:
        """Drop what Spark holds for the epoch; a Spark that is gone holds nothing."""
        with suppress(Py4JError, ConnectionError):
            if self._kept is not None:
                self._kept.unpersist()
            for name in self._careful.values():
                self.spark.catalog.dropTempView(name.strip("`"))


# -- asking Spark about expressions ------------------------------------------------------------


def expression_types(spark: SparkSession, stream: Stream, sqls: Sequence[str]) -> list[pa.DataType]:
    """The types of expressions over the rows of a stream, as Spark gives them."""
    return list(_analyse(spark, _projection(stream, sqls)).types) if sqls else []


def _projection(stream: Stream, sqls: Sequence[str]) -> str:
    columns = ", ".join(f"{sql} AS c{index}" for index, sql in enumerate(sqls))
    rows = f"(SELECT *, CAST(NULL AS BIGINT) AS __wt FROM {Decoder(stream, None).unread()})"
    return f"SELECT {columns} FROM {rows}"


def delta_schema(spark: SparkSession, stream: Stream, view: View) -> pa.Schema:
    """The Arrow schema of a view's delta.

    Refuses a view that fails whatever its rows are: Spark computes constants while it plans, and then there is no row
    that could be set aside.
    """
    if literals := [check for check in view.checks if "'" in check]:
        # In the CASE of a delta Spark leaves a text alone that is no number: there it fails on every row.
        _analyse(spark, _projection(stream, literals), plan=True)
    return _analyse(spark, delta_sql(view, stream, Decoder(stream, None).unread()), plan=bool(view.checks))


def _analyse(spark: SparkSession, sql: str, *, plan: bool = False) -> pa.Schema:
    with reported("INVALID_EXPRESSION"):
        frame = spark.sql(sql)
        if plan:
            frame._jdf.queryExecution().optimizedPlan()
        schema = frame.schema
    try:
        found = to_arrow_schema(schema, timezone="UTC")
    except (TypeError, ValueError):
        raise MillstreamError(
            "INVALID_EXPRESSION",
            "an expression has no type that can be kept",
            detail=f"Spark says {schema.simpleString()[:200]}",
            hint="a NULL or an empty array gets one with CAST",
        ) from None
    for column in found:
        _check_names(column.type)
    return pa.schema([pa.field(column.name, naive(column.type)) for column in found])


def _check_names(type_: pa.DataType) -> None:
    """Refuse a struct with two fields of one name, at any depth: Spark computes it, but cannot hand it over."""
    if pa.types.is_nested(type_):
        inner = [type_.field(index) for index in range(type_.num_fields)]
        names = [part.name.lower() for part in inner]
        if pa.types.is_struct(type_) and len(set(names)) < len(names):
            raise MillstreamError(
                "DUPLICATE_COLUMN",
                f"a struct has two fields {next(name for name in names if names.count(name) > 1)!r}",
                hint="name them with named_struct or AS",
            )
        for part in inner:
            _check_names(part.type)


# -- Arrow ------------------------------------------------------------------------------------


def _count(table: pa.Table, class_: int) -> int:
    mask = pc.equal(table.column("__class"), class_)
    return pc.sum(table.column("__rows").filter(mask)).as_py() or 0


def _aggregate_delta(table: pa.Table) -> ViewDelta:
    used = table.filter(pc.equal(table.column("__class"), USED))
    return ViewDelta(
        # The columns that the kernel gives: deltas of both may be merged together.
        rows=used.drop_columns(["__class", "__newest"]),
        used=pc.sum(used.column("__rows")).as_py() or 0,
        filtered=_count(table, FILTERED),
        failed=_count(table, FAILED),
    )


def _append_delta(rows: pa.Table, counts: pa.Table) -> ViewDelta:
    return ViewDelta(rows, rows.num_rows, _count(counts, FILTERED), _count(counts, FAILED))


def _stats_of_delta(table: pa.Table) -> StreamStats:
    newest = pc.max(table.column("__newest")).as_py()
    return StreamStats(
        rows=pc.sum(table.column("__rows")).as_py() or 0,
        dead=_count(table, DEAD),
        newest={} if newest is None else {0: newest},
    )


def _stats(table: pa.Table) -> StreamStats:
    rows = table.to_pylist()
    return StreamStats(
        rows=sum(row["__rows"] for row in rows),
        dead=sum(row["__dead_rows"] for row in rows),
        newest={row["__p"]: row["__newest"] for row in rows if row["__newest"] is not None},
        landed={row["__p"]: row["__landed"] for row in rows if row["__landed"] is not None},
    )
