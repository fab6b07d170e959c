"""Which frames a segment holds, by offset.

Owns the columns of the index in memory and their saved form beside a sealed segment (`.idx`).

Always: frames ascend by offset. The saved form is only a shortcut: it is checksummed, names the
segment's size, and when anything does not fit, the segment's headers are scanned instead. It must
not read payloads.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path

from millstream.log.frames import FrameRef, Header

_MAGIC = b"MSX1"
_HEAD = struct.Struct("<4sIqq")  # magic, checksum of the rest, frames, size of the segment


class FrameIndex:
    """Seven machine-integer columns instead of objects: a segment can hold 100,000 small frames."""

    __slots__ = ("ends", "firsts", "ids", "landed", "lengths", "positions", "rows")

    def __init__(self) -> None:
        self.positions = array("q")
        self.lengths = array("q")
        self.ids = array("q")
        self.firsts = array("q")
        self.ends = array("q")
        self.rows = array("q")
        self.landed = array("q")

    def __len__(self) -> int:
        return len(self.positions)

    def _columns(self) -> tuple[array[int], ...]:
        return (self.positions, self.lengths, self.ids, self.firsts, self.ends, self.rows, self.landed)

    def add(self, header: Header, position: int) -> None:
        self.positions.append(position)
        self.lengths.append(header.length)
        self.ids.append(header.ids_length)
        self.firsts.append(header.first_offset)
        self.ends.append(header.end_offset)
        self.rows.append(header.rows)
        self.landed.append(header.landed_at)

    def cut_at_offset(self, offset: int) -> None:
        """Forget the frames that begin at or after an offset."""
        count = bisect_left(self.firsts, offset)
        for column in self._columns():
            del column[count:]

    def cut_at_position(self, position: int) -> None:
        """Forget the frames that begin at or after a place in the file."""
        count = bisect_left(self.positions, position)
        for column in self._columns():
            del column[count:]

    def numbers(self, start: int, end: int) -> range:
        """The frames that have a part in [start, end)."""
        return range(bisect_right(self.ends, start), bisect_left(self.firsts, end))

    def ref(self, number: int, path: str, header_bytes: int) -> FrameRef:
        length = self.lengths[number]
        return FrameRef(
            path,
            self.positions[number],
            length,
            self.firsts[number],
            self.ends[number],
            self.rows[number],
            length - header_bytes - self.ids[number],
        )

    def newest_landed_at(self) -> int | None:
        return max(self.landed, default=None)

    def oldest_landed_at(self) -> int | None:
        return self.landed[0] if self.landed else None

    def row_count(self) -> int:
        return sum(self.rows)

    def with_ids_since(self, landed_after: int) -> Iterator[tuple[int, int, int]]:
        """(position, digests length, landed at) of frames with message ids newer than an instant."""
        for position, length, landed in zip(self.positions, self.ids, self.landed, strict=True):
            if length and landed > landed_after:
                yield position, length, landed


def save_index(index: FrameIndex, path: Path, segment_bytes: int) -> None:
    """Save beside a sealed segment; not synced, because losing it costs only a scan."""
    columns = b"".join(column.tobytes() for column in index._columns())
    head = struct.pack("<qq", len(index), segment_bytes)
    checksum = zlib.crc32(columns, zlib.crc32(head))
    path.write_bytes(struct.pack("<4sI", _MAGIC, checksum) + head + columns)


def load_index(path: Path, segment_bytes: int) -> FrameIndex | None:
    """The saved index of a segment of that size, or None when there is no trustworthy one."""
    try:
        saved = path.read_bytes()
    except OSError:
        return None
    if len(saved) < _HEAD.size:
        return None
    magic, checksum, count, size = _HEAD.unpack_from(saved)
    if magic != _MAGIC or size != segment_bytes or zlib.crc32(memoryview(saved)[8:]) != checksum:
        return None
    index = FrameIndex()
    columns = index._columns()
    if len(saved) != _HEAD.size + 8 * count * len(columns):
        return None
    for number, column in enumerate(columns):
        start = _HEAD.size + 8 * count * number
        column.frombytes(saved[start : start + 8 * count])
    return index
