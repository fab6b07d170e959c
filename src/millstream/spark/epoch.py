"""One epoch of one stream on Spark: a slice in, deltas out, as Arrow.

Owns running the delta queries: all views of the stream in one job over one decoded relation. What
always holds: a row on which an expression fails is set aside and the others go on. That costs
nothing until it happens: only when the job fails are the failing rows looked for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.classic.column import Column
from pyspark.sql.pandas.types import to_arrow_schema

from millstream.model.errors import MillstreamError
from millstream.plan.nodes import DEAD, FAILED, FILTERED, USED, AggregateView, AppendView, Stream, View
from millstream.plan.slices import RowsSlice, Slice
from millstream.spark.arrow import collect, flatten, naive
from millstream.spark.delta import (
    append_counts_sql,
    delta_sql,
    failure_sql,
    rows_sql,
    stats_sql,
    table_sql,
    used_rows,
)
from millstream.spark.relation import Decoder


@dataclass(frozen=True, slots=True)
class StreamStats:
    """What arrived: rows, how many of them are dead, and the newest event time per partition."""

    rows: int
    dead: int
    newest: dict[int, int]


@dataclass(frozen=True, slots=True)
class ViewDelta:
    """What the epoch adds to a view, and what became of its rows (lateness is judged later)."""

    rows: pa.Table
    used: int
    filtered: int
    failed: int


@dataclass(slots=True)
class OpenEpoch:
    """The rows of one stream in one epoch, open until they are committed."""

    spark: SparkSession
    decoder: Decoder
    slice: Slice
    views: Sequence[View]
    partitions: int
    _relation: str = field(init=False)
    _frame: DataFrame = field(init=False)
    _careful: dict[str, str] = field(init=False, default_factory=dict)
    _persisted: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        stream = self.decoder.stream
        self._relation = f"`__ms_{stream.name}`"
        try:
            self._frame = self.decoder.open(self.spark, self.slice)
        except PySparkException as error:
            raise spark_error(error) from None
        self._frame.createOrReplaceTempView(self._relation.strip("`"))

    # -- deltas --------------------------------------------------------------------------------

    def run(self) -> tuple[StreamStats, dict[str, ViewDelta]]:
        """The statistics of the stream and the delta of every view."""
        try:
            return self._attempt()
        except PySparkException as error:
            if not any(view.checks for view in self.views):
                raise spark_error(error) from None
        for view in self.views:
            if view.checks:
                self._set_aside(view)
        try:
            return self._attempt()
        except PySparkException as error:
            raise spark_error(error) from None

    def run_table(self) -> tuple[StreamStats, pa.Table]:
        """The newest row per primary key, for a stream of changes to a table."""
        try:
            keyed, stats = self._collect([table_sql(self.decoder.stream, self._relation), stats_sql(self._relation)])
        except PySparkException as error:
            raise spark_error(error) from None
        good = keyed.filter(pc.invert(keyed.column("__is_dead")))
        rows = flatten(good.column("__newest"))
        return _stats(stats), rows

    def _attempt(self) -> tuple[StreamStats, dict[str, ViewDelta]]:
        stream = self.decoder.stream
        queries: list[str] = []
        for view in self.views:
            relation = self._careful.get(view.name, self._relation)
            queries.append(delta_sql(view, stream, relation))
            if isinstance(view, AppendView):
                queries.append(append_counts_sql(view, stream, relation))
        # With one partition any aggregate over all rows already knows the stream's statistics.
        counting = next((v for v in self.views if isinstance(v, AggregateView)), None)
        needs_stats = self.partitions > 1 or counting is None
        if needs_stats:
            queries.append(stats_sql(self._relation))
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
        return stats or _stats(next(tables)), deltas

    def _collect(self, queries: list[str]) -> list[pa.Table]:
        """The results of several queries over the rows, in one job."""
        if len(queries) == 1:
            return [collect(self.spark.sql(queries[0]))]
        if not isinstance(self.slice, RowsSlice) and not self._persisted:
            self._frame.persist()
            self._persisted = True
        branches = [
            self.spark.sql(f"SELECT {index} AS __branch, struct(*) AS b{index} FROM ({query})")
            for index, query in enumerate(queries)
        ]
        union = branches[0]
        for branch in branches[1:]:
            union = union.unionByName(branch, allowMissingColumns=True)
        packed = collect(union)
        return [
            flatten(packed.filter(pc.equal(packed.column("__branch"), index)).column(f"b{index}"))
            for index in range(len(queries))
        ]

    # -- rows that are set aside ---------------------------------------------------------------

    def dead_rows(self) -> pa.Table:
        """Rows that could not be decoded: the stream's columns, `__p`, `__o`, `__raw`, `__reason`."""
        sql = rows_sql(self.decoder.stream, self._relation, "__dead IS NOT NULL", "__dead AS __reason")
        return collect(self.spark.sql(sql))

    def late_rows(self, view: View, panes: Sequence[int]) -> pa.Table:
        """Used rows of a view that fall into given panes."""
        relation = used_rows(view, self.decoder.stream, self._careful.get(view.name, self._relation))
        listed = ", ".join(f"{pane}L" for pane in panes)
        condition = f"__class = {USED} AND __pane IN ({listed})"
        sql = rows_sql(self.decoder.stream, relation, condition, "'late' AS __reason")
        return collect(self.spark.sql(sql))

    def failed_rows(self, view: View) -> pa.Table:
        """Rows on which an expression of a view fails, each with the reason."""
        relation = self._careful[view.name]
        bad = self.spark.table(relation.strip("`")).where("__bad AND __dead IS NULL")
        which: Any = None
        for index, check in reversed(list(enumerate(view.checks))):
            which = functions.when(self._fails(f"struct({check} AS c)"), index).otherwise(which)
        flagged = bad.withColumn("__check", which)
        sample = {
            row["__check"] for row in flagged.select("__check").distinct().collect() if row["__check"] is not None
        }
        reasons = {index: f"{view.checks[index]}: {self._reason(flagged, view, index)}" for index in sample}
        name = f"{relation.strip('`')}_failed"
        flagged.createOrReplaceTempView(name)
        rows = collect(
            self.spark.sql(rows_sql(self.decoder.stream, f"`{name}`", "true", "CAST(__check AS INT) AS __check"))
        )
        reason = [reasons.get(index, "an expression failed") for index in rows.column("__check").to_pylist()]
        column = rows.schema.get_field_index("__check")
        return rows.set_column(column, "__reason", pa.array(reason, pa.string()))

    def _reason(self, flagged: DataFrame, view: View, index: int) -> str:
        try:
            collect(flagged.where(f"__check = {index}").limit(1).selectExpr(f"{view.checks[index]} AS c"))
        except PySparkException as error:
            return spark_error(error).message
        return "failed"

    def _set_aside(self, view: View) -> None:
        """Replace the view's relation by one in which failing rows are marked `__bad`."""
        name = f"__ms_{self.decoder.stream.name}__{view.name}"
        marked = self._frame.withColumn("__bad", self._fails(failure_sql(view)))
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
        """Let go of what Spark holds for the epoch."""
        if self._persisted:
            self._frame.unpersist()
        for name in self._careful.values():
            self.spark.catalog.dropTempView(name.strip("`"))


# -- asking Spark about expressions ------------------------------------------------------------


def expression_types(spark: SparkSession, stream: Stream, sqls: Sequence[str]) -> list[pa.DataType]:
    """The types of expressions over the rows of a stream, as Spark gives them."""
    if not sqls:
        return []
    name = f"__ms_types_{stream.name}"
    rows = Decoder(stream, None).empty(spark).selectExpr("*", "CAST(NULL AS BIGINT) AS __wt")
    rows.createOrReplaceTempView(name)
    try:
        schema = spark.sql(f"SELECT {', '.join(f'{sql} AS c{i}' for i, sql in enumerate(sqls))} FROM `{name}`").schema
    except (AnalysisException, ParseException) as error:
        raise spark_error(error, code="INVALID_EXPRESSION") from None
    return [naive(type_) for type_ in to_arrow_schema(schema, timezone="UTC").types]


def delta_schema(spark: SparkSession, stream: Stream, view: View) -> pa.Schema:
    """The Arrow schema of a view's delta."""
    name = f"__ms_types_{stream.name}"
    Decoder(stream, None).empty(spark).createOrReplaceTempView(name)
    try:
        schema = spark.sql(delta_sql(view, stream, f"`{name}`")).schema
    except (AnalysisException, ParseException) as error:
        raise spark_error(error, code="INVALID_EXPRESSION") from None
    arrow = to_arrow_schema(schema, timezone="UTC")
    return pa.schema([field.with_type(naive(field.type)) for field in arrow])


def spark_error(error: PySparkException, code: str = "SPARK_FAILED") -> MillstreamError:
    """Spark's error in our words: its condition and first sentence, never a stack trace."""
    text = str(error).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = lines[0] if lines else type(error).__name__
    condition = error.getCondition() if hasattr(error, "getCondition") else None
    # What follows the first sentence is advice on settings that are not the user's to change.
    first = re.split(r"\. (?=[A-Z])|SQLSTATE", first)[0].strip().rstrip(".;")
    return MillstreamError(code, first[:500], detail=f"Spark condition {condition}" if condition else None)


# -- Arrow ------------------------------------------------------------------------------------


def _count(table: pa.Table, class_: int) -> int:
    mask = pc.equal(table.column("__class"), class_)
    return pc.sum(table.column("__rows").filter(mask)).as_py() or 0


def _aggregate_delta(table: pa.Table) -> ViewDelta:
    used = table.filter(pc.equal(table.column("__class"), USED))
    return ViewDelta(
        rows=used,
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
    )
