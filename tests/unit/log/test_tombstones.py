"""Compaction where keys are deleted, numbered or kept by instant: it never loses the winner."""

from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

from millstream.log import Log, Topic, TopicSettings
from millstream.model.time import MICROS, ManualClock

DAY = 86_400
SETTINGS = TopicSettings(segment_bytes=1, compact_by=("id",), tombstone_retain_micros=2 * DAY * MICROS)


def upsert(*rows: tuple[int, int | None]) -> pa.RecordBatch:
    """(id, sequence)"""
    return pa.record_batch(
        {"id": pa.array([i for i, _ in rows], pa.int64()), "seq": pa.array([s for _, s in rows], pa.int64())}
    )


def tombstone(*rows: tuple[int, int | None]) -> pa.RecordBatch:
    return upsert(*rows).append_column("_tombstone", pa.repeat(True, len(rows)))


def line(text: bytes) -> pa.RecordBatch:
    return pa.record_batch({"_raw": pa.array([text], pa.binary())})


def seal(topic: Topic) -> None:
    """Every append begins a segment here; one more seals what came before."""
    topic.append(upsert((99, 99)))


def left(topic: Topic) -> list[tuple[object, object, bool]]:
    """(id, sequence, is a tombstone), without the row that seals."""
    found = []
    for partition in range(topic.partitions):
        for batch in topic.read(partition, topic.start_offsets()[partition]):
            rows: Sequence[dict[str, object]] = batch.to_pylist()
            found += [(row.get("id"), row.get("seq"), bool(row.get("_tombstone"))) for row in rows]
    return [row for row in found if row[0] != 99]


def test_a_tombstone_outlives_what_it_deletes_and_survives_a_restart(
    open_log: Callable[[], Log], clock: ManualClock
) -> None:
    topic = open_log().create_topic("t", settings=SETTINGS)
    topic.append(upsert((1, None), (2, None)))
    topic.append(tombstone((1, None)))
    seal(topic)
    topic.compact()
    assert left(topic) == [(2, None, False), (1, None, True)]
    topic = open_log().topic("t")
    assert topic.settings == SETTINGS
    clock.advance(DAY)
    topic.compact()
    assert left(topic) == [(2, None, False), (1, None, True)]
    clock.advance(DAY + 1)
    seal(topic)
    topic.compact()
    assert left(topic) == [(2, None, False)]
    assert topic.end_offsets() == {0: 5}


def test_a_key_that_comes_back_outlives_its_tombstone(log: Log, clock: ManualClock) -> None:
    topic = log.create_topic("t", settings=SETTINGS)
    topic.append(upsert((1, 1)))
    topic.append(tombstone((1, 2)))
    topic.append(upsert((1, 3)))
    seal(topic)
    clock.advance(3 * DAY)
    topic.compact()
    assert left(topic) == [(1, 3, False)]


def test_without_a_retention_tombstones_stay(log: Log, clock: ManualClock) -> None:
    topic = log.create_topic("t", settings=TopicSettings(segment_bytes=1, compact_by=("id",)))
    topic.append(tombstone((1, None)))
    seal(topic)
    clock.advance(1000 * DAY)
    topic.compact()
    assert left(topic) == [(1, None, True)]


def test_the_highest_sequence_stays_and_the_later_of_equals(log: Log) -> None:
    topic = log.create_topic("t", settings=TopicSettings(segment_bytes=1, compact_by=("id",), compact_sequence="seq"))
    topic.append(upsert((1, 5), (2, 5), (3, 5)))
    topic.append(upsert((1, 4), (2, 6), (3, None)))
    topic.append(tombstone((3, 5)))
    seal(topic)
    topic.compact()
    assert left(topic) == [(1, 5, False), (2, 6, False), (3, 5, True)]
    # What is left decides against what comes later, too.
    topic.append(upsert((2, 5), (3, 4)))
    seal(topic)
    topic.compact()
    assert left(topic) == [(1, 5, False), (2, 6, False), (3, 5, True)]


def test_every_instant_of_a_key_stays_where_instants_count(log: Log, clock: ManualClock) -> None:
    settings = TopicSettings(
        segment_bytes=1, compact_by=("id",), compact_instant="seq", tombstone_retain_micros=DAY * MICROS
    )
    topic = log.create_topic("t", settings=settings)
    topic.append(upsert((1, 10), (1, 20), (1, 10)))
    topic.append(tombstone((1, 30), (1, 20)))
    seal(topic)
    clock.advance(9 * DAY)
    topic.compact()
    assert left(topic) == [(1, 10, False), (1, 30, True), (1, 20, True)]


def test_rows_that_were_not_read_are_not_compacted(log: Log, clock: ManualClock) -> None:
    topic = log.create_topic("t", settings=SETTINGS)
    for sequence in range(4):
        topic.append(upsert((1, sequence)))
    topic.append(tombstone((1, 4)))
    clock.advance(1)
    seal(topic)
    clock.advance(9 * DAY)
    topic.compact({0: 2})
    assert left(topic) == [(1, 1, False), (1, 2, False), (1, 3, False), (1, 4, True)]
    topic.compact({})
    assert len(left(topic)) == 4
    topic.compact({0: 5})
    assert left(topic) == []


@pytest.mark.parametrize("looked_at", [True, False])
def test_lines_hold_tombstones_back_since_they_may_be_of_the_key(log: Log, clock: ManualClock, looked_at: bool) -> None:
    """Lines are dealt to any partition, so one in another partition counts, also in a segment that is left alone."""
    topic = log.create_topic("t", partitions=2, settings=SETTINGS)
    assert list(topic.append(line(b'{"id": 1}')).ranges) == [0]
    clock.advance(1)
    gone = [key for key in range(8) if 1 in topic.append(tombstone((key, None))).ranges]
    clock.advance(9 * DAY)
    read = topic.end_offsets() if looked_at else {**topic.end_offsets(), 0: 0}
    topic.compact(read)
    assert gone
    assert [row[0] for row in left(topic) if row[2] and row[0] in gone] == gone


def test_message_ids_of_tombstones_are_remembered(open_log: Callable[[], Log], clock: ManualClock) -> None:
    topic = open_log().create_topic("t", settings=SETTINGS)
    assert topic.append(tombstone((1, None), (2, None)), message_ids=["a", "b"]).rows == 2
    topic = open_log().topic("t")
    assert topic.append(tombstone((1, None), (3, None)), message_ids=["a", "c"]).rows == 1
    assert left(topic) == [(1, None, True), (2, None, True), (3, None, True)]
