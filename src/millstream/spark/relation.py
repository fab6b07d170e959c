"""A slice opened as a relation: decoded rows with their event time and, where they have one, the
reason they are dead.

Owns decoding. The relation has the stream's columns, `__p`, `__o`, `__et` (microseconds, NULL
where the stream has no event time), `__dead` (NULL for a good row), `__raw` (the line of a row
that could not be decoded) and `__bad` (false here). The SQL text depends on the stream alone, so
Spark compiles it once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from millstream.log import read_frame
from millstream.model.schema import spark_type
from millstream.model.time import format_duration
from millstream.plan.nodes import Stream
from millstream.plan.slices import BatchSlice, FileSlice, FrameSlice, GeneratedSlice, RowsSlice, Slice, align
from millstream.spark.arrow import zoned

_PLACE = "__p INT, __o BIGINT, __landed BIGINT"


@dataclass(frozen=True, slots=True)
class Decoder:
    """How the rows of one stream are decoded."""

    stream: Stream
    max_ahead: int | None

    def open(self, spark: SparkSession, slice_: Slice) -> DataFrame:
        """The rows of a slice, decoded."""
        match slice_:
            case RowsSlice(typed, lines, format_):
                parts = []
                if typed is not None:
                    parts.append(self._typed(spark.createDataFrame(zoned(typed))))
                if lines is not None:
                    parts.append(self._lines(spark.createDataFrame(lines), format_))
                # One task is enough for few rows, and spares the shuffle.
                return _union(parts).coalesce(1)
            case FrameSlice():
                return self._frames(spark, slice_)
            case FileSlice():
                return self._files(spark, slice_)
            case GeneratedSlice(start, end, columns):
                expressions = [f"{sql} AS `{name}`" for name, sql in columns]
                place = ["0 AS __p", "id AS __o", "CAST(NULL AS BIGINT) AS __landed"]
                return self._typed(spark.range(start, end).selectExpr(*expressions, *place))
            case BatchSlice(frame, batch_id):
                place = ["0 AS __p", f"{batch_id}L AS __o", "CAST(NULL AS BIGINT) AS __landed"]
                known = {name.lower() for name in frame.columns}
                given = [
                    f"CAST(`{c.name}` AS {spark_type(c.type)}) AS `{c.name}`"
                    if c.name.lower() in known
                    else f"CAST(NULL AS {spark_type(c.type)}) AS `{c.name}`"
                    for c in self.stream.schema.columns
                ]
                return self._typed(frame.selectExpr(*given, *place))

    def _typed(self, rows: DataFrame) -> DataFrame:
        return self._judge(rows, "CAST(NULL AS STRING)", "CAST(NULL AS STRING)")

    def _lines(self, lines: DataFrame, format_: str) -> DataFrame:
        schema = self._ddl() + ", __corrupt STRING"
        options = "map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '__corrupt')"
        parse = "from_json" if format_ == "json" else "from_csv"
        text = "CAST(__raw AS STRING)"
        parsed = lines.selectExpr(
            f"make_valid_utf8({text}) AS __raw",
            f"is_valid_utf8({text}) AS __is_text",
            f"{parse}(IF(is_valid_utf8({text}), {text}, NULL), '{schema}', {options}) AS __row",
            "__p",
            "__o",
            "__landed",
        )
        columns = [f"__row.`{name}` AS `{name}`" for name in self.stream.schema.names()]
        malformed = (
            "CASE WHEN NOT __is_text THEN 'invalid UTF-8' "
            f"WHEN __row IS NULL OR __corrupt IS NOT NULL THEN 'malformed {format_}' END"
        )
        flat = parsed.selectExpr(
            *columns, "__row", "__row.__corrupt AS __corrupt", "__is_text", "__raw", "__p", "__o", "__landed"
        )
        return self._judge(flat, malformed, "__raw")

    def _files(self, spark: SparkSession, slice_: FileSlice) -> DataFrame:
        reader = spark.read.options(**dict(slice_.options))
        paths = list(slice_.paths)
        landed = "unix_micros(_metadata.file_modification_time) AS __landed"
        place = ("0 AS __p", f"{slice_.first}L AS __o", landed)
        if slice_.format == "parquet":
            rows = reader.schema(self._ddl()).parquet(*paths)
            return self._typed(rows.selectExpr("*", *place))
        reader = reader.schema(self._ddl() + ", __corrupt STRING")
        reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", "__corrupt")
        rows = reader.json(paths) if slice_.format == "json" else reader.csv(paths)
        malformed = f"IF(__corrupt IS NOT NULL, 'malformed {slice_.format}', NULL)"
        return self._judge(rows.selectExpr("*", *place), malformed, "__corrupt")

    def _frames(self, spark: SparkSession, slice_: FrameSlice) -> DataFrame:
        """Executors read the frames themselves; each gets about the same number of bytes."""
        arrow_schema = self.stream.schema.to_arrow()
        floor = slice_.landed_floor

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for frame in batch.to_pylist():
                    yield from _read_rows(frame, arrow_schema, floor)

        count = max(1, min(len(slice_.frames), spark.sparkContext.defaultParallelism))
        table = pa.Table.from_pylist(
            [
                dict(zip(("p", "path", "position", "length", "start", "end"), frame, strict=True))
                for frame in slice_.frames
            ]
        )
        refs = spark.createDataFrame(table).repartition(count)
        rows = refs.mapInArrow(read, f"{self._ddl()}, __raw BINARY, __typed BOOLEAN, {_PLACE}")
        typed = self._typed(rows.where("__typed").drop("__raw", "__typed"))
        if slice_.format not in ("json", "csv"):
            return typed
        lines = self._lines(rows.where("NOT __typed").select("__raw", "__p", "__o", "__landed"), slice_.format)
        return typed.unionByName(lines)

    def _judge(self, rows: DataFrame, malformed: str, raw: str) -> DataFrame:
        """Add event time and the reason a row is dead."""
        stream = self.stream
        columns = ", ".join(f"`{name}`" for name in stream.schema.names())
        event_time = self._event_time()
        reasons = [f"WHEN ({malformed}) IS NOT NULL THEN {malformed}"] if "NULL AS" not in malformed else []
        if stream.event_time is not None:
            reasons.append(f"WHEN {event_time} IS NULL THEN 'event time {stream.event_time} is NULL'")
            if self.max_ahead is not None:
                bound = f"event time {stream.event_time} runs more than {format_duration(self.max_ahead)} ahead"
                reasons.append(f"WHEN {event_time} > __landed + {self.max_ahead}L THEN '{bound}'")
        reasons.extend(f"WHEN `{key}` IS NULL THEN 'primary key {key} is NULL'" for key in stream.primary_key)
        dead = f"CASE {' '.join(reasons)} END" if reasons else "CAST(NULL AS STRING)"
        return rows.selectExpr(
            *columns.split(", "),
            "__p",
            "__o",
            f"{event_time} AS __et",
            f"{dead} AS __dead",
            f"{raw} AS __raw",
            "false AS __bad",
        )

    def _event_time(self) -> str:
        stream = self.stream
        if stream.event_time is None:
            return "CAST(NULL AS BIGINT)"
        micros = f"unix_micros(`{stream.event_time}`)"
        if stream.correction is None:
            return micros
        sent, received = stream.correction.sent_at, stream.correction.received_at
        return f"({micros} + unix_micros(`{received}`) - unix_micros(`{sent}`))"

    def _ddl(self) -> str:
        return ", ".join(f"`{c.name}` {spark_type(c.type)}" for c in self.stream.schema.columns)

    def empty(self, spark: SparkSession) -> DataFrame:
        """The relation without rows, for asking Spark about types."""
        rows = spark.createDataFrame([], f"{self._ddl()}, {_PLACE}")
        return self._typed(rows)


def _union(parts: list[DataFrame]) -> DataFrame:
    result = parts[0]
    for part in parts[1:]:
        result = result.unionByName(part)
    return result


def _read_rows(frame: dict[str, Any], schema: pa.Schema, landed_floor: int) -> Iterator[pa.RecordBatch]:
    """One frame of the log as rows of the relation; runs in an executor."""
    batch = read_frame(frame["path"], frame["position"], frame["length"])
    rows = align(pa.Table.from_batches([batch]), schema, frame["p"], landed_floor)
    offsets = rows.column("__o").to_numpy()
    low, high = offsets.searchsorted(frame["start"]), offsets.searchsorted(frame["end"])
    yield from zoned(rows.slice(low, high - low).combine_chunks()).to_batches()
