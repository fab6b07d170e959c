"""`source = 'files'`: a directory of files, each read once, as Spark's own readers read them.

A file belongs to the stream from the moment it has its final name: write it elsewhere, or under a
name that begins with a dot or an underscore, and rename it. Which files are done is kept in the
store with the epoch that read them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

from pydantic import Field

from millstream.model.errors import MillstreamError
from millstream.model.settings import Size
from millstream.plan.slices import FileSlice
from millstream.sources.options import ReplayedOptions
from millstream.sources.protocol import Cut, Offsets, Opening, Place, Source, UnreadableError
from millstream.sources.starts import Start


class FilesOptions(ReplayedOptions):
    """`source = 'files'`: a directory of files, each read once."""

    path: str
    format: Literal["json", "csv", "parquet"]
    pattern: str = "*"
    header: bool = False
    delimiter: str = ","
    timestamp_format: str | None = None
    files_per_epoch: int = Field(default=100, ge=1)
    bytes_per_epoch: Size = 256 * 2**20

    def notices(self) -> tuple[str, ...]:
        if Path(self.path).exists():
            return ()
        return (f"there is no {self.path!r} yet; the stream is empty until there is",)

    def reader_options(self) -> tuple[tuple[str, str], ...]:
        """The options of Spark's reader."""
        options: dict[str, str] = {}
        if self.format == "csv":
            options |= {"header": str(self.header).lower(), "sep": self.delimiter, "enforceSchema": "true"}
        if self.timestamp_format:
            options["timestampFormat"] = self.timestamp_format
        return tuple(options.items())


class FilesSource(Source):
    """Offset n of the one partition is the n-th file."""

    def __init__(self, options: FilesOptions, done: Sequence[str]) -> None:
        self._options = options
        self._directory = Path(options.path).absolute()
        self._order = list(done)
        self._known = set(done)
        self._discovering = threading.Lock()

    @property
    def partitions(self) -> int:
        return 1

    def start(self) -> Offsets:
        return {0: self._options.begins_at.get(0, 0)}

    def place(self, start: Start) -> Place:
        """The number of files that a start leaves out now, and these files."""
        self._discover()
        if start.landed_at is not None:
            older = [path for path in self._order if os.stat(path).st_mtime_ns < start.landed_at * 1_000]
            return self._after(len(older))
        if start.word == "latest":
            return self._after(len(self._order))
        chosen = start.offsets or {}
        if any(partition != 0 or offset > len(self._order) for partition, offset in chosen.items()):
            raise MillstreamError(
                "BAD_OPTION",
                "files are counted in partition 0",
                detail=f"there are {len(self._order)} of them",
                hint="write start = '0=3' to leave out the first three",
            )
        return self._after(chosen.get(0, 0))

    def _after(self, count: int) -> Place:
        return Place({0: count}, self._order[:count])

    def end(self) -> Offsets:
        self._discover()
        return {0: len(self._order)}

    def waiting(self, offsets: Offsets) -> int:
        first = self._first(offsets)
        return max(0, len(self._order) - first)

    def cut(self, offsets: Offsets, limit: int, until: Offsets | None = None) -> Cut | None:
        first = self._first(offsets)
        stop = len(self._order) if until is None else min(until.get(0, 0), len(self._order))
        if first >= stop:
            return None
        most = min(limit, self._options.files_per_epoch)
        chosen: list[str] = []
        size = 0
        for path in self._order[first:stop]:
            found = self._size(path)
            if found is None:
                if chosen:
                    break
                raise UnreadableError(
                    "FILE_GONE",
                    f"{path} was removed before it was read",
                    self._cut(first, [path]),
                    hint="put it back",
                )
            size += found
            if chosen and (size > self._options.bytes_per_epoch or len(chosen) >= most):
                break
            chosen.append(path)
        return self._cut(first, chosen)

    def _cut(self, first: int, paths: Sequence[str]) -> Cut:
        files = [(first + index, path) for index, path in enumerate(paths)]
        slice_ = FileSlice(tuple(paths), first, self._options.format, self._options.reader_options())
        return Cut(slice_, {0: first + len(paths)}, files, len(paths))

    def _first(self, offsets: Offsets) -> int:
        """The next file after some offsets; when all that are known are done, new ones are looked for."""
        first = max(offsets.get(0, 0), self.start()[0])
        if first >= len(self._order):
            self._discover()
        return first

    def _discover(self) -> None:
        """New files, in the order of their modification, then by name."""
        with self._discovering:
            self._look()

    def _look(self) -> None:
        found: list[tuple[int, str]] = []
        try:
            entries = os.scandir(self._directory)
        except FileNotFoundError:
            return
        with entries:
            for entry in entries:
                if entry.path in self._known or not self._is_ours(entry):
                    continue
                # A file may be gone as soon as it was listed.
                with suppress(FileNotFoundError):
                    found.append((entry.stat().st_mtime_ns, entry.path))
        for _, path in sorted(found):
            self._order.append(path)
            self._known.add(path)

    def _is_ours(self, entry: os.DirEntry[str]) -> bool:
        hidden = entry.name.startswith((".", "_"))
        return not hidden and entry.is_file() and fnmatch(entry.name, self._options.pattern)

    def _size(self, path: str) -> int | None:
        """The bytes of a file; None if it is gone, and not its directory with it."""
        try:
            return os.stat(path).st_size
        except FileNotFoundError:
            os.stat(self._directory)
            return None

    def close(self) -> None:
        pass


def open_files(options: FilesOptions, opening: Opening) -> FilesSource:
    return FilesSource(options, opening.files())
