"""`connector = 'topic'`: changes as rows of a topic of the embedded log.

Owns the form of these rows: `sink`, `epoch`, `op`, `pane`, `pane_index`, `final`, then the columns of
the view, all of them typed. What always holds: each change is in the topic once, in the order of the
changelog. The position has the offset behind the last acknowledged row; the rows of this sink after
it say what was delivered and not acknowledged.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from millstream.log import Topic, TopicSettings
from millstream.model.errors import MillstreamError
from millstream.model.settings import Duration, Size
from millstream.sinks.options import SinkOptions
from millstream.sinks.protocol import Opening, Position, Sink

HEADER = ("sink", "epoch", "op", "pane", "pane_index", "final")
_PARTITION = 0


class TopicOptions(SinkOptions):
    """`INTO TOPIC t`, or `connector = 'topic'`: a topic of the embedded log."""

    topic: str
    retention: Duration | None = None
    retention_size: Size | None = None

    @property
    def written_topic(self) -> str:
        return self.topic


class TopicSink(Sink):
    def __init__(self, name: str, topic: Topic) -> None:
        self._name = name
        self._topic = topic
        # What an interrupted delivery has left of an epoch.
        self._partial: tuple[int, Counter[str]] | None = None

    def begin(self, epoch: int) -> Position:
        return Position(epoch, str(self._end()))

    def position(self, known: Position) -> Position:
        since, end = int(known.target), self._end()
        if since > end:
            raise MillstreamError(
                "LOG_BEHIND_STORE",
                f"topic {self._topic.name}: rows up to offset {since} were delivered, but the log ends at {end}",
                hint="the log was replaced by an older copy: restore both together, or create the sink again",
            )
        landed: dict[int, Counter[str]] = {}
        # Retention may have removed rows that were acknowledged.
        start = max(since, self._topic.start_offsets()[_PARTITION])
        for batch in self._topic.read(_PARTITION, start, end):
            for row in batch.drop_columns(["_offset", "_landed_at"]).to_pylist():
                if row.get("sink") == self._name:
                    landed.setdefault(row["epoch"], Counter())[_text(row)] += 1
        epochs = sorted(landed)
        # An epoch is begun when the one before it is complete; only the last may be cut off.
        self._partial = (epochs[-1], landed[epochs[-1]]) if epochs else None
        return Position(epochs[-2] if len(epochs) > 1 else known.epoch, known.target)

    def deliver(self, epoch: int, changes: pa.Table) -> Position:
        rows = changes.add_column(0, "sink", pa.repeat(pa.scalar(self._name), changes.num_rows))
        if self._partial is not None and self._partial[0] == epoch:
            rows = _without(rows, self._partial[1])
        if rows.num_rows:
            self._topic.append(rows)
        self._partial = None
        return Position(epoch, str(self._end()))

    def acknowledge(self, position: Position) -> None:
        pass

    def close(self) -> None:
        pass

    def _end(self) -> int:
        return self._topic.end_offsets()[_PARTITION]


def _text(row: dict[str, object]) -> str:
    """A row, to be compared: values of Python may not be hashable, nor equal to themselves."""
    return repr(sorted(row.items()))


def _without(rows: pa.Table, landed: Counter[str]) -> pa.Table:
    left = Counter(landed)
    kept = []
    for number, row in enumerate(rows.to_pylist()):
        text = _text(row)
        if left[text]:
            left[text] -= 1
        else:
            kept.append(number)
    return rows.take(pa.array(kept, pa.int64()))


def open_topic(options: TopicOptions, opening: Opening) -> TopicSink:
    taken = [name for name in opening.columns if name.lower() in HEADER]
    if taken:
        raise MillstreamError(
            "DUPLICATE_COLUMN",
            f"the view has a column {taken[0]!r}, and so have the rows of a sink",
            hint="create a view over it that gives the column another name, and a sink from that one",
            position=opening.place,
        )
    if options.topic in opening.log.topics():
        topic = opening.log.topic(options.topic)
    else:
        settings = TopicSettings(retention_micros=options.retention, retention_bytes=options.retention_size)
        topic = opening.log.create_topic(options.topic, 1, settings)
    if topic.partitions > 1 or topic.settings.compact_by:
        raise MillstreamError(
            "BAD_OPTION",
            f"a sink cannot write into topic {options.topic!r}",
            detail="it is the topic of a table"
            if topic.settings.compact_by
            else f"it has {topic.partitions} partitions",
            hint="changes have an order: name a topic with one partition, or one that does not exist yet",
            position=opening.place,
        )
    return TopicSink(opening.name, topic)
