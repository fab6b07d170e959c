import pyarrow as pa
import pytest

from millstream.model.errors import MillstreamError
from millstream.plan.slices import FrameSlice, RowsSlice
from millstream.sources import Cut, Place, Start
from millstream.sources.log import LogSource
from tests.unit.sources.conftest import Begin
from tests.unit.sources.opening import opened


def _opened(begin: Begin, **options: str) -> LogSource:
    source, _ = opened(begin(), **options)
    assert isinstance(source, LogSource)
    return source


def _rows(count: int, first: int = 0) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + count), pa.int64()), "name": ["x"] * count})


def _read(cut: Cut) -> list[tuple[int, int]]:
    assert isinstance(cut.slice, RowsSlice)
    assert cut.slice.typed is not None
    return [(row["__o"], row["id"]) for row in cut.slice.typed.to_pylist()]


def test_a_range_gives_the_same_rows_twice(begin: Begin) -> None:
    source = _opened(begin)
    source.topic.append(_rows(5))
    first, second = source.cut({}, 3), source.cut({}, 3)
    assert first is not None
    assert second is not None
    assert first.offsets == second.offsets == {0: 3}
    assert _read(first) == _read(second) == [(0, 0), (1, 1), (2, 2)]
    rest = source.cut(first.offsets, 10)
    assert rest is not None
    assert (rest.offsets, rest.length) == ({0: 5}, 2)
    assert source.cut(rest.offsets, 10) is None


def test_many_rows_stay_in_their_frames(begin: Begin) -> None:
    source = _opened(begin)
    source.topic.append(_rows(30_000))
    cut = source.cut({}, 1_000_000)
    assert cut is not None
    assert isinstance(cut.slice, FrameSlice)
    assert cut.length == 30_000


def test_where_a_stream_begins(begin: Begin) -> None:
    source = _opened(begin, start_offsets="0=2")
    source.topic.append(_rows(5))
    assert source.start() == {0: 2}
    assert source.waiting({}) == 3
    assert source.place(Start("latest")) == Place({0: 5})
    with pytest.raises(MillstreamError, match="ends before offset 9"):
        source.place(Start(offsets={0: 9}))
    with pytest.raises(MillstreamError, match="no partition 3"):
        source.place(Start(offsets={3: 0}))


def test_a_log_that_is_older_than_the_store(begin: Begin) -> None:
    source = _opened(begin)
    with pytest.raises(MillstreamError) as caught:
        source.cut({0: 4}, 10)
    assert caught.value.code == "LOG_BEHIND_STORE"


def test_the_key_is_a_column(begin: Begin) -> None:
    opening = begin()
    with pytest.raises(MillstreamError) as caught:
        opened(opening, key="nme")
    assert caught.value.code == "UNKNOWN_COLUMN"
    assert not opening.log.topics(), "refused before the topic exists"


def test_the_topic_of_a_stream(begin: Begin) -> None:
    opening = begin()
    _, options = opened(opening, topic="t", partitions="3", retention="1 hour", key="id, name")
    spec = options.topic_of(opening.stream)
    assert spec is not None
    assert (spec.name, spec.partitions, spec.settings.retention_micros) == ("t", 3, 3_600_000_000)
    assert options.partition_keys == ("id", "name")
    assert opening.log.topic("t").partitions == 3
