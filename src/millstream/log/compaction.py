"""Compaction: a table topic keeps the newest row of every key.

Owns the rewriting of sealed segments. The newest row per key *among the sealed segments that have
been read* stays, with its offset and its landing time; later segments are left as they are. The newest
is the one with the highest sequence where the topic has such a column, else the last. Rows of frames
without the key columns (undecoded lines) have no key and all stay.

A tombstone is a row like any other, so it outlives what it deletes. It goes after a while, but not
while there are lines, of which one might be of its key.

Always: a rewritten segment is complete and durable under a name of a higher generation before any
file it replaces is removed; whichever of those a crash leaves behind, the next open removes.
References to removed files fail with FRAME_GONE; planning the range again finds the rows. It must
not change offsets.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.log import disk
from millstream.log.frames import LANDED_AT, OFFSET, TOMBSTONE, Body, encode, read_frame
from millstream.log.index import FrameIndex
from millstream.log.partitions import Partition
from millstream.log.segments import Segment, segment_path
from millstream.log.settings import TopicSettings
from millstream.model.errors import MillstreamError

FRAME_TARGET_BYTES = 8 * 1024 * 1024
_PLACE = "_place"

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Compacted:
    """What compaction did to sealed segments."""

    rows_before: int = 0
    rows_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0

    def __add__(self, other: Compacted) -> Compacted:
        return Compacted(
            self.rows_before + other.rows_before,
            self.rows_after + other.rows_after,
            self.bytes_before + other.bytes_before,
            self.bytes_after + other.bytes_after,
        )


@dataclass(frozen=True, slots=True)
class Survey:
    """What compaction has found in a partition: segments that may be rewritten, and which rows are newest."""

    segments: tuple[Segment, ...] = ()
    newest: pa.Table | None = None
    unkeyed: tuple[Offsets, ...] = ()

    def kept(self, forget_before: int) -> Offsets:
        """The offsets that stay, ascending: not those of tombstones that landed before an instant."""
        offsets = list(self.unkeyed)
        if self.newest is not None:
            gone = self.newest.column(TOMBSTONE).fill_null(False).to_numpy()
            old = self.newest.column(LANDED_AT).to_numpy() < forget_before
            offsets.append(self.newest.column(OFFSET).to_numpy()[~(gone & old)])
        return np.sort(np.concatenate([*offsets, np.empty(0, dtype=np.int64)]))


def survey(partition: Partition, settings: TopicSettings, keep_from: int | None = None) -> Survey:
    """Look at the sealed segments below an offset; the caller holds the maintenance lock of the partition."""
    sealed = tuple(s for s in partition.sealed() if keep_from is None or _end_of(s, partition) <= keep_from)
    if not sealed:
        return Survey()
    # Planning a read of everything finds gaps; rewriting would otherwise close over lost rows.
    partition.frames(sealed[0].base, _end_of(sealed[-1], partition))
    newest: pa.Table | None = None
    unkeyed: list[Offsets] = []
    for segment in sealed:
        found = [newest] if newest is not None else []
        for batch in _batches(segment):
            if set(settings.compact_by) <= set(batch.schema.names):
                found.append(_deciding(batch, settings))
            else:
                unkeyed.append(batch.column(OFFSET).to_numpy())
        if found:
            # Reducing segment by segment bounds the memory by the keys, not by the rows.
            newest = _newest(_unify(found, settings.compact_by), settings)
    return Survey(sealed, newest, tuple(unkeyed))


def forget_before(partitions: Sequence[Partition], surveys: Sequence[Survey], retain: int | None, now: int) -> int:
    """The instant before which tombstones may go: nothing that they could delete is left then."""
    never = -(2**62)
    if retain is None or any(found.unkeyed for found in surveys):
        return never
    # Lines in segments that were not looked at are newer than the tombstones that go.
    others = [
        at
        for partition, found in zip(partitions, surveys, strict=True)
        for segment in partition.segments()
        if segment not in found.segments and (at := segment.index.oldest_landed_at()) is not None
    ]
    return min([now - retain, *others])


def compact_partition(
    partition: Partition,
    found: Survey,
    forget_before: int,
    before_remove: Callable[[Sequence[Segment]], None],
) -> Compacted:
    """Rewrite what was surveyed; the caller has held the maintenance lock of the partition since then."""
    kept = found.kept(forget_before)
    sealed, compression = found.segments, partition.settings.compression
    total = Compacted()
    for group in _groups(sealed, kept, partition.settings.segment_bytes):
        before = sum(segment.index.row_count() for segment in group)
        size = sum(segment.size for segment in group)
        if before == _count_kept(group, kept) and len(group) == 1:
            total += Compacted(before, before, size, size)
            continue
        before_remove(group)
        rewritten = _rewrite(group, kept, _end_of(group[-1], partition), compression)
        partition.replace(group, (rewritten,))
        total += Compacted(before, rewritten.index.row_count(), size, rewritten.size)
    return total


def _batches(segment: Segment) -> Iterator[pa.RecordBatch]:
    for number in range(len(segment.index)):
        ref = segment.ref(number)
        if ref.rows:
            yield read_frame(ref.path, ref.position, ref.length)


def _deciding(batch: pa.RecordBatch, settings: TopicSettings) -> pa.Table:
    """The columns that decide which row of a key stays."""
    table = pa.Table.from_batches([batch])
    chosen = {key: table.column(key) for key in settings.compact_by}
    for extra in (settings.compact_sequence, settings.compact_instant):
        if extra is not None:
            chosen[extra] = table.column(extra) if extra in table.column_names else pa.nulls(len(table))
    gone = table.column(TOMBSTONE) if TOMBSTONE in table.column_names else pa.repeat(False, len(table))
    return pa.table({**chosen, TOMBSTONE: gone, OFFSET: table.column(OFFSET), LANDED_AT: table.column(LANDED_AT)})


def _newest(rows: pa.Table, settings: TopicSettings) -> pa.Table:
    keys = list(settings.compact_by)
    if settings.compact_instant is not None and settings.compact_instant not in keys:
        keys.append(settings.compact_instant)
    order = [] if settings.compact_sequence is None else [(settings.compact_sequence, "descending")]
    # NULLs come last: a row without a sequence is a dead letter and must not hide one that has it.
    rows = rows.sort_by([*order, (OFFSET, "descending")])
    place = pa.array(np.arange(rows.num_rows))
    first = rows.append_column(_PLACE, place).group_by(keys).aggregate([(_PLACE, "min")])
    return rows.take(first.column(f"{_PLACE}_min"))


def _unify(tables: Sequence[pa.Table], keys: Sequence[str]) -> pa.Table:
    try:
        return pa.concat_tables(list(tables), promote_options="permissive").combine_chunks()
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise MillstreamError(
            "KEY_TYPE_CHANGED",
            "the topic cannot be compacted: its key columns changed type",
            detail=f"{', '.join(keys)}: {error}",
            hint="write the rows to a new topic with one type for the key",
        ) from None


def _count_kept(group: Sequence[Segment], kept: Offsets) -> int:
    spans = [(segment.index.firsts[0], segment.index.ends[-1]) for segment in group if len(segment.index)]
    return sum(int(np.diff(np.searchsorted(kept, span))[0]) for span in spans)


def _groups(sealed: Sequence[Segment], kept: Offsets, segment_bytes: int) -> Iterator[tuple[Segment, ...]]:
    """Adjacent segments whose remaining rows fit one segment, so that the files do not only shrink."""
    group: list[Segment] = []
    expected_bytes = 0
    for segment in sealed:
        rows = segment.index.row_count()
        remaining = segment.size * _count_kept((segment,), kept) // rows if rows else 0
        if group and expected_bytes + remaining > segment_bytes:
            yield tuple(group)
            group, expected_bytes = [], 0
        group.append(segment)
        expected_bytes += remaining
    if group:
        yield tuple(group)


def _end_of(segment: Segment, partition: Partition) -> int:
    """The offset where the successor of a sealed segment begins."""
    return min(other.base for other in partition.segments() if other.base > segment.base)


def _rewrite(group: Sequence[Segment], kept: Offsets, end: int, compression: str | None) -> Segment:
    first = group[0]
    generation = 1 + max(segment.generation for segment in group)
    path = segment_path(first.path.parent, first.base, generation)
    temporary = path.with_name(path.name + ".tmp")
    index = FrameIndex()
    bounds = [segment.base for segment in group[1:]] + [end]
    size = 0
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            for segment, bound in zip(group, bounds, strict=True):
                size = _rewrite_one(descriptor, index, size, segment, bound, kept, compression)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
        disk.sync_directory(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise disk.write_error(error, path) from error
    rewritten = Segment(path, first.base, generation, index, size)
    rewritten.seal()
    return rewritten


def _no_rows() -> pa.RecordBatch:
    # Not a constant: the first array that Arrow makes of a list imports pandas, which delays every command.
    return pa.record_batch({OFFSET: pa.array([], type=pa.int64()), LANDED_AT: pa.array([], type=pa.int64())})


def _rewrite_one(
    descriptor: int,
    index: FrameIndex,
    position: int,
    segment: Segment,
    bound: int,
    kept: Offsets,
    compression: str | None,
) -> int:
    """Write what stays of one segment, answering for the offsets from its base up to `bound`."""
    bodies = [(batch, encode(batch, sparse=True, compression=compression)) for batch in _runs(segment, kept)]
    if not bodies:
        bodies = [(empty := _no_rows(), encode(empty, sparse=True))]
    first_offset = segment.base
    for number, (batch, body) in enumerate(bodies):
        following: tuple[pa.RecordBatch, Body] | None = bodies[number + 1] if number + 1 < len(bodies) else None
        end_offset = bound if following is None else following[0].column(OFFSET)[0].as_py()
        landed_at = max(batch.column(LANDED_AT).to_pylist(), default=segment.index.newest_landed_at() or 0)
        header = body.header(first_offset, end_offset, landed_at, first_offset)
        disk.write_all(descriptor, (header.pack(), body.payload))
        index.add(header, position)
        position += body.length
        first_offset = end_offset
    return position


def _runs(segment: Segment, kept: Offsets) -> Iterator[pa.RecordBatch]:
    """The rows that stay, adjacent ones of one schema together up to the size of a large frame."""
    run: list[pa.RecordBatch] = []
    size = 0
    for batch in _batches(segment):
        stays = pa.array(np.isin(batch.column(OFFSET).to_numpy(), kept, assume_unique=True))
        batch = batch.filter(stays)
        if not batch.num_rows:
            continue
        if run and (batch.schema != run[0].schema or size + batch.nbytes > FRAME_TARGET_BYTES):
            yield pa.concat_batches(run)
            run, size = [], 0
        run.append(batch)
        size += batch.nbytes
    if run:
        yield pa.concat_batches(run)
