"""Rows of a stream for one epoch, described: where they are, not the rows themselves.

A source cuts slices, Spark opens them. Whatever the kind, an opened slice has the columns of the
stream (or `__raw` lines to decode), `__p`, `__o`, `__landed`, the instant that bounds its event
time, and `__pt`, the processing time at which it arrived; rows of the log also say in `__tombstone`
whether they delete their key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from millstream.log import TOMBSTONE

Format = Literal["json", "csv", "parquet"]
Frame = tuple[int, str, int, int, int, int]
"""A frame of the log: partition, path, position, length, and the offsets that are wanted, start and end."""

CUT_LINE = b"\xff[cut: longer than max_line]"
"""Ends the beginning of a line that was too long to land. It is not UTF-8, so no decoder takes the line for a row."""


@dataclass(frozen=True, slots=True)
class RowsSlice:
    """Few rows, already in the driver: typed ones, and lines that are still to be decoded."""

    typed: pa.Table | None
    lines: pa.Table | None
    format: Format = "json"


@dataclass(frozen=True, slots=True)
class FrameSlice:
    """Many rows in frames of the log, which executors read."""

    frames: tuple[Frame, ...]
    format: Format = "json"
    landed_floor: int = 0


@dataclass(frozen=True, slots=True)
class FileSlice:
    """Whole files, read as Spark's own readers read them. `first` is the sequence number of the first one."""

    paths: tuple[str, ...]
    first: int
    format: Format
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class GeneratedSlice:
    """Rows `start` to `end` of a generator: Spark SQL per column over the row number `id`."""

    start: int
    end: int
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class BatchSlice:
    """A micro-batch of a Structured Streaming query, as the DataFrame it handed over."""

    frame: Any = field(compare=False)
    batch_id: int = 0
    landed_at: int = 0
    """The instant that bounds the event time of its rows."""


Slice = RowsSlice | FrameSlice | FileSlice | GeneratedSlice | BatchSlice


def align(rows: pa.Table, schema: pa.Schema, partition: int, landed_floor: int) -> pa.Table:
    """Rows of the log with exactly the stream's columns, `__raw`, `__typed`, `__tombstone` and their place."""
    typed = "_raw" not in rows.column_names
    count = rows.num_rows
    arrays = [
        rows.column(field.name).cast(field.type)
        if typed and field.name in rows.column_names
        else pa.nulls(count, field.type)
        for field in schema
    ]
    raw = pa.nulls(count, pa.binary()) if typed else rows.column("_raw")
    landed = arrived = rows.column("_landed_at")
    if landed_floor:
        landed = pc.max_element_wise(landed, pa.scalar(landed_floor, pa.int64()))
    gone = rows.column(TOMBSTONE) if TOMBSTONE in rows.column_names else pa.repeat(False, count)
    names = [*schema.names, "__raw", "__typed", "__tombstone", "__p", "__o", "__landed", "__pt"]
    place = [
        raw,
        pa.repeat(typed, count),
        gone,
        pa.repeat(pa.scalar(partition, pa.int32()), count),
        rows.column("_offset"),
        landed,
        arrived,
    ]
    return pa.table([*arrays, *place], names=names)
