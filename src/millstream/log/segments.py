"""Segment files: their names, how they are found again, and what a crash can have done to them.

    <partition directory>/<base offset, 20 digits>.<generation>.seg   frames, back to back
                                                               .idx   saved index of a sealed one

Always: the last segment of a partition is the active one and exists even when it is empty, so the
next offset is never forgotten. Where two files claim the same offsets, the one of the higher
generation is right (a compaction was interrupted before it removed what it had replaced), and of
one generation the one with the later base (the earlier was given up after a failed sync). A
successor therefore never has a lower generation than the active segment it follows. Every sealed
segment was synced before its successor was created, so only the last one can have a torn tail.

It must not change a file except to cut off a torn tail and to remove files that were replaced.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import re
from dataclasses import dataclass
from pathlib import Path

from millstream.log import disk
from millstream.log.frames import HEADER_BYTES, FrameRef, body_is_intact, find_header, unpack_header
from millstream.log.index import FrameIndex, load_index, save_index

_NAME = re.compile(r"(\d{20})\.(\d+)\.seg")


@dataclass(slots=True, eq=False)
class Segment:
    """One file. `size` and `index` cover durable frames only."""

    path: Path
    base: int
    generation: int
    index: FrameIndex
    size: int

    @property
    def index_path(self) -> Path:
        return self.path.with_suffix(".idx")

    def ref(self, number: int) -> FrameRef:
        return self.index.ref(number, str(self.path), HEADER_BYTES)

    def seal(self) -> None:
        """Save the index; it only speeds up the next start, so a disk that refuses is no error."""
        with contextlib.suppress(OSError):
            save_index(self.index, self.index_path, self.path.stat().st_size)

    def remove(self) -> None:
        for path in (self.path, self.index_path):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()


@dataclass(frozen=True, slots=True)
class Repair:
    """A torn tail that was cut off on open: bytes that no producer was ever told are safe."""

    path: str
    position: int
    bytes: int


def segment_path(directory: Path, base: int, generation: int) -> Path:
    return directory / f"{base:020d}.{generation}.seg"


def create_segment(directory: Path, base: int, generation: int = 0) -> Segment:
    """An empty segment whose name is durable; an empty file left by a failed attempt is taken over."""
    path = segment_path(directory, base, generation)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if os.fstat(descriptor).st_size:
            raise FileExistsError(errno.EEXIST, "a segment with this base already has rows", str(path))
    finally:
        os.close(descriptor)
    disk.sync_directory(directory)
    return Segment(path, base, generation, FrameIndex(), 0)


def open_segments(directory: Path) -> tuple[list[Segment], list[Repair]]:
    """The segments of a partition in order, the active one last, with its torn tail cut off."""
    found = _list_segments(directory)
    if not found:
        return [create_segment(directory, 0)], []
    segments: list[Segment] = []
    for base, generation, path in found[:-1]:
        _settle_overlap(segments, _open_sealed(path, base, generation))
    active, repairs = _open_active(*found[-1])
    _settle_overlap(segments, active)
    return segments, repairs


def _settle_overlap(segments: list[Segment], following: Segment) -> None:
    """Add a segment, unless the one before it has replaced it."""
    if segments and len(segments[-1].index) and segments[-1].index.ends[-1] > following.base:
        if segments[-1].generation > following.generation:
            following.remove()
            return
        segments[-1].index.cut_at_offset(following.base)
    segments.append(following)


def _list_segments(directory: Path) -> list[tuple[int, int, Path]]:
    newest: dict[int, tuple[int, int, Path]] = {}
    for path in sorted(directory.iterdir()):
        if path.suffix == ".tmp":
            path.unlink()
            continue
        match = _NAME.fullmatch(path.name)
        if match is None:
            continue
        base, generation = int(match[1]), int(match[2])
        replaced = newest.get(base)
        if replaced is not None and replaced[1] > generation:
            Segment(path, base, generation, FrameIndex(), 0).remove()
            continue
        if replaced is not None:
            Segment(replaced[2], base, replaced[1], FrameIndex(), 0).remove()
        newest[base] = (base, generation, path)
    return [newest[base] for base in sorted(newest)]


def _open_sealed(path: Path, base: int, generation: int) -> Segment:
    size = path.stat().st_size
    index = load_index(path.with_suffix(".idx"), size)
    if index is None:
        index = scan(path, base, verify=False)[0]
        with contextlib.suppress(OSError):
            save_index(index, path.with_suffix(".idx"), size)
    return Segment(path, base, generation, index, size)


def _open_active(base: int, generation: int, path: Path) -> tuple[Segment, list[Repair]]:
    # A saved index here is left from before a successor was lost; this file will grow again.
    with contextlib.suppress(FileNotFoundError):
        path.with_suffix(".idx").unlink()
    index, end = scan(path, base, verify=True)
    size = path.stat().st_size
    repairs = []
    if end < size:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.ftruncate(descriptor, end)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        repairs.append(Repair(str(path), end, size - end))
    return Segment(path, base, generation, index, end), repairs


def scan(path: Path, base: int, *, verify: bool) -> tuple[FrameIndex, int]:
    """Index a file by its headers, and find where its trustworthy part ends.

    With `verify` every checksum is computed. A frame that fails below an offset which a later
    header knows to be durable is rot in acknowledged rows: it stays in the index (or leaves a gap)
    and is reported when it is read. One that fails at or above it was never acknowledged: the
    file ends there. Without `verify`, a damaged header leaves a gap up to the next intact one.
    """
    index = FrameIndex()
    size = path.stat().st_size
    if size == 0:
        return index, 0
    doubtful: list[tuple[int, int]] = []  # (position, first offset)
    expected = synced = base
    position = 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
        while position < size:
            header = unpack_header(buffer, position)
            if header is None or header.first_offset < expected:
                doubtful.append((position, expected))
                next_position = find_header(buffer, position + 1, expected)
                if next_position is None:
                    break
                position = next_position
                continue
            if verify and not body_is_intact(header, buffer, position):
                doubtful.append((position, header.first_offset))
            index.add(header, position)
            expected = header.end_offset
            synced = max(synced, header.synced_offset)
            position += header.length
    if not verify:
        return index, size
    end = min((at for at, offset in doubtful if offset >= synced), default=size)
    index.cut_at_position(end)
    return index, end
