import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from millstream.log import Appended, Log, TopicSettings, read_frame
from millstream.model.errors import MillstreamError
from millstream.model.time import ManualClock

from .rows import keyed, numbered, read_all, read_offsets


def code_of(action: Callable[[], object]) -> str:
    with pytest.raises(MillstreamError) as caught:
        action()
    return caught.value.code


def test_offsets_count_up_and_rows_come_back(log: Log, clock: ManualClock) -> None:
    topic = log.create_topic("bids")
    assert topic.append(numbered(1, 2, 3)) == Appended({0: (0, 3)})
    clock.advance(1)
    assert topic.append(numbered(4)).ranges == {0: (3, 1)}
    assert topic.end_offsets() == {0: 4}
    assert topic.start_offsets() == {0: 0}
    assert read_all(topic) == [1, 2, 3, 4]
    assert read_offsets(topic) == [0, 1, 2, 3]
    assert read_all(topic, column="_landed_at") == [1_000_000_000_000] * 3 + [1_000_001_000_000]


def test_any_range_is_read_exactly(log: Log) -> None:
    topic = log.create_topic("t", settings=TopicSettings(segment_bytes=1_000))
    for start in range(0, 60, 3):
        topic.append(numbered(start, start + 1, start + 2))
    for start in range(0, 61, 7):
        for end in range(start, 61, 5):
            read = [n for batch in topic.read(0, start, end) for n in batch.column("n").to_pylist()]
            assert read == list(range(start, end))
            refs = topic.frames(0, start, end)
            assert all(ref.end_offset > start and ref.first_offset < end for ref in refs)
            rows = [n for r in refs for n in read_frame(r.path, r.position, r.length)["n"].to_pylist()]
            assert set(range(start, end)) <= set(rows)


def test_frames_tell_their_rows_and_bytes(log: Log) -> None:
    topic = log.create_topic("t")
    topic.append(numbered(*range(100)))
    (ref,) = topic.frames(0, 10, 20)
    assert (ref.first_offset, ref.end_offset, ref.rows) == (0, 100, 100)
    assert 800 < ref.bytes < ref.length == topic.size_bytes()


def test_offsets_outside_the_log_are_refused(log: Log) -> None:
    topic = log.create_topic("t")
    topic.append(numbered(1))
    assert topic.read(0, 1, 1) == topic.frames(0, 1) == []
    assert code_of(lambda: topic.read(0, 0, 2)) == "OFFSET_AHEAD"
    assert code_of(lambda: topic.read(1, 0, 1)) == "UNKNOWN_PARTITION"


def test_without_keys_rows_are_dealt_in_turn_also_after_a_restart(open_log: Callable[[], Log]) -> None:
    topic = open_log().create_topic("t", 3)
    assert topic.append(numbered(0, 1, 2, 3)).ranges == {0: (0, 2), 1: (0, 1), 2: (0, 1)}
    assert topic.append(numbered(4)).ranges == {1: (1, 1)}
    topic = open_log().topic("t")
    assert topic.append(numbered(5, 6)).ranges == {2: (1, 1), 0: (2, 1)}
    assert [read_all(topic, partition) for partition in range(3)] == [[0, 3, 6], [1, 4], [2, 5]]


def test_rows_of_a_key_stay_together_and_in_order(log: Log) -> None:
    topic = log.create_topic("t", 4)
    for turn in range(10):
        topic.append(keyed([(key if key else None, f"{turn}") for key in range(30)]), keys=["id"])
    seen: dict[object, int] = {}
    for partition in range(4):
        values: dict[object, list[object]] = {}
        ids, turns = read_all(topic, partition, "id"), read_all(topic, partition, "value")
        assert ids
        for id_, value in zip(ids, turns, strict=True):
            values.setdefault(id_, []).append(value)
            assert seen.setdefault(id_, partition) == partition
        assert all(found == [str(n) for n in range(10)] for found in values.values())
    assert len(seen) == 30


def test_tables_with_chunks_dictionaries_and_no_rows(log: Log) -> None:
    topic = log.create_topic("t")
    table = pa.concat_tables([pa.table({"s": pa.array([text]).dictionary_encode()}) for text in ("a", "b")])
    assert topic.append(table).rows == 2
    assert topic.append(table.slice(0, 0)) == Appended({})
    assert topic.append(pa.table({"s": ["skipped", "c"]}).slice(1)).rows == 1
    assert read_all(topic, column="s") == ["a", "b", "c"]
    assert topic.read(0, 0)[0].schema.field("s").type == pa.string()


def test_frames_of_one_topic_may_have_different_columns(open_log: Callable[[], Log]) -> None:
    topic = open_log().create_topic("t")
    topic.append(pa.record_batch({"_raw": [b"{}"]}))
    topic.append(numbered(1))
    batches = open_log().topic("t").read(0, 0)
    assert [batch.schema.names[0] for batch in batches] == ["_raw", "n"]


def test_a_large_append_becomes_several_frames_and_segments(open_log: Callable[[], Log]) -> None:
    topic = open_log().create_topic("t", settings=TopicSettings(segment_bytes=10_000_000))
    count = 3_000_000
    appended = topic.append(numbered(*range(10)))
    rows = pa.record_batch({"n": pa.array(range(count), type=pa.int64())})
    appended = topic.append(rows)
    assert appended.ranges == {0: (10, count)}
    refs = topic.frames(0, 10)
    assert len(refs) >= 3
    assert len({ref.path for ref in refs}) >= 3
    topic = open_log().topic("t")
    assert sum(batch.num_rows for batch in topic.read(0, 0)) == count + 10
    assert read_all(topic)[-1] == count - 1


def test_columns_of_the_log_cannot_be_written(log: Log) -> None:
    topic = log.create_topic("t")
    assert code_of(lambda: topic.append(pa.table({"_offset": [1]}))) == "RESERVED_COLUMN"
    assert code_of(lambda: topic.append(numbered(1), keys=["id"])) == "UNKNOWN_KEY"
    assert topic.end_offsets() == {0: 0}


def test_topics_are_found_again_with_their_settings(open_log: Callable[[], Log]) -> None:
    log = open_log()
    settings = TopicSettings(retention_micros=5, compact_by=("id",), compression="lz4")
    names = ("bids", "Bids", "../evil", ".hidden", "ü/ß", "~", "CON ")
    for name in names:
        log.create_topic(name, 2, settings).append(keyed([(1, name)]))
    log = open_log()
    assert log.topics() == tuple(sorted(names))
    for name in names:
        topic = log.topic(name)
        assert (topic.name, topic.partitions, topic.settings) == (name, 2, settings)
        assert [*read_all(topic, 0, "value"), *read_all(topic, 1, "value")] == [name]
    assert {path.name for path in log.root.iterdir()} == {"topics", "groups", "LOCK"}


def test_creating_a_topic_twice(open_log: Callable[[], Log]) -> None:
    log = open_log()
    topic = log.create_topic("t", 2)
    assert log.create_topic("t", 2) is topic
    assert code_of(lambda: log.create_topic("t", 3)) == "TOPIC_EXISTS"
    changed = TopicSettings(retention_bytes=1)
    assert log.create_topic("t", 2, changed).settings == changed
    assert log.create_topic("t", 2).settings == changed
    assert open_log().topic("t").settings == changed


def test_names_settings_and_counts_that_make_no_sense(log: Log) -> None:
    assert code_of(lambda: log.create_topic("")) == "BAD_TOPIC_NAME"
    assert code_of(lambda: log.create_topic("x" * 201)) == "BAD_TOPIC_NAME"
    assert code_of(lambda: log.create_topic("t", 0)) == "BAD_PARTITION_COUNT"
    assert code_of(lambda: TopicSettings(segment_bytes=0)) == "BAD_TOPIC_SETTINGS"
    assert code_of(lambda: TopicSettings(compression="rar")) == "BAD_TOPIC_SETTINGS"
    log.create_topic("bids")
    with pytest.raises(MillstreamError, match="did you mean 'bids'"):
        log.topic("bid")


def test_a_dropped_topic_is_gone_and_starts_anew(open_log: Callable[[], Log]) -> None:
    log = open_log()
    old = log.create_topic("t")
    old.append(numbered(1, 2))
    log.drop_topic("t")
    assert log.topics() == ()
    assert code_of(lambda: old.append(numbered(3))) == "LOG_CLOSED"
    assert code_of(lambda: log.drop_topic("t")) == "UNKNOWN_TOPIC"
    assert log.create_topic("t", 2).end_offsets() == {0: 0, 1: 0}
    assert list((log.root / "topics").iterdir()) == [log.root / "topics" / "t"]


def test_remains_of_interrupted_creations_and_drops_are_cleared(open_log: Callable[[], Log]) -> None:
    log = open_log()
    remains = log.root / "topics" / "~abc" / "p00000"
    remains.mkdir(parents=True)
    assert open_log().topics() == ()
    assert not remains.parent.exists()


def test_a_log_has_one_owner(log: Log, clock: ManualClock) -> None:
    assert code_of(lambda: Log(log.root, clock)) == "LOG_LOCKED"
    log.close()
    Log(log.root, clock).close()
    assert code_of(lambda: log.create_topic("t")) == "LOG_CLOSED"


def test_a_lost_partition_or_description_is_an_error_not_an_empty_topic(
    open_log: Callable[[], Log], tmp_path: Path
) -> None:
    log = open_log()
    log.create_topic("t")
    log.close()
    metadata = tmp_path / "log/topics/t/topic.json"
    saved = metadata.read_bytes()
    metadata.write_text("{")
    assert code_of(open_log) == "LOG_CORRUPT"
    metadata.write_bytes(saved)
    next((tmp_path / "log/topics/t/p00000").iterdir()).unlink()
    (tmp_path / "log/topics/t/p00000").rmdir()
    assert code_of(open_log) == "LOG_OPEN_FAILED"


def test_listeners_hear_of_durable_rows(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[tuple[str, int]] = []

    def listen(name: str) -> None:
        heard.append((name, log.topic(name).end_offsets()[0]))
        raise RuntimeError("a listener's own trouble")

    stop = log.on_append(listen)
    topic = log.create_topic("t")
    topic.append(numbered(1, 2))
    topic.append(numbered(3).slice(0, 0))
    stop()
    topic.append(numbered(3))
    assert heard == [("t", 2)]
    assert "a listener of topic t failed" in caplog.text


def test_reading_goes_on_while_rows_are_appended(log: Log) -> None:
    topic = log.create_topic("t", settings=TopicSettings(segment_bytes=3_000))
    done = threading.Event()

    def produce() -> None:
        for n in range(200):
            topic.append(numbered(n))
        done.set()

    producer = threading.Thread(target=produce)
    producer.start()
    while not done.is_set():
        read = read_all(topic)
        assert read == list(range(len(read)))
    producer.join()
    assert read_all(topic) == list(range(200))


def test_offsets_are_found_by_when_rows_landed(open_log: Callable[[], Log], clock: ManualClock) -> None:
    topic = open_log().create_topic("t", partitions=2, settings=TopicSettings(segment_bytes=1_000))
    began = clock.now()
    for start in range(0, 80, 4):
        topic.append(numbered(*range(start, start + 4)))
        clock.advance(1)
    for seconds in (0, 1, 7, 19):
        assert topic.offsets_at(began + seconds * 1_000_000) == {0: 2 * seconds, 1: 2 * seconds}
    assert topic.offsets_at(began + 500_000) == {0: 2, 1: 2}
    assert topic.offsets_at(began - 1) == {0: 0, 1: 0}
    assert topic.offsets_at(clock.now()) == topic.end_offsets() == {0: 40, 1: 40}


def test_owners_and_names_change_and_are_found_again(open_log: Callable[[], Log]) -> None:
    log = open_log()
    assert log.create_topic("users").owner is None
    topic = log.create_topic("s@1", owner="1")
    topic.append(numbered(1, 2))
    assert log.create_topic("s@1", owner="2") is topic
    log.rename_topic("s@1", "s")
    assert code_of(lambda: log.rename_topic("s", "users")) == "TOPIC_EXISTS"
    assert (log.topics(), log.find_topic("s@1"), topic.name) == (("s", "users"), None, "s")
    log = open_log()
    assert [(topic.name, topic.owner) for topic in log.owned_topics()] == [("s", "1")]
    log.topic("s").change_owner("3")
    assert open_log().topic("s").owner == "3"


def test_a_renamed_topic_is_dropped_whole(open_log: Callable[[], Log]) -> None:
    log = open_log()
    log.create_topic("s@1", owner="1").append(numbered(1))
    log.rename_topic("s@1", "s")
    log.drop_topic("s")
    assert list((log.root / "topics").iterdir()) == []
    assert log.create_topic("s").end_offsets() == {0: 0}
