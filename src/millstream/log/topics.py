"""A topic: rows in, offsets out.

Owns the split of an append over partitions, and brings partitions and message ids together.

Always: when `append` returns, every row of it is durable. When it raises, or the process dies in
it, the rows of some partitions may be there and those of others not; nothing was acknowledged, so
the producer sends all again, and rows that carried message ids are then accepted exactly once.
Rows with equal keys land in one partition, in the order of the appends. Readers see durable
rows only. It must not interpret the rows beyond their key columns.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.log import disk
from millstream.log.compaction import FRAME_TARGET_BYTES, Compacted, compact_partition, forget_before, survey
from millstream.log.frames import RESERVED, Body, FrameGoneError, FrameRef, encode, read_frames, slice_offsets
from millstream.log.hashing import partition_numbers
from millstream.log.message_ids import Claim, MessageIds
from millstream.log.metadata import TopicMetadata, partition_directory
from millstream.log.partitions import Partition, Ticket
from millstream.log.segments import Repair, Segment
from millstream.log.settings import TopicSettings
from millstream.model.errors import MillstreamError
from millstream.model.time import Clock

_FRAME_MAX_ROWS = 262_144
_READ_BYTES = 16 * 1024 * 1024
_REPLANS = 5


@dataclass(frozen=True, slots=True)
class Appended:
    """Where rows went: partition → (first offset, count). Duplicates were dropped by message id."""

    ranges: Mapping[int, tuple[int, int]]
    duplicates: int = 0

    @property
    def rows(self) -> int:
        return sum(count for _, count in self.ranges.values())


@dataclass(frozen=True, slots=True)
class Retained:
    """What retention dropped."""

    segments: int = 0
    rows: int = 0
    bytes: int = 0


class Topic:
    """Made by `Log`. Every method may be called from any thread."""

    def __init__(self, directory: Path, clock: Clock, syncers: Executor, appended: Callable[[str], None]) -> None:
        self._directory = directory
        self._metadata = TopicMetadata.load(directory)
        self._clock = clock
        self._syncers = syncers
        self._appended = appended
        settings = self._metadata.settings
        self._partitions = tuple(
            Partition(partition_directory(directory, number), number, settings)
            for number in range(self._metadata.partitions)
        )
        self._ids = MessageIds(directory / "ids", settings.message_id_window_micros)
        segments = [segment for partition in self._partitions for segment in partition.segments()]
        self._ids.load(segments, clock.now())
        self._turn_lock = threading.Lock()
        # Rows dealt one by one leave the offsets adding up to the number of turns taken.
        self._turn = sum(partition.end_offset() for partition in self._partitions)

    @property
    def name(self) -> str:
        return self._metadata.name

    @property
    def id(self) -> str:
        return self._metadata.id

    @property
    def partitions(self) -> int:
        return len(self._partitions)

    @property
    def settings(self) -> TopicSettings:
        return self._metadata.settings

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """Torn tails that were cut off when this topic was opened."""
        return tuple(repair for partition in self._partitions for repair in partition.repairs)

    @property
    def owner(self) -> str | None:
        """Whoever the topic ends with; None for a topic of users."""
        return self._metadata.owner

    @property
    def directory(self) -> Path:
        return self._directory

    def change_settings(self, settings: TopicSettings) -> None:
        self._save(replace(self._metadata, settings=settings))
        self._ids.window_micros = settings.message_id_window_micros
        for partition in self._partitions:
            partition.settings = settings

    def change_owner(self, owner: str | None) -> None:
        self._save(replace(self._metadata, owner=owner))

    def change_name(self, name: str) -> None:
        """For `Log.rename_topic`, which keeps names unique."""
        self._save(replace(self._metadata, name=name))

    def _save(self, changed: TopicMetadata) -> None:
        try:
            changed.save(self._directory)
        except OSError as error:
            raise disk.write_error(error, self._directory) from error
        self._metadata = changed

    # --- appending

    def append(
        self,
        rows: pa.Table | pa.RecordBatch,
        *,
        keys: Sequence[str] = (),
        message_ids: Sequence[str | None] | None = None,
    ) -> Appended:
        """Add rows; returns when all of them are durable.

        `keys` names the columns that choose the partition; without them rows are dealt to the
        partitions in turn (a compacted topic uses its own key). With `message_ids`, one a row,
        a row whose id the topic accepted within the window is dropped and counted.
        """
        _check_columns(rows)
        landed_at = self._clock.now()
        if message_ids is None:
            return self._append(rows, keys, None, landed_at)
        if len(message_ids) != rows.num_rows:
            raise MillstreamError("BAD_MESSAGE_IDS", f"{rows.num_rows} rows came with {len(message_ids)} message ids")
        claim = self._ids.claim(message_ids, landed_at)
        durable: list[bytes] = []
        try:
            if claim.duplicates:
                rows = rows.take(pa.array(claim.rows, type=pa.int64()))
            return self._append(rows, keys, claim, landed_at, durable)
        finally:
            self._ids.settle(claim, durable, landed_at)

    def _append(
        self,
        rows: pa.Table | pa.RecordBatch,
        keys: Sequence[str],
        claim: Claim | None,
        landed_at: int,
        durable: list[bytes] | None = None,
    ) -> Appended:
        bodies = self._encode(rows, keys, claim.digests if claim else ())
        tickets: dict[int, Ticket] = {}
        try:
            for number in sorted(bodies):
                tickets[number] = self._partitions[number].write(bodies[number], landed_at)
                if tickets[number].error is not None:
                    break
        finally:
            # Also after an error: what was written is about to become durable, and its ids with it.
            try:
                self._sync(tickets)
            finally:
                # An interrupted sync leaves frames that the next one makes durable: they count too.
                entries = [e for t in tickets.values() for e in t.entries if e.durable or t.error is None]
                if durable is not None:
                    durable += [digest for entry in entries for digest in entry.body.digests]
            if entries:
                self._appended(self.name)
        for ticket in tickets.values():
            if ticket.error is not None:
                raise ticket.error
        ranges = {number: (ticket.first_offset, ticket.rows) for number, ticket in tickets.items()}
        return Appended(ranges, claim.duplicates if claim else 0)

    def _sync(self, tickets: Mapping[int, Ticket]) -> None:
        """Sync each partition's file; several at once, since the disk serves them together."""
        waiting = [(self._partitions[number], t) for number, t in tickets.items() if not t.settled]
        if not waiting:
            return
        others = []
        for partition, ticket in waiting[1:]:
            try:
                others.append(self._syncers.submit(partition.sync, ticket))
            except RuntimeError:  # the log was closed meanwhile, which settled the ticket
                partition.sync(ticket)
        waiting[0][0].sync(waiting[0][1])
        for other in others:
            other.result()

    def _encode(
        self, rows: pa.Table | pa.RecordBatch, keys: Sequence[str], digests: Sequence[bytes]
    ) -> dict[int, list[Body]]:
        bodies: dict[int, list[Body]] = {}
        done = 0
        for batch in _plain_batches(rows):
            for number, part, row_numbers in self._split(batch, keys):
                part_digests: Sequence[bytes] = ()
                if digests and row_numbers is None:
                    part_digests = digests[done : done + batch.num_rows]
                elif digests and row_numbers is not None:
                    part_digests = [digests[done + row] for row in row_numbers.tolist()]
                for start, piece in _frame_sized(part):
                    piece_digests = part_digests[start : start + piece.num_rows]
                    body = encode(piece, digests=piece_digests, compression=self.settings.compression)
                    bodies.setdefault(number, []).append(body)
            done += batch.num_rows
        return bodies

    def _split(self, batch: pa.RecordBatch, keys: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch, Any]]:
        """(partition, its rows, their numbers in the batch or None for all of them)."""
        count = len(self._partitions)
        if count == 1 and not keys:
            yield 0, batch, None
            return
        if not keys and set(self.settings.compact_by) <= set(batch.schema.names):
            keys = self.settings.compact_by
        if keys:
            numbers = partition_numbers(batch, keys, count)
        else:
            with self._turn_lock:
                turn = self._turn
                self._turn += batch.num_rows
            numbers = (np.arange(batch.num_rows, dtype=np.int64) + turn) % count
        if batch.num_rows and (numbers == numbers[0]).all():
            yield int(numbers[0]), batch, None
            return
        for number in np.unique(numbers):
            row_numbers = np.flatnonzero(numbers == number)
            yield int(number), batch.take(pa.array(row_numbers)), row_numbers

    # --- reading

    def start_offsets(self) -> dict[int, int]:
        """The oldest offset per partition that retention has left."""
        return {partition.number: partition.start_offset() for partition in self._partitions}

    def end_offsets(self) -> dict[int, int]:
        """The next offset per partition; every row below it is durable."""
        return {partition.number: partition.end_offset() for partition in self._partitions}

    def offsets_at(self, landed_at: int) -> dict[int, int]:
        """The first offset per partition of what arrived at an instant or later."""
        return {partition.number: partition.offset_at(landed_at) for partition in self._partitions}

    def size_bytes(self) -> int:
        return sum(partition.size_bytes() for partition in self._partitions)

    def frames(self, partition: int, start: int, end: int | None = None) -> list[FrameRef]:
        """The frames that hold [start, end); the first and the last may stick out of it.

        `end` defaults to the end offset. A reader that holds references while retention or
        compaction runs may meet FRAME_GONE; planning again gives the rows, or OFFSET_GONE.
        """
        chosen = self._partition(partition)
        if end is None:
            end = chosen.end_offset()
        if start >= end:
            return []
        if end > chosen.end_offset():
            raise MillstreamError(
                "OFFSET_AHEAD",
                f"offset {end} of {self.name!r} partition {partition} is beyond the end of the log",
                detail=f"the log ends at {chosen.end_offset()}",
                hint="was the log restored from an older copy than its readers?",
            )
        # Read last: retention may move it at any time, and frames below it would be missing.
        if start < chosen.start_offset():
            raise self._gone(chosen, start)
        try:
            return chosen.frames(start, end)
        except MillstreamError:
            if start < chosen.start_offset():
                raise self._gone(chosen, start) from None
            raise

    def read(self, partition: int, start: int, end: int | None = None) -> list[pa.RecordBatch]:
        """The rows with offsets in [start, end), in order, with `_offset` and `_landed_at`."""
        if end is None:
            end = self._partition(partition).end_offset()
        for _ in range(_REPLANS):
            try:
                batches = [
                    batch
                    for path, position, length in _spans(self.frames(partition, start, end))
                    for batch in read_frames(path, position, length)
                ]
                break
            except FrameGoneError as error:
                gone = error
        else:
            raise gone
        sliced = (slice_offsets(batch, start, end) for batch in batches)
        return [batch for batch in sliced if batch.num_rows]

    def _partition(self, number: int) -> Partition:
        if not 0 <= number < len(self._partitions):
            raise MillstreamError(
                "UNKNOWN_PARTITION",
                f"topic {self.name!r} has no partition {number}",
                detail=f"it has {len(self._partitions)}, counted from 0",
            )
        return self._partitions[number]

    def _gone(self, partition: Partition, start: int) -> MillstreamError:
        return MillstreamError(
            "OFFSET_GONE",
            f"offset {start} of {self.name!r} partition {partition.number} is no longer kept",
            detail=f"retention has removed everything below {partition.start_offset()}",
            hint="start at the oldest kept offset, or lengthen the retention of the topic",
        )

    # --- maintenance

    def retain(self, keep_from: Mapping[int, int] | None = None) -> Retained:
        """Drop whole segments that are over the age or the size of the settings.

        With `keep_from`, rows at or beyond these offsets stay whatever their age; a partition that
        is missing from it is taken as not consumed at all.
        """
        total = Retained()
        for partition in self._partitions:
            with partition.maintenance_lock:
                now = self._clock.now()
                partition.roll_aged(now)
                keep = None if keep_from is None else keep_from.get(partition.number, 0)
                victims = partition.expired(now, keep)
                if not victims:
                    continue
                self._preserve_ids(partition, victims)
                partition.replace(victims, ())
                total = Retained(
                    total.segments + len(victims),
                    total.rows + sum(victim.index.row_count() for victim in victims),
                    total.bytes + sum(victim.size for victim in victims),
                )
        return total

    def compact(self, keep_from: Mapping[int, int] | None = None) -> Compacted:
        """Keep only the newest row per key in the sealed segments; offsets stay what they were.

        With `keep_from`, segments that reach beyond these offsets are left as they are: whoever reads
        them next may need more than the newest rows. Tombstones that are old enough go.
        """
        if not self.settings.compact_by:
            raise MillstreamError(
                "NO_COMPACTION_KEY",
                f"topic {self.name!r} has no key to compact by",
                hint="create it with TopicSettings(compact_by=...)",
            )
        total = Compacted()
        now = self._clock.now()
        with contextlib.ExitStack() as locks:
            surveys = []
            for partition in self._partitions:
                locks.enter_context(partition.maintenance_lock)
                partition.roll_aged(now)
                limit = None if keep_from is None else keep_from.get(partition.number, 0)
                surveys.append(survey(partition, self.settings, limit))
            # Every version of a key stays where instants are kept, and so do the ends of them.
            retain = None if self.settings.compact_instant else self.settings.tombstone_retain_micros
            horizon = forget_before(self._partitions, surveys, retain, now)
            for partition, found in zip(self._partitions, surveys, strict=True):

                def preserve(victims: Sequence[Segment], partition: Partition = partition) -> None:
                    self._preserve_ids(partition, victims)

                total += compact_partition(partition, found, horizon, preserve)
        return total

    def _preserve_ids(self, partition: Partition, victims: Sequence[Segment]) -> None:
        name = f"{partition.number}-{victims[0].base}-{victims[0].generation}"
        try:
            self._ids.preserve(victims, name, self._clock.now())
        except OSError as error:
            raise disk.write_error(error, self._directory) from error

    def close(self) -> None:
        for partition in self._partitions:
            partition.close()


def _check_columns(rows: pa.Table | pa.RecordBatch) -> None:
    taken = RESERVED.intersection(rows.schema.names)
    if taken:
        raise MillstreamError(
            "RESERVED_COLUMN",
            f"rows cannot have a column named {sorted(taken)[0]!r}",
            detail="the log gives every row its _offset and _landed_at",
            hint="rename the column",
        )


def _plain_batches(rows: pa.Table | pa.RecordBatch) -> list[pa.RecordBatch]:
    """As few batches as possible, without dictionaries: frames are read one by one and put together."""
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    encoded = [n for n, field in enumerate(table.schema) if pa.types.is_dictionary(field.type)]
    for number in encoded:
        name, kind = table.schema.names[number], table.schema.types[number].value_type
        table = table.set_column(number, name, table.column(number).cast(kind))
    if isinstance(rows, pa.RecordBatch) and not encoded:
        return [rows] if rows.num_rows else []
    batches: list[pa.RecordBatch] = table.combine_chunks().to_batches()
    return [batch for batch in batches if batch.num_rows]


def _frame_sized(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Pieces that one executor reads in a moment, so that a large append is read in parallel."""
    step = max(1, min(_FRAME_MAX_ROWS, batch.num_rows * FRAME_TARGET_BYTES // max(1, batch.nbytes)))
    for start in range(0, batch.num_rows, step):
        yield start, batch.slice(start, step)


def _spans(refs: Sequence[FrameRef]) -> Iterator[tuple[str, int, int]]:
    """(path, position, length) of adjacent frames together, so that small frames share a read."""
    span: tuple[str, int, int] | None = None
    for ref in refs:
        if span is not None:
            path, position, length = span
            adjacent = path == ref.path and position + length == ref.position
            if adjacent and length + ref.length <= _READ_BYTES:
                span = (path, position, length + ref.length)
                continue
            yield span
        span = (ref.path, ref.position, ref.length)
    if span is not None:
        yield span
