import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from millstream.log import Appended, Log, Topic, TopicSettings, disk
from millstream.model.errors import MillstreamError
from millstream.model.time import MICROS, ManualClock

from .rows import keyed, numbered, read_all


def send(topic: Topic, *numbers: int, ids: Sequence[str | None] | None = None) -> Appended:
    return topic.append(numbered(*numbers), message_ids=[f"id-{n}" for n in numbers] if ids is None else ids)


def test_an_accepted_id_is_accepted_once(open_log: Callable[[], Log]) -> None:
    topic = open_log().create_topic("t", 2)
    assert send(topic, 1, 2, 1, 3) == Appended({0: (0, 2), 1: (0, 1)}, duplicates=1)
    assert send(topic, 3, 4).duplicates == 1
    assert send(topic, 1, 2) == Appended({}, duplicates=2)
    topic = open_log().topic("t")
    assert send(topic, 1, 2, 3, 4, 5).duplicates == 4
    assert sorted([*read_all(topic, 0), *read_all(topic, 1)]) == [1, 2, 3, 4, 5]  # type: ignore[type-var]


def test_rows_without_an_id_are_always_accepted(open_log: Callable[[], Log]) -> None:
    topic = open_log().create_topic("t")
    assert send(topic, 1, 2, 3, ids=[None, "a", None]).rows == 3
    assert send(open_log().topic("t"), 1, 2, 3, ids=[None, "a", None]) == Appended({0: (3, 2)}, 1)


def test_the_number_of_ids_must_fit(log: Log) -> None:
    with pytest.raises(MillstreamError) as caught:
        log.create_topic("t").append(numbered(1), message_ids=[])
    assert caught.value.code == "BAD_MESSAGE_IDS"


@pytest.mark.parametrize("restart", [False, True])
def test_ids_are_forgotten_after_the_window(open_log: Callable[[], Log], clock: ManualClock, restart: bool) -> None:
    topic = open_log().create_topic("t", settings=TopicSettings(message_id_window_micros=60 * MICROS))
    send(topic, 1)
    clock.advance(30)
    send(topic, 2)
    clock.advance(29.9)
    topic = open_log().topic("t") if restart else topic
    assert send(topic, 1, 2).duplicates == 2
    clock.advance(0.1)
    topic = open_log().topic("t") if restart else topic
    assert send(topic, 1, 2) == Appended({0: (2, 1)}, duplicates=1)
    assert send(topic, 1).duplicates == 1
    assert len(topic._ids) == 2


def test_ids_outlive_retention(open_log: Callable[[], Log], clock: ManualClock) -> None:
    settings = TopicSettings(retention_micros=MICROS, message_id_window_micros=3_600 * MICROS)
    topic = open_log().create_topic("t", 2, settings)
    send(topic, 1, 2, 3)
    clock.advance(60)
    send(topic, 4)
    clock.advance(60)
    assert topic.retain().rows == 4
    topic = open_log().topic("t")
    assert send(topic, 1, 2, 3, 4, 5) == Appended({0: (2, 1)}, duplicates=4)
    saved = topic._directory / "ids"
    assert len(list(saved.iterdir())) >= 2
    clock.advance(3_600)
    topic.retain()
    topic.retain()
    clock.advance(3_600)
    assert open_log().topic("t").retain().rows == 0
    assert list(saved.iterdir()) == []


def test_ids_outlive_compaction(open_log: Callable[[], Log]) -> None:
    topic = open_log().create_topic("t", settings=TopicSettings(segment_bytes=800, compact_by=("id",)))
    for turn in range(8):
        topic.append(keyed([(1, f"{turn}")]), message_ids=[f"turn-{turn}"])
    assert topic.compact().rows_after == 1
    for restart in (False, True):
        topic = open_log().topic("t") if restart else topic
        for turn in range(8):
            assert topic.append(keyed([(1, "again")]), message_ids=[f"turn-{turn}"]).duplicates == 1


def test_an_id_on_its_way_is_waited_for(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A duplicate must not be acknowledged before the row it repeats is durable, or at all if it fails."""
    topic = log.create_topic("t")
    for fails in (True, False):
        reached, go_on = threading.Event(), threading.Event()
        real = disk.sync_file

        def held(descriptor: int) -> None:
            monkeypatch.setattr(disk, "sync_file", real)  # noqa: B023
            reached.set()  # noqa: B023
            assert go_on.wait(10)  # noqa: B023
            if fails:  # noqa: B023
                raise OSError(5, "Input/output error")

        monkeypatch.setattr(disk, "sync_file", held)
        results: dict[str, object] = {}

        def work(name: str, fails: bool = fails, results: dict[str, object] = results) -> None:
            try:
                results[name] = send(topic, 1 if fails else 2)
            except MillstreamError as error:
                results[name] = error.code

        first = threading.Thread(target=work, args=("first",))
        first.start()
        assert reached.wait(10)
        second = threading.Thread(target=work, args=("second",))
        second.start()
        second.join(0.1)
        assert second.is_alive()
        go_on.set()
        first.join(10)
        second.join(10)
        if fails:
            assert results == {"first": "LOG_WRITE_FAILED", "second": Appended({0: (0, 1)})}
        else:
            assert results == {"first": Appended({0: (1, 1)}), "second": Appended({}, duplicates=1)}
    assert read_all(topic) == [1, 2]


def test_threads_that_send_the_same_ids_add_them_once(log: Log) -> None:
    topic = log.create_topic("t", 3)
    totals: list[int] = []

    def work(step: int) -> None:
        order = range(40) if step > 0 else range(39, -1, -1)
        totals.append(sum(send(topic, n, (n + 1) % 40).rows for n in order))

    threads = [threading.Thread(target=work, args=(step,)) for step in (1, -1, 1, -1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sum(totals) == 40
    assert sorted(n for p in range(3) for n in read_all(topic, p)) == list(range(40))  # type: ignore[type-var]


def test_an_append_that_reached_only_some_partitions_is_completed_by_a_retry(
    open_log: Callable[[], Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = open_log().create_topic("t", 4)
    real, writes = disk.write_all, 0

    def fail_third(descriptor: int, buffers: Sequence[object]) -> None:
        nonlocal writes
        writes += 1
        if writes == 3:
            raise OSError(28, "No space left on device")
        real(descriptor, buffers)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "write_all", fail_third)
        with pytest.raises(MillstreamError) as caught:
            send(topic, *range(8))
    assert caught.value.code == "DISK_FULL"
    assert list(topic.end_offsets().values()) == [2, 2, 0, 0]
    for restart in (False, True):
        topic = open_log().topic("t") if restart else topic
        send(topic, *range(8))
        assert sorted(n for p in range(4) for n in read_all(topic, p)) == list(range(8))  # type: ignore[type-var]


def test_a_damaged_file_of_saved_ids_does_not_stop_the_log(
    open_log: Callable[[], Log], clock: ManualClock, tmp_path: Path
) -> None:
    settings = TopicSettings(retention_micros=MICROS)
    topic = open_log().create_topic("t", 1, settings)
    send(topic, 1)
    clock.advance(60)
    topic.retain()
    (saved,) = (topic._directory / "ids").iterdir()
    for contents in (b"", saved.read_bytes()[:-1], b"x" * 10):
        saved.write_bytes(contents)
        assert open_log().topic("t").end_offsets() == {0: 1}
