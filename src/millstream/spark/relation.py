"""A slice opened as a relation: decoded rows with their event time and, where they have one, the
reason they are dead.

Owns decoding. The relation has the stream's columns, `__p`, `__o`, `__pt` (the processing time at
which it landed, NULL where the source does not know), `__et` (microseconds, NULL where the stream
has no event time), `__dead` (NULL for a good row), `__raw` (the line of a row that could not be
decoded) and `__bad` (false here). Where it matters which of two rows of a partition came first,
`__order` tells, the later being greater; of a table, `__delete` says whether a change deletes. It is a
piece of SQL over one temporary view of the rows as they came, so that Spark analyses an epoch once,
and the text depends on the stream alone, so that Spark's generated code is compiled once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, functions

from millstream.kernel.decoding import LineDecoder
from millstream.kernel.records import CsvReader
from millstream.kernel.shares import read_rows
from millstream.model.schema import TIMESTAMP, spark_type
from millstream.plan.dead import NEWEST, OLDEST, missing_time, time_ahead, time_out_of_range
from millstream.plan.nodes import Stream
from millstream.plan.slices import BatchSlice, FileSlice, Format, FrameSlice, GeneratedSlice, RowsSlice, Slice
from millstream.spark.arrow import zoned

_PLACE = "__p INT, __o BIGINT, __landed BIGINT, __pt BIGINT"
_PLACE_NAMES = "__p, __o, __landed, __pt"
# A row of a file arrived when the file was last written. (Metadata is not visible through a view.)
_LANDED = "unix_micros(_metadata.file_modification_time) AS __landed"
# Of rows that do not say when they landed, it is the engine's clock when their epoch reads them.
_NOW = "CAST(NULL AS BIGINT) AS __pt"
_NULL_TEXT = "CAST(NULL AS STRING)"
_TOMBSTONE = "__tombstone"
_LINE = "__malformed STRING, __raw STRING"
# Where in its file or batch a row stands.
_LINES = ["__block", "__line"]


@dataclass(frozen=True, slots=True)
class Decoder:
    """How the rows of one stream are decoded."""

    stream: Stream
    max_ahead: int | None
    generation: int = 0
    """Sets the temporary views of one epoch apart from those of the next."""

    def open(self, spark: SparkSession, slice_: Slice) -> str:
        """The rows of a slice as a relation: a subquery over temporary views."""
        match slice_:
            case RowsSlice(typed, lines, format_):
                parts = []
                # One task is enough for few rows, and spares the shuffle.
                if typed is not None:
                    base = self._register(spark.createDataFrame(zoned(typed)), "rows")
                    parts.append(self._typed(f"(SELECT /*+ COALESCE(1) */ * FROM {base})", _TOMBSTONE))
                if lines is not None:
                    decoded = _log_rows(self._log_decoder(format_), lines)
                    base = self._register(spark.createDataFrame(decoded), "lines")
                    parts.append(self._judge(f"(SELECT /*+ COALESCE(1) */ * FROM {base})", "__malformed", "__raw"))
                return _union(parts)
            case FrameSlice():
                return self._frames(spark, slice_)
            case FileSlice():
                return self._files(spark, slice_)
            case GeneratedSlice(start, end, columns):
                expressions = [f"{sql} AS `{name}`" for name, sql in columns]
                place = ["0 AS __p", "id AS __o", "CAST(NULL AS BIGINT) AS __landed", _NOW]
                base = self._register(spark.range(start, end), "rows")
                return self._typed(f"(SELECT {', '.join([*expressions, *place])} FROM {base})")
            case BatchSlice(frame, batch_id, landed_at):
                ordered = self.stream.is_ordered
                numbered = frame.withColumn("__line", functions.monotonically_increasing_id()) if ordered else frame
                base = self._register(numbered, "rows")
                known = {name.lower() for name in frame.columns}
                place = ["0 AS __p", f"{batch_id}L AS __o", f"{landed_at}L AS __landed", _NOW]
                given = []
                for column in self.stream.schema.columns:
                    value = f"`{column.name}`" if column.name.lower() in known else "NULL"
                    given.append(f"CAST({value} AS {spark_type(column.type)}) AS `{column.name}`")
                place += ["0L AS __block", "__line"] if ordered else []
                return self._typed(f"(SELECT {', '.join([*given, *place])} FROM {base})", has_lines=ordered)

    def unread(self) -> str:
        """The relation for asking Spark about expressions. It is never read; that its columns are no constants keeps
        Spark from taking for one what is computed of them."""
        schema = ", ".join(f"`{c.name}` {spark_type(c.type)}" for c in self.stream.schema.columns)
        escaped = _escaped(schema)
        columns = [f"__row.`{c.name}`" for c in self.stream.schema.columns]
        place = ["CAST(id AS INT) AS __p", "id AS __o", "id AS __landed", _NOW]
        rows = f"(SELECT id, from_json(CAST(id AS STRING), '{escaped}') AS __row FROM range(1))"
        return self._typed(f"(SELECT {', '.join([*columns, *place])} FROM {rows})")

    def _register(self, frame: DataFrame, part: str) -> str:
        name = temporary_name(self.stream.name, part, str(self.generation))
        frame.createOrReplaceTempView(name)
        return f"`{name}`"

    def _typed(self, rows: str, tombstone: str = "false", has_lines: bool = False) -> str:
        return self._judge(rows, None, _NULL_TEXT, tombstone, has_lines)

    def _files(self, spark: SparkSession, slice_: FileSlice) -> str:
        options = dict(slice_.options)
        form = options.get("timestampFormat")
        if slice_.format == "csv":
            return self._csv(spark, slice_, options.get("sep", ","), options.get("header") == "true", form)
        # File names are paths, never patterns.
        reader = spark.read.option("__globPaths__", "false")
        paths = list(slice_.paths)
        if slice_.format == "parquet":
            rows = self._placed(reader.schema(self._ddl()).parquet(*paths), slice_, "*")
            return self._typed(self._with_place(rows, slice_), has_lines=self.stream.is_ordered)
        line = "IF(startswith(value, '\ufeff'), substring(value, 2), value)"
        lines = self._placed(reader.text(paths), slice_, f"CAST({line} AS BINARY) AS __raw", "value")
        lines = lines.where("trim(value) <> ''").drop("value")
        place = ", ".join(f"{name} BIGINT" for name in lines.columns[1:])
        decoder = LineDecoder(self._read_as(form), "json")
        decoded = lines.mapInArrow(partial(_decoded, decoder), f"{self._ddl(form)}, {_LINE}, {place}")
        return self._of_lines(self._with_place(decoded, slice_), "json", form, self.stream.is_ordered)

    def _csv(self, spark: SparkSession, slice_: FileSlice, delimiter: str, header: bool, form: str | None) -> str:
        """Executors cut the files into records."""
        reader = CsvReader(tuple(self.stream.schema.names()), delimiter, header)
        decoder = LineDecoder(self._read_as(form), "csv", delimiter)
        files = [{"number": slice_.first + index, "path": path} for index, path in enumerate(slice_.paths)]
        names = spark.createDataFrame(pa.Table.from_pylist(files))
        count = max(1, min(len(files), spark.sparkContext.defaultParallelism))
        schema = f"{self._ddl(form)}, {_LINE}, __o BIGINT, __block BIGINT, __landed BIGINT"
        base = self._register(names.repartition(count).mapInArrow(partial(_records, reader, decoder), schema), "rows")
        ordered = self.stream.is_ordered
        # Where the order does not matter, the rows of a slice are at one offset, as the kernel has them.
        place = "__o, __block, 0L AS __line" if ordered else f"{slice_.first}L AS __o"
        columns = ", ".join(f"`{name}`" for name in self.stream.schema.names())
        # Of CSV files, the kernel has no lines: rows that are decoded go without them here too.
        raw = "IF(__malformed IS NOT NULL, __raw, NULL) AS __raw"
        placed = f"(SELECT {columns}, __malformed, {raw}, 0 AS __p, {place}, __landed, __landed AS __pt FROM {base})"
        return self._of_lines(placed, "csv", form, ordered)

    def _of_lines(self, rows: str, format_: str, form: str | None, has_lines: bool) -> str:
        """Decoded lines of files. Instants of a given form are text up to here: the form is one of Spark's."""
        texts = [c.name for c in self.stream.schema.columns if c.type == TIMESTAMP] if form is not None else []
        if texts:
            instants = {name: f"try_to_timestamp(`{name}`, '{_escaped(form or '')}')" for name in texts}
            columns = [f"{instants.get(name, f'`{name}`')} AS `{name}`" for name in self.stream.schema.names()]
            reasons = [
                f"WHEN `{name}` IS NOT NULL AND {sql} IS NULL "
                f"THEN concat('malformed {format_}: {name} is TIMESTAMP, got \"', `{name}`, '\"')"
                for name, sql in instants.items()
            ]
            malformed = f"CASE WHEN __malformed IS NOT NULL THEN __malformed {' '.join(reasons)} END AS __malformed"
            place = [_PLACE_NAMES, *(_LINES if has_lines else [])]
            rows = f"(SELECT {', '.join([*columns, malformed, '__raw', *place])} FROM {rows})"
        return self._judge(rows, "__malformed", "__raw", has_lines=has_lines)

    def _placed(self, rows: DataFrame, slice_: FileSlice, *columns: str) -> DataFrame:
        """Rows of files with the time they landed; where their order matters they know their file and their line."""
        if not self.stream.is_ordered:
            return rows.selectExpr(*columns, _LANDED)
        names = functions.array(*(functions.lit(name) for name in _encoded_names(rows, slice_.paths)))
        number = functions.array_position(names, functions.col("_metadata.file_name")) + (slice_.first - 1)
        return rows.select(
            *(functions.expr(column) for column in (*columns, _LANDED)),
            number.cast("BIGINT").alias("__o"),
            functions.expr("_metadata.file_block_start AS __block"),
            functions.monotonically_increasing_id().alias("__line"),
        )

    def _with_place(self, rows: DataFrame, slice_: FileSlice) -> str:
        # Where the order does not matter, the rows of a slice are at one offset, as the kernel has them.
        offset = "" if self.stream.is_ordered else f", {slice_.first}L AS __o"
        return f"(SELECT *, 0 AS __p, __landed AS __pt{offset} FROM {self._register(rows, 'rows')})"

    def _frames(self, spark: SparkSession, slice_: FrameSlice) -> str:
        """Executors read the frames themselves."""
        decoder = self._log_decoder(slice_.format)
        floor = slice_.landed_floor

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for frame in batch.to_pylist():
                    yield from _log_rows(decoder, read_rows(tuple(frame.values()), decoder.schema, floor)).to_batches()

        parallelism = spark.sparkContext.defaultParallelism
        tasks = min(int(spark.conf.get("spark.sql.shuffle.partitions") or parallelism), parallelism)
        count = max(1, min(len(slice_.frames), tasks))
        names = ("p", "path", "position", "length", "start", "end")
        refs = pa.Table.from_pylist([dict(zip(names, frame, strict=True)) for frame in slice_.frames])
        frames = spark.createDataFrame(refs).repartition(count)
        rows = frames.mapInArrow(read, f"{self._ddl()}, {_LINE}, __tombstone BOOLEAN, {_PLACE}")
        return self._judge(self._register(rows, "rows"), "__malformed", "__raw", _TOMBSTONE)

    def _log_decoder(self, format_: Format) -> LineDecoder:
        return LineDecoder(self.stream.schema.to_arrow(), "csv" if format_ == "csv" else "json")

    def _judge(
        self, rows: str, malformed: str | None, raw: str, tombstone: str = "false", has_lines: bool = False
    ) -> str:
        """Add event time and the reason a row is dead; for a table also what the change does."""
        stream = self.stream
        is_table = bool(stream.primary_key)
        is_delete = stream.rules.is_delete_sql(tombstone)
        columns = ", ".join(f"`{name}`" for name in stream.schema.names())
        event_time = self._event_time()
        reasons = [f"WHEN {malformed} IS NOT NULL THEN {malformed}"] if malformed else []
        if not is_table and tombstone != "false":
            reasons.append(f"WHEN {tombstone} THEN 'a deletion of a key: only a table can take it'")
        if stream.event_time is not None:
            # When a key is deleted matters only to versions.
            needed = f"NOT {is_delete} AND " if is_table and not stream.rules.versioned else ""
            reasons.append(f"WHEN {needed}{event_time} IS NULL THEN '{missing_time(stream)}'")
            if self.max_ahead is not None:
                bound = time_ahead(stream, self.max_ahead)
                reasons.append(f"WHEN {event_time} > __landed + {self.max_ahead}L THEN '{bound}'")
            reasons.append(f"WHEN {event_time} NOT BETWEEN {OLDEST}L AND {NEWEST}L THEN '{time_out_of_range(stream)}'")
        reasons.extend(f"WHEN `{key}` IS NULL THEN 'primary key {key} is NULL'" for key in stream.primary_key)
        reasons.extend(stream.rules.dead_sql(tombstone))
        dead = f"CASE {' '.join(reasons)} END" if reasons else _NULL_TEXT
        change = ""
        if is_table:
            last = ", ".join(_LINES) if has_lines else "CAST(__p AS BIGINT), 0L"
            change = f", {is_delete} AS __delete, struct(__o, {last}) AS __order"
        elif stream.is_ordered:
            change = f", struct(__o, {', '.join(_LINES)}) AS __order" if has_lines else ", __o AS __order"
        return (
            f"(SELECT {columns}, __p, __o, __pt, {event_time} AS __et, {dead} AS __dead, {raw} AS __raw, "
            f"false AS __bad{change} FROM {rows})"
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

    def _ddl(self, timestamp_form: str | None = None) -> str:
        return ", ".join(f"`{field.name}` {spark_type(field.type)}" for field in self._read_as(timestamp_form))

    def _read_as(self, timestamp_form: str | None) -> pa.Schema:
        """The columns of the stream, with instants as text if they have a form of their own."""
        columns = self.stream.schema.columns
        texts = {TIMESTAMP: pa.string()} if timestamp_form is not None else {}
        return pa.schema([(column.name, texts.get(column.type, column.type)) for column in columns])


def temporary_name(*parts: str) -> str:
    """The name of a temporary view, for which Spark takes only plain letters.

    >>> temporary_name("bids", "rows")
    '__ms_bids_rows'
    """
    plain = "_".join(parts)
    return "__ms_" + "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"x{ord(c):x}" for c in plain)


def _encoded_names(rows: DataFrame, paths: Sequence[str]) -> list[str]:
    """The names of files as Spark's metadata have them: encoded as in a URI."""
    hadoop: Any = rows.sparkSession._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
    return [str(hadoop.Path(path).toUri().getRawPath()).rsplit("/", 1)[-1] for path in paths]


def _log_rows(decoder: LineDecoder, rows: pa.Table) -> pa.Table:
    """Rows of the log, typed or lines, with `__malformed`."""
    if "__typed" in rows.column_names and pc.all(rows.column("__typed")).as_py():
        nothing = pa.nulls(rows.num_rows, pa.string())
        return _with_lines(rows.select(decoder.schema.names), nothing, nothing, rows)
    decoded = decoder.decode(rows.column("__raw").to_pylist())
    return _with_lines(decoded.rows, decoded.reasons, _texts(rows.column("__raw").to_pylist()), rows)


def _decoded(decoder: LineDecoder, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Lines of files as rows."""
    for batch in batches:
        lines = batch.column("__raw").to_pylist()
        decoded = decoder.decode(lines)
        yield from _with_lines(
            decoded.rows, decoded.reasons, _texts(lines), pa.Table.from_batches([batch])
        ).to_batches()


def _records(reader: CsvReader, decoder: LineDecoder, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Records of CSV files as rows."""
    for batch in batches:
        for records in reader.read([(file["number"], file["path"]) for file in batch.to_pylist()]):
            raw, instead = records.column("__raw").to_pylist(), records.column("__text").to_pylist()
            decoded = decoder.decode(
                [text if text is not None else line for line, text in zip(raw, instead, strict=True)]
            )
            reasons = pc.coalesce(records.column("__fault"), decoded.reasons)
            table = pa.Table.from_batches([records]).drop_columns(["__text", "__fault"])
            yield from _with_lines(decoded.rows, reasons, _texts(raw), table).to_batches()


def _with_lines(rows: pa.Table, malformed: pa.Array, raw: pa.Array, given: pa.Table) -> pa.Table:
    """Rows as Spark takes them: then why they are dead, their lines, and what else was given with these."""
    rows = rows.append_column("__malformed", malformed).append_column("__raw", raw)
    for name in given.column_names:
        if name not in rows.column_names and name != "__typed":
            rows = rows.append_column(name, given.column(name))
    return zoned(rows.combine_chunks())


def _texts(lines: Sequence[bytes | None]) -> pa.Array:
    return pa.array([None if line is None else line.decode(errors="replace") for line in lines], pa.string())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _union(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({' UNION ALL '.join(f'SELECT * FROM {part}' for part in parts)})"
