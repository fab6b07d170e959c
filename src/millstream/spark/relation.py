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
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions

from millstream.kernel.records import RECORDS, CsvReader
from millstream.kernel.shares import read_rows
from millstream.model.schema import spark_type
from millstream.plan.dead import NEWEST, OLDEST, missing_time, time_ahead, time_out_of_range
from millstream.plan.nodes import Stream
from millstream.plan.slices import CUT_LINE, BatchSlice, FileSlice, FrameSlice, GeneratedSlice, RowsSlice, Slice
from millstream.spark.arrow import zoned

_PLACE = "__p INT, __o BIGINT, __landed BIGINT, __pt BIGINT"
_PLACE_NAMES = "__p, __o, __landed, __pt"
# A row of a file arrived when the file was last written. (Metadata is not visible through a view.)
_LANDED = "unix_micros(_metadata.file_modification_time) AS __landed"
# Of rows that do not say when they landed, it is the engine's clock when their epoch reads them.
_NOW = "CAST(NULL AS BIGINT) AS __pt"
_CUT = CUT_LINE.decode(errors="replace")
_NULL_TEXT = "CAST(NULL AS STRING)"
_TOMBSTONE = "__tombstone"
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
                    base = self._register(spark.createDataFrame(lines), "lines")
                    parts.append(self._lines(f"(SELECT /*+ COALESCE(1) */ * FROM {base})", format_))
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

    def _lines(
        self,
        lines: str,
        format_: str,
        typed: str = "false",
        options: Sequence[tuple[str, str]] = (),
        has_lines: bool = False,
        parsed_as: str = "__raw",
        fault: str = _NULL_TEXT,
    ) -> str:
        """Lines parsed by Spark; what is not even text is not parsed. Rows that are `typed` pass as they are.

        `parsed_as` is what is parsed of a line; a line with a `fault` is dead for that reason.
        """
        raw, text = "CAST(__raw AS STRING)", f"CAST({parsed_as} AS STRING)"
        is_text = f"is_valid_utf8({text})"
        settings = ", ".join(f"'{key}', '{_escaped(value)}'" for key, value in (("mode", "PERMISSIVE"), *options))
        if format_ == "json":
            # As an array of one: Spark would otherwise overlook whatever follows the first value.
            fields = ", ".join(f"`{c.name}`: {spark_type(c.type)}" for c in self.stream.schema.columns)
            one = f"concat('[', {text}, ']')"
            rows = f"from_json(IF({is_text}, {one}, NULL), 'ARRAY<STRUCT<{fields}>>', map({settings}))"
            parsed = f"{rows} AS __rows"
            row, broken = "get(__rows, 0)", "__rows IS NULL OR size(__rows) <> 1 OR get(__rows, 0) IS NULL"
        else:
            schema = f"{self._ddl()}, __corrupt STRING"
            # Quotes within quotes are doubled; where they are escaped, `kernel/records.py` has doubled them.
            settings += ", 'columnNameOfCorruptRecord', '__corrupt', 'escape', '\"', 'multiLine', 'true'"
            parsed = f"from_csv(IF({is_text}, {text}, NULL), '{schema}', map({settings})) AS __row"
            row, broken = "__row", "__row IS NULL OR __row.__corrupt IS NOT NULL"
        names = self.stream.schema.names()
        columns = [f"{row}.`{name}` AS `{name}`" for name in names]
        carried = [f"make_valid_utf8({raw}) AS __raw", f"{is_text} AS __is_text", f"{fault} AS __fault", parsed]
        if typed != "false":
            columns = [f"IF({typed}, `{name}`, {row}.`{name}`) AS `{name}`" for name in names]
            carried += [typed, *(f"`{name}`" for name in names)]
        # Only rows of the log that are typed can be tombstones.
        place = [_PLACE_NAMES, *([_TOMBSTONE] if typed != "false" else []), *(_LINES if has_lines else [])]
        inner = f"(SELECT {', '.join([*carried, *place])} FROM {lines})"
        malformed = (
            f"CASE WHEN {typed} THEN NULL WHEN __fault IS NOT NULL THEN __fault "
            f"WHEN NOT __is_text AND endswith(__raw, '{_CUT}') THEN 'line too long' "
            f"WHEN NOT __is_text THEN 'invalid UTF-8' "
            f"WHEN {broken} THEN 'malformed {format_}' END"
        )
        flat = f"(SELECT {', '.join([*columns, *place])}, {malformed} AS __malformed, __raw FROM {inner})"
        # Of CSV files, the kernel has no lines: rows that are decoded go without them here too.
        shown = "__raw" if parsed_as == "__raw" else "IF(__malformed IS NOT NULL, __raw, NULL)"
        return self._judge(flat, "__malformed", shown, _TOMBSTONE if typed != "false" else "false", has_lines)

    def _files(self, spark: SparkSession, slice_: FileSlice) -> str:
        if slice_.format == "csv":
            return self._csv(spark, slice_)
        # File names are paths, never patterns.
        reader = spark.read.options(**dict(slice_.options)).option("__globPaths__", "false")
        paths = list(slice_.paths)
        ordered = self.stream.is_ordered
        if slice_.format == "json":
            line = "IF(startswith(value, '\ufeff'), substring(value, 2), value)"
            rows = self._placed(reader.text(paths), slice_, f"CAST({line} AS BINARY) AS __raw", "value")
            text = f"(SELECT * FROM {rows} WHERE trim(value) <> '')"
            return self._lines(text, "json", options=slice_.options, has_lines=ordered)
        rows = self._placed(reader.schema(self._ddl()).parquet(*paths), slice_, "*")
        return self._typed(rows, has_lines=ordered)

    def _csv(self, spark: SparkSession, slice_: FileSlice) -> str:
        """Executors cut the files into records, which Spark parses."""
        options = dict(slice_.options)
        header = options.pop("header", "false") == "true"
        options.pop("enforceSchema", None)
        reader = CsvReader(tuple(self.stream.schema.names()), options.get("sep", ","), header)

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield from reader.read([(file["number"], file["path"]) for file in batch.to_pylist()])

        files = [{"number": slice_.first + index, "path": path} for index, path in enumerate(slice_.paths)]
        names = spark.createDataFrame(pa.Table.from_pylist(files))
        count = max(1, min(len(files), spark.sparkContext.defaultParallelism))
        base = self._register(names.repartition(count).mapInArrow(read, RECORDS), "rows")
        ordered = self.stream.is_ordered
        # Where the order does not matter, the rows of a slice are at one offset, as the kernel has them.
        offset, line = ("__o", ", __block, 0L AS __line") if ordered else (f"{slice_.first}L", "")
        rows = (
            f"(SELECT __raw, __text, __fault, 0 AS __p, {offset} AS __o, __landed, __landed AS __pt{line} FROM {base})"
        )
        parsed_as = "coalesce(__text, __raw)"
        return self._lines(rows, "csv", "false", tuple(options.items()), ordered, parsed_as, "__fault")

    def _placed(self, rows: DataFrame, slice_: FileSlice, *columns: str) -> str:
        """Rows of files with their place; where their order matters they know their file and their line."""
        if not self.stream.is_ordered:
            base = self._register(rows.selectExpr(*columns, _LANDED), "rows")
            return f"(SELECT *, 0 AS __p, {slice_.first}L AS __o, __landed AS __pt FROM {base})"
        names = functions.array(*(functions.lit(name) for name in _encoded_names(rows, slice_.paths)))
        number = functions.array_position(names, functions.col("_metadata.file_name")) + (slice_.first - 1)
        placed = rows.select(
            *(functions.expr(column) for column in (*columns, _LANDED)),
            functions.expr("0 AS __p"),
            number.cast("BIGINT").alias("__o"),
            functions.expr("_metadata.file_block_start AS __block"),
            functions.monotonically_increasing_id().alias("__line"),
        )
        return f"(SELECT *, __landed AS __pt FROM {self._register(placed, 'rows')})"

    def _frames(self, spark: SparkSession, slice_: FrameSlice) -> str:
        """Executors read the frames themselves."""
        arrow_schema = self.stream.schema.to_arrow()
        floor = slice_.landed_floor

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for frame in batch.to_pylist():
                    rows = read_rows(tuple(frame.values()), arrow_schema, floor)
                    yield from zoned(rows.combine_chunks()).to_batches()

        parallelism = spark.sparkContext.defaultParallelism
        tasks = min(int(spark.conf.get("spark.sql.shuffle.partitions") or parallelism), parallelism)
        count = max(1, min(len(slice_.frames), tasks))
        names = ("p", "path", "position", "length", "start", "end")
        refs = pa.Table.from_pylist([dict(zip(names, frame, strict=True)) for frame in slice_.frames])
        frames = spark.createDataFrame(refs).repartition(count)
        rows = frames.mapInArrow(read, f"{self._ddl()}, __raw BINARY, __typed BOOLEAN, __tombstone BOOLEAN, {_PLACE}")
        base = self._register(rows, "rows")
        return self._lines(base, slice_.format, typed="__typed")

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

    def _ddl(self) -> str:
        return ", ".join(f"`{c.name}` {spark_type(c.type)}" for c in self.stream.schema.columns)


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


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _union(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({' UNION ALL '.join(f'SELECT * FROM {part}' for part in parts)})"
