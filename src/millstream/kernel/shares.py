"""A task's share of a slice, and how its rows are read: in the executor, into Arrow.

Whatever the source, the rows have the stream's columns, `__p`, `__o`, `__landed` and `__pt`; `weight` is
about the work that a share makes, in bytes. If it is asked for, `__raw` has the line of a row. A share
that holds anything but typed rows that Spark would read alike is refused as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from millstream.kernel.csv import CsvKernel
from millstream.kernel.csv import split as split_csv
from millstream.kernel.handover import Parcel, receive, send
from millstream.kernel.json_lines import JsonKernel
from millstream.kernel.json_lines import split as split_json
from millstream.kernel.lines import LineRange, RefusedError, landed_at
from millstream.log import read_frame, slice_offsets
from millstream.model.schema import TIMESTAMP
from millstream.plan.slices import FileSlice, Frame, FrameSlice, RowsSlice, Slice, align

_PLACE = ("__p", "__o", "__landed", "__pt")
# At most this many rows of a Parquet file, or bytes of the log, are one task's.
_TASK_ROWS = 2_000_000
_TASK_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class RowsShare:
    """Few rows, which come with the task: typed ones, and lines that are still to be decoded."""

    typed: Parcel | None
    lines: Parcel | None
    kernel: JsonKernel | None

    @property
    def weight(self) -> int:
        return sum(len(parcel) for parcel in (self.typed, self.lines) if parcel is not None)

    def read(self, schema: pa.Schema, *, raw: bool = False) -> pa.Table:
        tables = [_with_raw(receive(self.typed), None, raw)] if self.typed is not None else []
        if self.lines is not None:
            tables.append(_decoded(receive(self.lines), self.kernel, raw))
        return pa.concat_tables(tables)


@dataclass(frozen=True, slots=True)
class FrameShare:
    """Frames of the log."""

    frames: tuple[Frame, ...]
    landed_floor: int
    kernel: JsonKernel | None
    """Decodes frames of lines."""

    @property
    def weight(self) -> int:
        return sum(frame[3] for frame in self.frames)

    def read(self, schema: pa.Schema, *, raw: bool = False) -> pa.Table:
        return pa.concat_tables(self._read(schema, raw))

    def _read(self, schema: pa.Schema, raw: bool) -> Iterator[pa.Table]:
        for frame in self.frames:
            rows = read_rows(frame, schema, self.landed_floor)
            _refuse_deletions(rows)
            if pc.all(rows.column("__typed")).as_py():
                yield _with_raw(rows.select([*schema.names, *_PLACE]), None, raw)
            else:
                yield _decoded(rows, self.kernel, raw)


def read_rows(frame: Frame, schema: pa.Schema, landed_floor: int) -> pa.Table:
    """The rows of a frame as `align` has them."""
    partition, path, position, length, start, end = frame
    batch = slice_offsets(read_frame(path, position, length), start, end)
    return align(pa.Table.from_batches([batch]), schema, partition, landed_floor)


def _decoded(lines: pa.Table, kernel: JsonKernel | None, raw: bool) -> pa.Table:
    """Lines of the log as rows, in their place."""
    if kernel is None:
        raise RefusedError("lines that Spark decodes")
    rows = kernel.decode(lines.column("__raw").combine_chunks())
    for name in _PLACE:
        rows = rows.append_column(name, lines.column(name))
    return _with_raw(rows, lines.column("__raw").cast(pa.string()), raw)


def _with_raw(rows: pa.Table, lines: pa.Array | pa.ChunkedArray | None, raw: bool) -> pa.Table:
    """Rows with the lines that they were decoded from, if these are asked for."""
    if not raw:
        return rows
    return rows.append_column("__raw", lines if lines is not None else pa.nulls(rows.num_rows, pa.string()))


@dataclass(frozen=True, slots=True)
class LinesShare:
    """Ranges of CSV or JSON files. `first` is the offset of them all."""

    kernel: CsvKernel | JsonKernel
    ranges: tuple[LineRange, ...]
    first: int

    @property
    def weight(self) -> int:
        return sum(range_.end - range_.start for range_ in self.ranges)

    def read(self, schema: pa.Schema, *, raw: bool = False) -> pa.Table:
        batches = [batch for range_ in self.ranges for batch in self.kernel.read(range_)]
        rows = pa.Table.from_batches(batches, self.kernel.output())
        placed = _placed(rows.select(schema.names).cast(schema), self.first, rows.column("__landed"))
        # Of CSV, Spark has the line of a row only if it is malformed.
        lines = None
        if raw and isinstance(self.kernel, JsonKernel):
            lines = pa.array([line for range_ in self.ranges for line in self.kernel.lines(range_)], pa.string())
        return _with_raw(placed, lines, raw)


@dataclass(frozen=True, slots=True)
class ParquetShare:
    """Row groups of a Parquet file."""

    path: str
    groups: tuple[int, ...]
    first: int
    size: int
    modified_ns: int

    @property
    def weight(self) -> int:
        return self.size * len(self.groups)

    def read(self, schema: pa.Schema, *, raw: bool = False) -> pa.Table:
        try:
            with pq.ParquetFile(self.path) as file:
                found = os.stat(self.path)
                if (found.st_size, found.st_mtime_ns) != (self.size, self.modified_ns):
                    raise RefusedError(f"{self.path} has changed")
                rows = file.read_row_groups(list(self.groups), columns=schema.names, use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise RefusedError(str(error)) from None
        if any(not _is_alike(rows.schema.field(f.name).type, f.type) for f in schema):
            raise RefusedError("columns of other types")
        landed = pa.repeat(pa.scalar(landed_at(self.modified_ns), pa.int64()), rows.num_rows)
        placed = _placed(rows.cast(schema), self.first, landed)
        return _with_raw(placed, None, raw)


Share = RowsShare | FrameShare | LinesShare | ParquetShare


class Readable(Protocol):
    """Rows that a task evaluates: a share, or rows that are there already."""

    def read(self, schema: pa.Schema, *, raw: bool = False) -> pa.Table: ...


def share_out(slice_: Slice, schema: pa.Schema, parallelism: int) -> list[Share]:
    """A slice as tasks, about as many as there are cores. Raises `RefusedError`."""
    match slice_:
        case RowsSlice(typed, lines, format_):
            if typed is not None:
                _refuse_deletions(typed)
            own = send(typed.select([*schema.names, *_PLACE]), None) if typed is not None else None
            text = send(lines.select(["__raw", *_PLACE]), None) if lines is not None else None
            return [RowsShare(own, text, _json(schema, format_) if lines is not None else None)]
        case FrameSlice(frames, format_, floor):
            kernel = _json(schema, format_)
            runs = zip(_runs([frame[3] for frame in frames], parallelism, _TASK_BYTES), frames, strict=True)
            shares = [[frame for _, frame in run] for _, run in groupby(runs, key=itemgetter(0))]
            return [FrameShare(tuple(share), floor, kernel) for share in shares]
        case FileSlice(paths, first, "csv" | "json" as format_, options):
            reader, split = (CsvKernel, split_csv) if format_ == "csv" else (JsonKernel, split_json)
            lines_kernel = reader.of(schema, dict(options))
            return [LinesShare(lines_kernel, task, first) for task in split(paths, parallelism)]
        case FileSlice(paths, first, "parquet", ()):
            return _parquet(paths, first, schema, parallelism)
    raise RefusedError("rows that Spark reads")


def _json(schema: pa.Schema, format_: str) -> JsonKernel | None:
    """How lines of the log are decoded, if the kernel can."""
    try:
        return JsonKernel.of(schema, {}) if format_ == "json" else None
    except RefusedError:
        return None


def _refuse_deletions(rows: pa.Table) -> None:
    """Only a table can take them, and which of two changes came first is then known to Spark only."""
    if "__tombstone" in rows.column_names and pc.any(rows.column("__tombstone")).as_py():
        raise RefusedError("deletions of keys")


def _placed(rows: pa.Table, first: int, landed: pa.Array | pa.ChunkedArray) -> pa.Table:
    count = rows.num_rows
    place = [pa.repeat(pa.scalar(0, pa.int32()), count), pa.repeat(pa.scalar(first, pa.int64()), count), landed, landed]
    for name, column in zip(_PLACE, place, strict=True):
        rows = rows.append_column(name, column)
    return rows


def _runs(weights: Sequence[int], parallelism: int, most: int) -> Iterator[int]:
    """For each of some things, in their order, the number of its run: runs weigh about the same, and at most `most`."""
    step = max(1, min(-(-sum(weights) // max(1, parallelism)), most))
    before = 0
    for weight in weights:
        yield before // step
        before += weight


def _parquet(paths: Sequence[str], first: int, schema: pa.Schema, parallelism: int) -> list[Share]:
    """Row groups as tasks of about the same number of rows; a task reads of one file."""
    groups: list[tuple[str, os.stat_result, int, int]] = []
    for path in paths:
        try:
            found = os.stat(path)
            with pq.ParquetFile(path) as file:
                if set(schema.names) - set(file.schema_arrow.names):
                    raise RefusedError("columns that are missing")
                if any(not _is_alike(file.schema_arrow.field(f.name).type, f.type) for f in schema):
                    raise RefusedError("columns of other types")
                counts = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        except (OSError, pa.ArrowException) as error:
            raise RefusedError(str(error)) from None
        groups += [(path, found, index, count) for index, count in enumerate(counts)]
    tasks: dict[tuple[int, str], tuple[os.stat_result, list[int]]] = {}
    runs = _runs([group[3] for group in groups], parallelism, _TASK_ROWS)
    for run, (path, found, index, _) in zip(runs, groups, strict=True):
        tasks.setdefault((run, path), (found, []))[1].append(index)
    return [
        ParquetShare(path, tuple(indexes), first, found.st_size, found.st_mtime_ns)
        for (_, path), (found, indexes) in tasks.items()
    ]


def _is_alike(found: pa.DataType, declared: pa.DataType) -> bool:
    """Whether Spark reads a column of a file as the declared type, and what it reads are the same values."""
    if declared == TIMESTAMP:
        return found in (pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC"))
    plain = pa.types.is_integer(declared) or pa.types.is_floating(declared) or pa.types.is_boolean(declared)
    text = pa.types.is_string(declared) or pa.types.is_date32(declared) or pa.types.is_decimal128(declared)
    return bool((plain or text) and found == declared)
