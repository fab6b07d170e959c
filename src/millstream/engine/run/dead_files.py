"""Files that cannot be read: each is one dead letter with its path and the reason.

Owns which file of a job is at fault, and what it counts as. What always holds: such a file is one row that came and is
dead, so rows add up; the files before it are read first; and only a file that failed by itself is set aside. Must not
set aside anything because of what everything needs (`UnavailableError`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from millstream.engine.run.health import in_our_words
from millstream.engine.run.reads import Job, Read, Reader
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.plan.compute import StreamStats
from millstream.plan.nodes import Stream, View
from millstream.plan.slices import FileSlice
from millstream.sources import UnreadableError


@dataclass(frozen=True, slots=True)
class DeadFile:
    """A file in the place of its rows."""

    stream: Stream
    number: int
    path: str
    reason: str

    def dead_rows(self) -> pa.Table:
        schema = self.stream.schema.to_arrow()
        place = {
            "__p": pa.array([0], pa.int32()),
            "__o": pa.array([self.number], pa.int64()),
            "__raw": pa.array([self.path], pa.string()),
            "__reason": pa.array([self.reason], pa.string()),
        }
        return pa.table({field.name: pa.nulls(1, field.type) for field in schema} | place)

    def late_rows(self, view: View, before: int) -> pa.Table:
        raise AssertionError("a file that cannot be read has no late rows")

    def failed_rows(self, view: View) -> pa.Table:
        raise AssertionError("a file that cannot be read has no failed rows")

    def close(self) -> None:
        pass


def dead_file(job: Job) -> tuple[int, str] | None:
    """The number and the path of the only file of a job; None if it is anything else."""
    slice_ = job.cut.slice
    return (slice_.first, slice_.paths[0]) if isinstance(slice_, FileSlice) and len(slice_.paths) == 1 else None


def read_files(
    job: Job,
    reader: Reader,
    error: Exception | None = None,
    may_set_aside: Callable[[int, str], bool] = lambda number, path: True,
) -> Read:
    """The read of a job; of files, up to the first that cannot be read, or that one as a dead letter.

    `error` is why the whole of it cannot be read, if that is known.
    """
    try:
        if error is not None:
            raise error
        return reader.read((job,))[0]
    except UnavailableError:
        raise
    except Exception as failure:
        half = first_half(job)
        if half is not None:
            return read_files(half, reader, half.fault, may_set_aside)
        file = dead_file(job)
        if file is None or not may_set_aside(*file):
            raise
        return set_aside(job, *file, in_our_words(failure))


def set_aside(job: Job, number: int, path: str, error: MillstreamError) -> Read:
    """The read of a job whose only file cannot be read."""
    letter = DeadFile(job.entry.stream, number, path, f"the file cannot be read: {error.message}")
    return Read(job, letter, StreamStats(rows=1, dead=1, newest={}), {}, None, 0.0)


def first_half(job: Job) -> Job | None:
    """A job over the first half of the files; None if there are not several."""
    slice_ = job.cut.slice
    if not isinstance(slice_, FileSlice) or len(slice_.paths) < 2:
        return None
    try:
        cut = job.entry.source.cut(job.start, len(slice_.paths) // 2, job.cut.offsets)
    except UnreadableError as error:
        return replace(job, cut=error.cut, fault=error)
    return replace(job, cut=cut) if cut is not None else None
