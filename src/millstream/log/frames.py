"""The frame: one Arrow record batch with a checksummed header, and how to read it back.

    header (72 bytes) | message-id digests (16 bytes a row, optional) | Arrow IPC stream

Owns the bytes of a frame. `read_frame` and `read_frames` need only a path and a place in the
file, so that an executor without a `Log` can call them.

Always: a batch that is handed out passed its checksums, and carries `_offset` and `_landed_at`
after its payload columns. Offsets within a frame ascend. A *sparse* frame (after compaction)
stores both columns; a dense one derives them from its header. `first_offset` and `end_offset`
state which offsets a frame answers for, so adjacent frames leave no gap, even where compaction
removed rows. It must not write files or know about topics.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.model.errors import MillstreamError

OFFSET = "_offset"
LANDED_AT = "_landed_at"
TOMBSTONE = "_tombstone"
"""A payload column of frames that delete: true in a row that says its key is gone."""
RESERVED = frozenset({OFFSET, LANDED_AT})

MAGIC = b"MSF1"
DIGEST_BYTES = 16
SPARSE = 1

# magic, checksum of the rest of the header | flags, rows, payload length | ids length, ids
# checksum, payload checksum, unused | first offset, end offset, landed at, synced offset
_HEADER = struct.Struct("<4sIIIQIIIIqqqq")
HEADER_BYTES = _HEADER.size
_CHECKED_FROM = 8


class FrameGoneError(MillstreamError):
    """Retention or compaction has removed a segment since a read of it was planned."""


@dataclass(frozen=True, slots=True)
class FrameRef:
    """Where a frame is. `length` is all its bytes in the file, `bytes` those of its payload."""

    path: str
    position: int
    length: int
    first_offset: int
    end_offset: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Header:
    flags: int
    rows: int
    payload_length: int
    ids_length: int
    ids_checksum: int
    payload_checksum: int
    first_offset: int
    end_offset: int
    landed_at: int
    synced_offset: int
    """Every offset below this was durable when the frame was written: tells a torn tail from rot."""

    @property
    def length(self) -> int:
        return HEADER_BYTES + self.ids_length + self.payload_length

    def pack(self) -> bytes:
        packed = bytearray(
            _HEADER.pack(
                MAGIC,
                0,
                self.flags,
                self.rows,
                self.payload_length,
                self.ids_length,
                self.ids_checksum,
                self.payload_checksum,
                0,
                self.first_offset,
                self.end_offset,
                self.landed_at,
                self.synced_offset,
            )
        )
        struct.pack_into("<I", packed, 4, zlib.crc32(memoryview(packed)[_CHECKED_FROM:]))
        return bytes(packed)


@dataclass(frozen=True, slots=True)
class Body:
    """An encoded frame that has no place yet; encoded and checksummed before any lock is taken."""

    rows: int
    payload: Any
    payload_checksum: int
    digests: Sequence[bytes]
    ids: bytes
    sparse: bool

    @property
    def length(self) -> int:
        return HEADER_BYTES + len(self.ids) + len(self.payload)

    def header(self, first_offset: int, end_offset: int, landed_at: int, synced_offset: int) -> Header:
        return Header(
            SPARSE if self.sparse else 0,
            self.rows,
            len(self.payload),
            len(self.ids),
            zlib.crc32(self.ids),
            self.payload_checksum,
            first_offset,
            end_offset,
            landed_at,
            synced_offset,
        )


def encode(
    batch: pa.RecordBatch,
    *,
    digests: Sequence[bytes] = (),
    sparse: bool = False,
    compression: str | None = None,
) -> Body:
    """Encode rows; `digests` is empty or has one message-id digest a row (zeros: no id)."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    payload = memoryview(sink.getvalue())
    return Body(batch.num_rows, payload, zlib.crc32(payload), digests, b"".join(digests), sparse)


def unpack_header(buffer: Any, position: int = 0) -> Header | None:
    """The header at a position, or None when there is no intact one."""
    if len(buffer) - position < HEADER_BYTES:
        return None
    magic, checksum, *fields = _HEADER.unpack_from(buffer, position)
    if magic != MAGIC:
        return None
    checked = memoryview(buffer)[position + _CHECKED_FROM : position + HEADER_BYTES]
    if zlib.crc32(checked) != checksum:
        return None
    del fields[6]
    return Header(*fields)


def body_is_intact(header: Header, buffer: Any, position: int) -> bool:
    """Whether the digests and the payload after the header at `position` pass their checksums."""
    ids_at = position + HEADER_BYTES
    payload_at = ids_at + header.ids_length
    end = payload_at + header.payload_length
    if end > len(buffer):
        return False
    view = memoryview(buffer)
    return (
        zlib.crc32(view[payload_at:end]) == header.payload_checksum
        and zlib.crc32(view[ids_at:payload_at]) == header.ids_checksum
    )


def find_header(buffer: Any, position: int, first_offset: int) -> int | None:
    """The next place at or after `position` that holds an intact header of a later offset."""
    while (position := buffer.find(MAGIC, position)) >= 0:
        header = unpack_header(buffer, position)
        if header is not None and header.first_offset >= first_offset:
            return position
        position += 1
    return None


def read_frame(path: str | os.PathLike[str], position: int, length: int) -> pa.RecordBatch:
    """The rows of one frame, with `_offset` and `_landed_at`.

    Raises FRAME_GONE when retention or compaction removed the file (plan the range again) and
    LOG_CORRUPT when a checksum fails.
    """
    batches = read_frames(path, position, length)
    if len(batches) != 1:
        raise corrupt(path, position, f"expected one frame in {length} bytes, found {len(batches)}")
    return batches[0]


def read_frames(path: str | os.PathLike[str], position: int, length: int) -> list[pa.RecordBatch]:
    """The rows of adjacent frames that together fill `length` bytes: one read for many small frames."""
    buffer = _read_bytes(path, position, length)
    return [decode(header, buffer, at, path, position + at) for header, at in _headers(buffer, path, position)]


def decode(header: Header, buffer: Any, at: int, path: str | os.PathLike[str], position: int) -> pa.RecordBatch:
    """The rows of the frame at `at` in a buffer; path and position are for the error."""
    if not body_is_intact(header, buffer, at):
        raise corrupt(path, position, "the checksum of the frame does not match its bytes")
    payload_at = at + HEADER_BYTES + header.ids_length
    payload = pa.py_buffer(memoryview(buffer)[payload_at : payload_at + header.payload_length])
    with pa.ipc.open_stream(payload) as reader:
        batch = reader.read_next_batch()
    if header.flags & SPARSE:
        return batch
    offsets = pa.array(np.arange(header.first_offset, header.end_offset, dtype=np.int64))
    landed = pa.array(np.full(header.rows, header.landed_at, dtype=np.int64))
    return pa.RecordBatch.from_arrays(
        [*batch.columns, offsets, landed],
        schema=batch.schema.append(pa.field(OFFSET, pa.int64())).append(pa.field(LANDED_AT, pa.int64())),
    )


def slice_offsets(batch: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    """The rows of a frame's batch whose offset is in [start, end)."""
    offsets = batch.column(OFFSET).to_numpy()
    low, high = np.searchsorted(offsets, (start, end))
    return batch.slice(int(low), int(high - low))


def corrupt(path: str | os.PathLike[str], position: int, detail: str) -> MillstreamError:
    return MillstreamError(
        "LOG_CORRUPT",
        f"the log is damaged in {os.fspath(path)} at byte {position}",
        detail=detail,
        hint="restore the file from a copy; rows before and after the damage can still be read",
    )


def _headers(buffer: bytes, path: str | os.PathLike[str], position: int) -> Iterator[tuple[Header, int]]:
    at = 0
    while at < len(buffer):
        header = unpack_header(buffer, at)
        if header is None:
            raise corrupt(path, position + at, "there is no intact frame header")
        yield header, at
        at += header.length


def _read_bytes(path: str | os.PathLike[str], position: int, length: int) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            file.seek(position)
            pieces = [file.read(length)]
            # One read returns at most 2 GiB, and fewer bytes than asked near the end of the file.
            while pieces[-1] and sum(map(len, pieces)) < length:
                pieces.append(file.read(length - sum(map(len, pieces))))
    except FileNotFoundError:
        raise FrameGoneError(
            "FRAME_GONE",
            "a segment of the log was removed after the read was planned",
            detail=f"{os.fspath(path)} was retired by retention or compaction",
            hint="plan the offset range again and retry",
        ) from None
    buffer = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    if len(buffer) < length:
        raise corrupt(path, position, f"{length} bytes were expected, the file has {len(buffer)}")
    return buffer
