"""Files of lines, cut into tasks and read in chunks of whole lines.

Owns which files a kernel may read itself, and who reads which line. What always holds: a line belongs
to the range in which it begins, so every line of a file is read once, however the file is cut; and a
file is read as it was found, or refused. Must not know what a line means.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

CHUNK_BYTES = 4 << 20
"""What a task holds of a file at a time. No line may be longer."""
TASK_BYTES = 32 << 20
"""At most this much is one task's."""

_GLOB_CHARACTERS = frozenset("*?[]{}\\")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class RefusedError(Exception):
    """A kernel does not take this input; nothing is said about whether it is good."""


def landed_at(modified_ns: int) -> int:
    """When the rows of a file arrived, in microseconds: of a file's time, Spark knows the milliseconds."""
    return modified_ns // 1_000_000 * 1_000


@dataclass(frozen=True, slots=True)
class LineRange:
    """The lines of a file that begin in a range of bytes, and the file as it was found."""

    path: str
    start: int
    end: int
    size: int
    modified_ns: int

    @property
    def landed(self) -> int:
        return landed_at(self.modified_ns)


@dataclass(frozen=True, slots=True)
class LineFiles:
    """The files that one kernel may read, and the error by which it refuses the others."""

    suffixes: frozenset[str]
    """Names by which neither Hadoop nor Spark takes a file for a compressed one."""
    refusal: type[RefusedError]

    def split(self, paths: Sequence[str], parallelism: int) -> tuple[tuple[LineRange, ...], ...]:
        """Files as tasks of equal size: one per core, or more where that would be much for one task.

        The files are cut as if they were one.
        """
        found = [(path, self._stat(path)) for path in paths]
        total = sum(stat.st_size for _, stat in found)
        share = -(-total // max(1, parallelism))
        step = max(CHUNK_BYTES, min(share, TASK_BYTES))
        tasks: list[list[LineRange]] = [[] for _ in range(-(-total // step))]
        before = 0
        for path, stat in found:
            start = 0
            while start < stat.st_size:
                task = (before + start) // step
                end = min(stat.st_size, (task + 1) * step - before)
                tasks[task].append(LineRange(path, start, end, stat.st_size, stat.st_mtime_ns))
                start = end
            before += stat.st_size
        return tuple(tuple(task) for task in tasks)

    def chunks(self, range_: LineRange, begin: Callable[[bytes], int] = lambda _: 0) -> Iterator[bytes]:
        """The lines of a range, whole ones, a chunk at a time.

        `begin` tells from the first chunk of a file where its rows begin.
        """
        try:
            with open(range_.path, "rb") as file:
                found = os.fstat(file.fileno())
                if (found.st_size, found.st_mtime_ns) != (range_.size, range_.modified_ns):
                    raise self.refusal(f"{range_.path} has changed")
                yield from self._cut(file, range_, begin)
        except OSError as error:
            raise self.refusal(f"{range_.path}: {error.strerror}") from error

    def _cut(self, file: BinaryIO, range_: LineRange, begin: Callable[[bytes], int]) -> Iterator[bytes]:
        position = range_.start
        if position == 0:
            text = file.read(CHUNK_BYTES)
            if text.startswith(BYTE_ORDER_MARK):
                raise self.refusal("a byte order mark")
            position = begin(text)
        else:
            # The byte before tells whether a line begins here.
            file.seek(position - 1)
            position += self._after_newline(file.read(CHUNK_BYTES)) - 1
        while position < range_.end:
            file.seek(position)
            text = file.read(min(CHUNK_BYTES, range_.end - position))
            if position + len(text) == range_.end:
                text += self._rest_of_line(file, text, range_)
            else:
                text = text[: self._last_newline(text)]
            position += len(text)
            yield text

    def _rest_of_line(self, file: BinaryIO, text: bytes, range_: LineRange) -> bytes:
        if text.endswith(b"\n") or range_.end == range_.size:
            return b""
        file.seek(range_.end)
        rest = file.read(CHUNK_BYTES)
        end = rest.find(b"\n")
        if end < 0 and range_.end + len(rest) < range_.size:
            raise self.refusal("a long line")
        return rest if end < 0 else rest[: end + 1]

    def _after_newline(self, text: bytes) -> int:
        """Where the next line begins; the end of the text, if that is the end of the file."""
        end = text.find(b"\n")
        if end < 0 and len(text) == CHUNK_BYTES:
            raise self.refusal("a long line")
        return len(text) if end < 0 else end + 1

    def _last_newline(self, text: bytes) -> int:
        end = text.rfind(b"\n")
        if end < 0:
            raise self.refusal("a long line")
        return end + 1

    def _stat(self, path: str) -> os.stat_result:
        if not _GLOB_CHARACTERS.isdisjoint(path) or os.path.splitext(path)[1] not in self.suffixes:
            raise self.refusal(f"the name {path}")
        try:
            return os.stat(path)
        except OSError as error:
            raise self.refusal(f"{path}: {error.strerror}") from error
