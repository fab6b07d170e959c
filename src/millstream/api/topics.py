"""The topics of the log, for producers and readers of undecoded rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from millstream.api.rows import Lines


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """What a topic retains, by partition: from `start` up to and without `end`."""

    start: Mapping[int, int]
    end: Mapping[int, int]


class Topics(Protocol):
    """The log by topic, whether or not a stream reads it."""

    def names(self) -> list[str]: ...

    def create(self, name: str) -> None:
        """Make a topic, unless it is there."""

    def append(self, name: str, lines: Lines) -> int:
        """Append undecoded lines; returns how many were accepted, once they are durable."""

    def offsets(self, name: str) -> TopicOffsets: ...

    def read(self, name: str, partition: int, since: int, until: int) -> list[pa.RecordBatch]:
        """The rows of a range of offsets, in order, with `_offset` and `_landed_at`.

        Undecoded rows are in `_raw`; others have the columns of the stream as it was then, so schemas may differ.
        """
