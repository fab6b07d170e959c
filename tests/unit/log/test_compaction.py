import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from millstream.log import Log, Topic, TopicSettings, read_frame
from millstream.model.errors import MillstreamError
from millstream.model.time import MICROS, ManualClock

from .rows import keyed, read_all, read_offsets

SETTINGS = TopicSettings(segment_bytes=1_500, compact_by=("id",))


def filled(log: Log, settings: TopicSettings = SETTINGS, turns: int = 12) -> Topic:
    """Every turn writes keys 0 to 4 and NULL; several turns to a segment."""
    topic = log.create_topic("users", settings=settings)
    for turn in range(turns):
        topic.append(keyed([(key, f"{turn}") for key in (0, 1, 2, 3, 4, None)]))
    return topic


def newest(topic: Topic) -> dict[object, object]:
    return dict(zip(read_all(topic, 0, "id"), read_all(topic, 0, "value"), strict=True))


def test_the_newest_row_of_every_key_stays_with_its_offset(open_log: Callable[[], Log], clock: ManualClock) -> None:
    topic = filled(open_log())
    active = Path(topic.frames(0, topic.end_offsets()[0] - 1)[0].path)
    in_active = [ref for ref in topic.frames(0, 0) if ref.path == str(active)]
    before, ends = newest(topic), topic.end_offsets()
    clock.advance(60)
    done = topic.compact()
    assert done.rows_before == in_active[0].first_offset
    assert done.rows_after == 6
    assert done.bytes_after < done.bytes_before

    sealed_end = in_active[0].first_offset
    expected = [*range(sealed_end - 6, ends[0])]
    for _ in range(2):
        assert read_offsets(topic) == expected
        assert set(read_all(topic, 0, "_landed_at")) == {1_000_000 * MICROS}
        assert newest(topic) == before
        assert topic.end_offsets() == ends
        assert topic.start_offsets() == {0: 0}
        assert topic.read(0, 0, sealed_end - 6) == []
        assert [b["_offset"].to_pylist() for b in topic.read(0, 5, sealed_end - 4)] == [expected[:2]]
        topic = open_log().topic("users")
    topic.append(keyed([(9, "new")]))
    assert read_offsets(topic)[-1] == ends[0]


def test_compacting_again_and_after_more_rows(open_log: Callable[[], Log]) -> None:
    topic = filled(open_log())
    topic.compact()
    files = sorted(Path(topic.frames(0, 0)[0].path).parent.iterdir())
    again = topic.compact()
    assert again.rows_before == again.rows_after
    assert sorted(files[0].parent.iterdir()) == files
    for turn in range(12, 30):
        topic.append(keyed([(key, f"{turn}") for key in (0, 1, 2)]))
    before = newest(topic)
    topic.compact()
    assert newest(topic) == before
    topic = open_log().topic("users")
    assert newest(topic) == before
    assert sorted(read_offsets(topic)) == read_offsets(topic)


def test_an_interrupted_compaction_resolves_itself(open_log: Callable[[], Log], tmp_path: Path) -> None:
    log = open_log()
    topic = filled(log)
    directory = Path(topic.frames(0, 0)[0].path).parent
    before = newest(topic)
    saved = tmp_path / "saved"
    shutil.copytree(directory, saved)
    topic.compact()
    log.close()
    compacted = {path.name: path.read_bytes() for path in directory.iterdir()}
    originals = sorted(path.name for path in saved.glob("*.seg"))
    assert len(originals) > 3
    # Whatever subset of the replaced files is left by the crash, the log is whole.
    for subset in range(1 << len(originals)):
        shutil.rmtree(directory)
        directory.mkdir()
        for name, contents in compacted.items():
            (directory / name).write_bytes(contents)
        for number, name in enumerate(originals):
            if subset >> number & 1:
                shutil.copy(saved / name, directory / name)
        (directory / "00000000000000000000.7.seg.tmp").write_bytes(b"half a segment")
        log = open_log()
        topic = log.topic("users")
        assert newest(topic) == before
        assert read_offsets(topic) == sorted(set(read_offsets(topic)))
        assert topic.end_offsets() == {0: 72}
        topic.compact()
        assert newest(topic) == before
        assert not list(directory.glob("*.tmp"))
        log.close()


def test_references_to_replaced_segments_fail_clearly(log: Log) -> None:
    topic = filled(log)
    ref = topic.frames(0, 0)[0]
    topic.compact()
    with pytest.raises(MillstreamError) as caught:
        read_frame(ref.path, ref.position, ref.length)
    assert caught.value.code == "FRAME_GONE"


def test_readers_and_writers_go_on_while_segments_are_replaced(log: Log) -> None:
    topic = filled(log, turns=3)
    stop = threading.Event()
    failures: list[BaseException] = []

    def read() -> None:
        try:
            while not stop.is_set():
                assert {0, 1, 2, 3, 4, None} <= set(newest_of(topic))
        except BaseException as failure:
            failures.append(failure)

    def newest_of(topic: Topic) -> list[object]:
        return [id_ for batch in topic.read(0, 0) for id_ in batch.column("id").to_pylist()]

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(40):
        topic.append(keyed([(key, f"{turn}") for key in (0, 1, 2, 3, 4, None)]))
        if turn % 5 == 0:
            topic.compact()
    stop.set()
    reader.join(10)
    assert not failures, failures


def test_rows_without_the_key_columns_all_stay_and_widths_may_change(log: Log) -> None:
    topic = log.create_topic("users", settings=TopicSettings(segment_bytes=1_000, compact_by=("id",)))
    for turn in range(6):
        topic.append(pa.record_batch({"_raw": [f"line {turn}".encode()]}))
        kind = pa.int32() if turn % 2 else pa.int64()
        topic.append(pa.record_batch({"id": pa.array([7], type=kind), "value": [f"{turn}"]}))
    topic.append(keyed([(8, "last")]))
    topic.compact()
    batches = topic.read(0, 0)
    raw = [v for b in batches if "_raw" in b.schema.names for v in b["_raw"].to_pylist()]
    assert raw == [f"line {turn}".encode() for turn in range(6)]
    ids = [v for b in batches if "id" in b.schema.names for v in b["id"].to_pylist()]
    assert ids in ([7, 8], [7, 7, 8])


def test_damage_stops_compaction_instead_of_vanishing_in_it(open_log: Callable[[], Log]) -> None:
    log = open_log()
    topic = filled(log)
    ref = topic.frames(0, 0)[1]
    log.close()
    path = Path(ref.path)
    data = bytearray(path.read_bytes())
    data[ref.position] ^= 1
    path.write_bytes(data)
    for index in path.parent.glob("*.idx"):
        index.unlink()
    topic = open_log().topic("users")
    with pytest.raises(MillstreamError) as caught:
        topic.compact()
    assert caught.value.code == "LOG_CORRUPT"
    assert path.read_bytes() == data


def test_a_topic_without_a_key_cannot_be_compacted(log: Log) -> None:
    with pytest.raises(MillstreamError) as caught:
        log.create_topic("t").compact()
    assert caught.value.code == "NO_COMPACTION_KEY"


def test_keys_that_change_their_type_are_named(log: Log) -> None:
    topic = log.create_topic("t", settings=TopicSettings(segment_bytes=500, compact_by=("id",)))
    for ids in ([1], ["one"], [2]):
        topic.append(pa.record_batch({"id": ids}))
    with pytest.raises(MillstreamError) as caught:
        topic.compact()
    assert caught.value.code == "KEY_TYPE_CHANGED"
    assert read_all(topic, 0, "id") == [1, "one", 2]
