"""`source = 'log'`: streams in the embedded log.

Few rows are read here and travel to Spark with the job; many are left where they are, and
executors read the frames themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from pydantic import Field

from millstream.log import Topic, TopicSettings
from millstream.model.errors import MillstreamError, did_you_mean
from millstream.model.schema import Schema
from millstream.model.settings import Duration, Size
from millstream.model.time import Clock
from millstream.plan.nodes import Stream
from millstream.plan.slices import FrameSlice, RowsSlice, align
from millstream.sources.options import DAY, ReplayedOptions, TopicSpec
from millstream.sources.protocol import Cut, Offsets, Opening, Place, Source
from millstream.sources.starts import Start

# Up to here shipping rows with the job is cheaper than starting Python workers to read them.
_ROWS_IN_DRIVER = 20_000


class LogOptions(ReplayedOptions):
    """`source = 'log'`: the embedded log."""

    topic: str | None = None
    partitions: int = Field(default=1, ge=1, le=1024)
    format: Literal["json", "csv"] = "json"
    key: str | None = None
    """Columns (comma-separated) whose hash chooses the partition; without it, round-robin."""
    retention: Duration | None = None
    retention_size: Size | None = None
    message_id_window: Duration = DAY

    @property
    def partition_keys(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in (self.key or "").split(",") if name.strip())

    def topic_of(self, stream: Stream) -> TopicSpec:
        settings = TopicSettings(
            retention_micros=self.retention,
            retention_bytes=self.retention_size,
            compact_by=stream.primary_key,
            compact_sequence=stream.rules.sequence,
            compact_instant=stream.event_time if stream.has_event_versions else None,
            tombstone_retain_micros=stream.rules.tombstone_retain if stream.primary_key else None,
            message_id_window_micros=self.message_id_window,
        )
        return TopicSpec(self.topic or stream.name, self.partitions, settings, is_own=self.topic is None)


@dataclass(slots=True)
class LogSource(Source):
    topic: Topic
    schema: Schema
    options: LogOptions
    clock: Clock

    @property
    def partitions(self) -> int:
        return self.topic.partitions

    def start(self) -> Offsets:
        begins_at = self.options.begins_at
        return {p: max(oldest, begins_at.get(p, 0)) for p, oldest in self.topic.start_offsets().items()}

    def place(self, start: Start) -> Place:
        ends = self.topic.end_offsets()
        if start.word == "latest":
            return Place(ends)
        if start.landed_at is not None:
            return Place(self.topic.offsets_at(start.landed_at))
        chosen = start.offsets or {}
        for partition, offset in chosen.items():
            if offset > ends.get(partition, -1):
                missing = partition not in ends
                raise MillstreamError(
                    "BAD_OPTION",
                    f"topic {self.topic.name} has no partition {partition}"
                    if missing
                    else f"topic {self.topic.name}: partition {partition} ends before offset {offset}",
                    detail=f"it has {len(ends)} of them" if missing else f"its next offset is {ends[partition]}",
                )
        return Place(chosen)

    def end(self) -> Offsets:
        return self.topic.end_offsets()

    def waiting(self, offsets: Offsets) -> int:
        starts, ends = self._bounds(offsets, None)
        return sum(max(0, end - starts[partition]) for partition, end in ends.items())

    def cut(self, offsets: Offsets, limit: int, until: Offsets | None = None) -> Cut | None:
        starts, ends = self._bounds(offsets, until)
        available = {p: ends[p] - starts[p] for p in ends if ends[p] > starts[p]}
        if not available:
            return None
        total = sum(available.values())
        if total > limit:
            share = limit / total
            ends = {p: starts[p] + max(1, int(n * share)) for p, n in available.items()}
        stops = {p: ends.get(p, starts[p]) if p in available else starts[p] for p in starts}
        count = sum(stops[p] - starts[p] for p in available)
        floor = self.options.landed_floor(self.clock)
        if count <= _ROWS_IN_DRIVER:
            slice_ = self._rows(starts, stops, floor)
            if slice_ is None:
                slice_ = RowsSlice(self._empty(), None)
            return Cut(slice_, stops, length=count)
        frames = tuple(
            (p, str(ref.path), ref.position, ref.length, starts[p], stops[p])
            for p in available
            for ref in self.topic.frames(p, starts[p], stops[p])
        )
        return Cut(FrameSlice(frames, self.options.format, floor), stops, length=count)

    def _bounds(self, offsets: Offsets, until: Offsets | None) -> tuple[dict[int, int], dict[int, int]]:
        """Where the rows that follow some offsets begin and end, by partition."""
        ends = self.topic.end_offsets()
        for partition, offset in offsets.items():
            if offset > ends.get(partition, 0):
                raise MillstreamError(
                    "LOG_BEHIND_STORE",
                    f"topic {self.topic.name}: offset {offset} of partition {partition} was processed, "
                    f"but the log ends at {ends.get(partition, 0)}",
                    hint="the log was replaced by an older copy: restore both together, or recreate the stream",
                )
        if until is not None:
            ends = {partition: min(end, until.get(partition, 0)) for partition, end in ends.items()}
        starts = {partition: offsets.get(partition, 0) for partition in ends}
        for partition, oldest in self.start().items():
            # Retention may have overtaken a reader of history, and the stream may begin later.
            starts[partition] = max(starts[partition], min(oldest, ends[partition]))
        return starts, ends

    def _rows(self, starts: Offsets, stops: Offsets, floor: int) -> RowsSlice | None:
        schema = self.schema.to_arrow()
        typed: list[pa.Table] = []
        lines: list[pa.Table] = []
        for partition, start in starts.items():
            if stops[partition] <= start:
                continue
            for batch in self.topic.read(partition, start, stops[partition]):
                is_line = "_raw" in batch.schema.names
                rows = align(pa.Table.from_batches([batch]), schema, partition, floor)
                if is_line:
                    lines.append(rows.select(["__raw", "__p", "__o", "__landed", "__pt"]))
                else:
                    typed.append(rows.drop_columns(["__raw", "__typed"]))
        if not typed and not lines:
            return None
        return RowsSlice(
            pa.concat_tables(typed) if typed else None,
            pa.concat_tables(lines) if lines else None,
            self.options.format,
        )

    def _empty(self) -> pa.Table:
        instants = ((name, pa.int64()) for name in ("__o", "__landed", "__pt"))
        place = [("__tombstone", pa.bool_()), ("__p", pa.int32()), *instants]
        return pa.schema([*self.schema.to_arrow(), *(pa.field(n, t) for n, t in place)]).empty_table()

    def close(self) -> None:
        pass


def open_log(options: LogOptions, opening: Opening) -> LogSource:
    stream = opening.stream
    check_partition_keys(options, opening)
    return LogSource(open_topic(options.topic_of(stream), opening), stream.schema, options, opening.clock)


def check_partition_keys(options: LogOptions, opening: Opening) -> None:
    """Refuse an option `key` that names no column."""
    stream = opening.stream
    for key in options.partition_keys:
        if stream.schema.find(key) is None:
            raise MillstreamError(
                "UNKNOWN_COLUMN",
                f"option key: {stream.name} has no column {key!r}",
                hint=did_you_mean(key, (n.lower() for n in stream.schema.names())),
                position=opening.position,
            )


def open_topic(spec: TopicSpec, opening: Opening) -> Topic:
    """The topic of a stream, created if it is not there."""
    return opening.topic or opening.log.create_topic(spec.name, spec.partitions, spec.settings)
