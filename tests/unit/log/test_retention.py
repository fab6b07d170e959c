from collections.abc import Callable
from pathlib import Path

import pytest

from millstream.log import Log, Retained, Topic, TopicSettings, read_frame
from millstream.model.errors import MillstreamError
from millstream.model.time import MICROS, ManualClock

from .rows import numbered, read_all, read_offsets


def aged(log: Log, clock: ManualClock, settings: TopicSettings) -> Topic:
    """Ten rows, ten seconds apart, two to a segment."""
    topic = log.create_topic("t", settings=settings)
    for n in range(10):
        topic.append(numbered(n))
        clock.advance(10)
    return topic


SMALL = 1_100


def test_old_segments_go_whole(open_log: Callable[[], Log], clock: ManualClock) -> None:
    topic = aged(open_log(), clock, TopicSettings(segment_micros=15 * MICROS, retention_micros=55 * MICROS))
    segments = {ref.path for ref in topic.frames(0, 0)}
    assert len(segments) == 5
    # Now is 100 s: the segment of rows 2 and 3 (landed at 20 and 30) is the last that is too old.
    dropped = topic.retain()
    assert (dropped.segments, dropped.rows) == (2, 4)
    assert topic.start_offsets() == {0: 4}
    assert topic.retain() == Retained()
    assert read_all(topic) == [4, 5, 6, 7, 8, 9]
    with pytest.raises(MillstreamError) as caught:
        topic.read(0, 3, 10)
    assert caught.value.code == "OFFSET_GONE"
    assert topic.read(0, 3, 3) == []
    topic = open_log().topic("t")
    assert topic.start_offsets() == {0: 4}
    assert read_all(topic) == [4, 5, 6, 7, 8, 9]


def test_rows_not_consumed_yet_stay(log: Log, clock: ManualClock) -> None:
    topic = aged(log, clock, TopicSettings(segment_micros=15 * MICROS, retention_micros=20 * MICROS))
    assert topic.retain({}) == Retained()
    assert topic.retain({0: 1}) == Retained()
    assert topic.retain({0: 5}).rows == 4
    assert read_all(topic) == [4, 5, 6, 7, 8, 9]


def test_an_idle_topic_forgets_everything_but_the_next_offset(open_log: Callable[[], Log], clock: ManualClock) -> None:
    topic = aged(open_log(), clock, TopicSettings(retention_micros=30 * MICROS))
    clock.advance(3_600)
    assert topic.retain().rows == 10
    assert read_all(topic) == []
    topic = open_log().topic("t")
    assert topic.start_offsets() == topic.end_offsets() == {0: 10}
    assert topic.append(numbered(10)).ranges == {0: (10, 1)}
    assert read_offsets(open_log().topic("t")) == [10]


def test_size_bounds_each_partition(open_log: Callable[[], Log], clock: ManualClock) -> None:
    settings = TopicSettings(segment_bytes=SMALL, retention_bytes=3 * SMALL)
    topic = aged(open_log(), clock, settings)
    before = topic.size_bytes()
    assert before > 3 * SMALL
    dropped = topic.retain()
    assert topic.size_bytes() == before - dropped.bytes <= 3 * SMALL
    assert read_all(topic) == list(range(dropped.rows, 10))
    assert not {path.suffix for path in Path(topic.frames(0, 9)[0].path).parent.iterdir()} - {".seg", ".idx"}


def test_references_to_dropped_segments_fail_clearly(log: Log, clock: ManualClock) -> None:
    topic = aged(log, clock, TopicSettings(segment_micros=15 * MICROS, retention_micros=MICROS))
    ref = topic.frames(0, 0)[0]
    topic.retain()
    with pytest.raises(MillstreamError) as caught:
        read_frame(ref.path, ref.position, ref.length)
    assert caught.value.code == "FRAME_GONE"


def test_segments_roll_by_age_and_size(log: Log, clock: ManualClock) -> None:
    by_age = log.create_topic("a", settings=TopicSettings(segment_micros=10 * MICROS))
    by_size = log.create_topic("s", settings=TopicSettings(segment_bytes=SMALL))
    for n in range(4):
        by_age.append(numbered(n))
        by_size.append(numbered(n))
        clock.advance(5)
    assert len({ref.path for ref in by_age.frames(0, 0)}) == 2
    assert all(Path(ref.path).stat().st_size <= SMALL for ref in by_size.frames(0, 0))
