"""The topics of the embedded log, as `api.Topics`."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from millstream.api import Lines, TopicOffsets
from millstream.log import Log
from millstream.model.errors import MillstreamError, did_you_mean


@dataclass(frozen=True, slots=True)
class LogTopics:
    log: Log

    def names(self) -> list[str]:
        return sorted(self.log.topics())

    def create(self, name: str) -> None:
        self.log.create_topic(name)

    def append(self, name: str, lines: Lines) -> int:
        self._check(name)
        return self.log.topic(name).append(raw_table(lines)).rows

    def offsets(self, name: str) -> TopicOffsets:
        self._check(name)
        topic = self.log.topic(name)
        return TopicOffsets(topic.start_offsets(), topic.end_offsets())

    def read(self, name: str, partition: int, since: int, until: int) -> list[pa.RecordBatch]:
        self._check(name)
        return self.log.topic(name).read(partition, since, until)

    def _check(self, name: str) -> None:
        if name not in self.log.topics():
            raise MillstreamError(
                "UNKNOWN_TOPIC", f"there is no topic {name!r}", hint=did_you_mean(name, self.log.topics())
            )


def raw_table(lines: Lines) -> pa.Table:
    """Undecoded lines as the log keeps them."""
    if isinstance(lines, str | bytes) or any(not isinstance(line, str | bytes) for line in lines):
        raise MillstreamError("BAD_ROWS", "expected a list of lines, each a str or bytes", hint="write [line]")
    raw = [line.encode() if isinstance(line, str) else line for line in lines]
    return pa.table({"_raw": pa.array(raw, pa.binary())})
