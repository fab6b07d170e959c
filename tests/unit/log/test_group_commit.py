import threading
import time
from collections.abc import Callable, Sequence

import pytest

from millstream.log import Log, TopicSettings, disk
from millstream.model.errors import MillstreamError

from .rows import numbered, read_all, read_offsets


def run_threads(count: int, work: Callable[[int], None]) -> None:
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not failures, failures


def test_appenders_share_syncs(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = log.create_topic("t")
    syncs = 0
    real = disk.sync_file

    def slow(descriptor: int) -> None:
        nonlocal syncs
        syncs += 1
        time.sleep(0.005)
        real(descriptor)

    monkeypatch.setattr(disk, "sync_file", slow)

    def work(number: int) -> None:
        for _ in range(20):
            topic.append(numbered(number))

    run_threads(8, work)
    assert topic.end_offsets() == {0: 160}
    assert syncs < 100


def test_many_threads_partitions_and_segments_lose_nothing(open_log: Callable[[], Log]) -> None:
    settings = TopicSettings(segment_bytes=2_000)
    topic = open_log().create_topic("t", 3, settings)
    ranges: list[tuple[int, int, int]] = []

    def work(number: int) -> None:
        for turn in range(25):
            value = number * 1_000 + turn
            appended = topic.append(numbered(value, value + 100, value + 200, value + 300))
            assert appended.rows == 4
            for partition, (first, count) in appended.ranges.items():
                assert topic.end_offsets()[partition] >= first + count
                ranges.append((partition, first, count))

    run_threads(6, work)
    topic = open_log().topic("t")
    expected = sorted(
        number * 1_000 + turn + step for number in range(6) for turn in range(25) for step in (0, 100, 200, 300)
    )
    assert sorted(n for p in range(3) for n in read_all(topic, p)) == expected  # type: ignore[type-var]
    for partition in range(3):
        given = sorted(o for p, first, count in ranges if p == partition for o in range(first, first + count))
        assert given == read_offsets(topic, partition) == list(range(topic.end_offsets()[partition]))


def test_rows_are_not_seen_before_they_are_durable(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = log.create_topic("t")
    reached, go_on = threading.Event(), threading.Event()

    def held(descriptor: int) -> None:
        reached.set()
        assert go_on.wait(10)

    monkeypatch.setattr(disk, "sync_file", held)
    appender = threading.Thread(target=topic.append, args=(numbered(1),))
    appender.start()
    assert reached.wait(10)
    assert topic.end_offsets() == {0: 0}
    assert read_all(topic) == []
    go_on.set()
    appender.join(10)
    assert read_all(topic) == [1]


def test_a_failed_sync_fails_everyone_who_waited_and_is_not_repeated(
    open_log: Callable[[], Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = open_log().create_topic("t")
    topic.append(numbered(-1))
    reached, go_on = threading.Event(), threading.Event()
    real = disk.sync_file

    def fail(descriptor: int) -> None:
        reached.set()
        assert go_on.wait(10)
        monkeypatch.setattr(disk, "sync_file", real)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(disk, "sync_file", fail)
    codes: list[str] = []

    def work(number: int) -> None:
        with pytest.raises(MillstreamError) as caught:
            topic.append(numbered(number))
        codes.append(caught.value.code)

    def watch(number: int) -> None:
        if number < 4:
            work(number)
            return
        assert reached.wait(10)
        deadline = time.monotonic() + 10
        while len(topic._partitions[0]._unsynced) < 4 and time.monotonic() < deadline:
            time.sleep(0.001)
        go_on.set()

    run_threads(5, watch)
    assert codes == ["LOG_WRITE_FAILED"] * 4
    assert topic.append(numbered(100)).ranges == {0: (1, 1)}
    assert read_all(topic) == [-1, 100]
    topic = open_log().topic("t")
    assert read_all(topic) == [-1, 100]


def test_a_partition_that_cannot_be_repaired_refuses_until_it_can(
    open_log: Callable[[], Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = open_log().create_topic("t")
    topic.append(numbered(1))

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync_file", fail)
        patch.setattr("os.ftruncate", fail)
        for _ in range(3):
            with pytest.raises(MillstreamError, match="could not write"):
                topic.append(numbered(2))
        assert read_all(topic) == [1]
    topic.append(numbered(3))
    assert read_all(topic) == [1, 3]
    assert read_all(open_log().topic("t")) == [1, 3]


def test_frames_given_up_after_a_failed_sync_stay_away_even_if_the_disk_kept_them(
    open_log: Callable[[], Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = open_log().create_topic("t")
    topic.append(numbered(1))
    (ref,) = topic.frames(0, 0)

    def fail(descriptor: int) -> None:
        monkeypatch.undo()
        with open(ref.path, "rb") as file:
            kept.append(file.read())
        raise OSError(5, "Input/output error")

    kept: list[bytes] = []
    monkeypatch.setattr(disk, "sync_file", fail)
    with pytest.raises(MillstreamError):
        topic.append(numbered(2))
    topic.append(numbered(3))
    # The truncation never reached the disk: the old file is back at its full length.
    with open(ref.path, "wb") as file:
        file.write(kept[0])
    topic = open_log().topic("t")
    assert read_all(topic) == [1, 3]
    topic.append(numbered(4))
    assert read_offsets(topic) == [0, 1, 2]


def test_closing_settles_appends_under_way(open_log: Callable[[], Log]) -> None:
    log = open_log()
    topic = log.create_topic("t", 2)
    accepted: list[int] = []
    codes: set[str] = set()

    def work(number: int) -> None:
        if number == 0:
            time.sleep(0.02)
            log.close()
            return
        for turn in range(10_000):
            try:
                topic.append(numbered(number * 10_000 + turn, number * 10_000 + turn))
            except MillstreamError as error:
                codes.add(error.code)
                return
            accepted.append(number * 10_000 + turn)

    run_threads(4, work)
    topic = open_log().topic("t")
    survived = {*read_all(topic, 0), *read_all(topic, 1)}
    assert set(accepted) <= survived
    assert codes == {"LOG_CLOSED"}


def test_an_interrupt_while_writing_or_syncing_tears_nothing(
    open_log: Callable[[], Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = open_log().create_topic("t")
    real_write, real_sync = disk.write_all, disk.sync_file

    def half_written(descriptor: int, buffers: Sequence[bytes]) -> None:
        real_write(descriptor, [buffers[0]])
        raise KeyboardInterrupt

    def synced(descriptor: int) -> None:
        real_sync(descriptor)
        raise KeyboardInterrupt

    topic.append(numbered(0))
    with monkeypatch.context() as patch:
        patch.setattr(disk, "write_all", half_written)
        with pytest.raises(KeyboardInterrupt):
            topic.append(numbered(-1), message_ids=["a"])
    topic.append(numbered(1), message_ids=["a"])
    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync_file", synced)
        with pytest.raises(KeyboardInterrupt):
            topic.append(numbered(2), message_ids=["b"])
    assert topic.append(numbered(2), message_ids=["b"]).duplicates == 1
    topic.append(numbered(3))
    assert read_all(topic) == [0, 1, 2, 3]
    assert read_all(open_log().topic("t")) == [0, 1, 2, 3]
