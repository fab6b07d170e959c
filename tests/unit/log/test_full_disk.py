import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millstream.log import Log, TopicSettings
from millstream.model.errors import MillstreamError
from millstream.model.time import SystemClock

from .rows import numbered, read_all, read_offsets


def full_after(room: int) -> Callable[[int, Any], int]:
    """A writev for a disk with so many bytes left: writes a part, then refuses."""
    real = os.writev

    def writev(descriptor: int, buffers: Any) -> int:
        nonlocal room
        data = b"".join(bytes(buffer) for buffer in buffers)[:room]
        if not data:
            raise OSError(28, "No space left on device")
        room -= len(data)
        return real(descriptor, [data])

    return writev


def test_a_full_disk_at_any_byte_loses_nothing(open_log: Callable[[], Log], monkeypatch: pytest.MonkeyPatch) -> None:
    topic = open_log().create_topic("t")
    topic.append(numbered(0))
    size = topic.frames(0, 0)[0].length
    expected = [0]
    for room in (0, 1, 71, 72, 73, size - 1):
        with monkeypatch.context() as patch:
            patch.setattr("os.writev", full_after(room))
            with pytest.raises(MillstreamError) as caught:
                topic.append(numbered(-1))
        assert caught.value.code == "DISK_FULL"
        assert caught.value.detail is not None
        assert "No space left" in caught.value.detail
        topic.append(numbered(room))
        expected.append(room)
        assert read_all(topic) == expected
    topic = open_log().topic("t")
    assert topic.repairs == ()
    assert read_all(topic) == expected
    assert read_offsets(topic) == list(range(len(expected)))


def test_a_short_write_is_continued(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.writev

    def few_bytes(descriptor: int, buffers: Any) -> int:
        return real(descriptor, [b"".join(bytes(buffer) for buffer in buffers)[:50]])

    monkeypatch.setattr("os.writev", few_bytes)
    topic = log.create_topic("t")
    topic.append(numbered(1, 2, 3))
    assert read_all(topic) == [1, 2, 3]


def test_a_torn_write_that_cannot_be_taken_back_is_repaired_by_the_next(
    open_log: Callable[[], Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = open_log().create_topic("t")
    topic.append(numbered(1))

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("os.writev", full_after(100))
        patch.setattr("os.ftruncate", fail)
        with pytest.raises(MillstreamError):
            topic.append(numbered(-1))
        with pytest.raises(MillstreamError):
            topic.append(numbered(-1))
    topic.append(numbered(2))
    assert read_all(topic) == [1, 2]
    assert read_all(open_log().topic("t")) == [1, 2]


@pytest.mark.parametrize("step", ["create_segment", "open_for_append", "sync_directory"])
def test_a_segment_that_cannot_be_begun_is_begun_by_the_next_append(
    open_log: Callable[[], Log], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    topic = open_log().create_topic("t", settings=TopicSettings(segment_bytes=1_000))
    for n in range(2):
        topic.append(numbered(n))

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    place = "millstream.log.partitions" if step == "create_segment" else "millstream.log.disk"
    with monkeypatch.context() as patch:
        patch.setattr(f"{place}.{step}", fail)
        with pytest.raises(MillstreamError) as caught:
            topic.append(numbered(*range(100)))
        assert caught.value.code == "DISK_FULL"
    topic.append(numbered(2))
    topic.append(numbered(3))
    assert read_all(topic) == [0, 1, 2, 3]
    assert read_all(open_log().topic("t")) == [0, 1, 2, 3]


def test_a_large_append_that_fails_between_segments_leaves_a_log_that_goes_on(
    open_log: Callable[[], Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = open_log().create_topic("t", settings=TopicSettings(segment_bytes=1_000))
    monkeypatch.setattr("millstream.log.topics._FRAME_MAX_ROWS", 10)
    for failing_write in range(1, 6):
        before = topic.end_offsets()[0]
        real, writes = os.writev, 0

        def writev(descriptor: int, buffers: Any) -> int:
            nonlocal writes
            writes += 1
            if writes == failing_write:  # noqa: B023
                raise OSError(28, "No space left on device")
            return real(descriptor, buffers)  # noqa: B023

        with monkeypatch.context() as patch:
            patch.setattr("os.writev", writev)
            with pytest.raises(MillstreamError):
                topic.append(numbered(*range(60)))
        left = topic.end_offsets()[0] - before
        assert left % 10 == 0
        assert left < 60
        assert read_all(topic)[before:] == list(range(left))
        topic.append(numbered(-1))
        assert read_all(topic)[-1] == -1
    expected = read_all(topic)
    assert read_all(open_log().topic("t")) == expected


def test_a_real_limit_of_the_operating_system(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import resource, sys
        from pathlib import Path
        import pyarrow as pa
        from millstream.log import Log
        from millstream.model.errors import MillstreamError
        from millstream.model.time import SystemClock

        log = Log(Path(sys.argv[1]), SystemClock())
        topic = log.create_topic("t")
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
        accepted = 0
        for n in range(100):
            try:
                topic.append(pa.record_batch({"n": [n]}))
                accepted += 1
            except MillstreamError as error:
                assert error.code == "DISK_FULL", error
                break
        assert topic.end_offsets() == {0: accepted}
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        topic.append(pa.record_batch({"n": [accepted]}))
        print(accepted + 1)
    """)
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "log")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    count = int(done.stdout)
    assert 10 < count < 100
    with Log(tmp_path / "log", SystemClock()) as log:
        assert read_all(log.topic("t")) == list(range(count))
        assert log.topic("t").repairs == ()
