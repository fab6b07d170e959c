"""What a crash, or rot, does to the files, and what the next open makes of it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from millstream.log import FrameRef, Log, TopicSettings
from millstream.log.frames import encode
from millstream.model.errors import MillstreamError
from millstream.model.time import ManualClock

from .rows import numbered, read_all, read_offsets


@pytest.fixture
def prepared(tmp_path: Path, clock: ManualClock) -> tuple[Path, list[FrameRef]]:
    """A closed log with three frames of two rows in one segment."""
    root = tmp_path / "prepared"
    with Log(root, clock) as log:
        topic = log.create_topic("t")
        for n in (0, 2, 4):
            topic.append(numbered(n, n + 1), message_ids=[f"{n}", f"{n + 1}"])
        return root, topic.frames(0, 0)


def damaged_copy(root: Path, ref: FrameRef, change: Callable[[bytearray], bytearray]) -> Path:
    copy = root.with_name("damaged")
    if copy.exists():
        shutil.rmtree(copy)
    shutil.copytree(root, copy)
    path = copy / Path(ref.path).relative_to(root)
    path.write_bytes(change(bytearray(path.read_bytes())))
    return copy


def flip(at: int) -> Callable[[bytearray], bytearray]:
    def change(data: bytearray) -> bytearray:
        data[at] ^= 0x01
        return data

    return change


def test_a_tail_torn_at_any_byte_is_cut_off(prepared: tuple[Path, list[FrameRef]], clock: ManualClock) -> None:
    root, refs = prepared
    last = refs[-1]
    for length in range(last.position, last.position + last.length):
        copy = damaged_copy(root, last, lambda data, length=length: data[:length])  # type: ignore[misc]
        with Log(copy, clock) as log:
            topic = log.topic("t")
            assert read_all(topic) == [0, 1, 2, 3]
            assert sum(repair.bytes for repair in topic.repairs) == length - last.position
            appended = topic.append(numbered(9, 4), message_ids=["3", "4"])
            assert (appended.ranges, appended.duplicates) == ({0: (4, 1)}, 1)
            assert read_all(topic) == [0, 1, 2, 3, 4]


def test_a_flipped_byte_in_the_last_frame_cuts_it_off(
    prepared: tuple[Path, list[FrameRef]], clock: ManualClock
) -> None:
    root, refs = prepared
    last = refs[-1]
    for at in range(last.position, last.position + last.length, 5):
        with Log(damaged_copy(root, last, flip(at)), clock) as log:
            assert read_all(log.topic("t")) == [0, 1, 2, 3]
            assert len(log.topic("t").repairs) == 1


def test_garbage_or_zeros_after_the_last_frame_are_cut_off(
    prepared: tuple[Path, list[FrameRef]], clock: ManualClock
) -> None:
    root, refs = prepared
    for garbage in (bytes(4096), b"MSF1" * 100, b"\xff"):
        with Log(damaged_copy(root, refs[0], lambda data, g=garbage: data + g), clock) as log:  # type: ignore[misc]
            assert read_all(log.topic("t")) == [0, 1, 2, 3, 4, 5]


def test_a_flipped_byte_in_an_acknowledged_frame_is_reported_not_cut_off(
    prepared: tuple[Path, list[FrameRef]], clock: ManualClock
) -> None:
    root, refs = prepared
    middle = refs[1]
    for at in range(middle.position, middle.position + middle.length, 7):
        with Log(damaged_copy(root, middle, flip(at)), clock) as log:
            topic = log.topic("t")
            assert topic.repairs == ()
            assert topic.end_offsets() == {0: 6}
            with pytest.raises(MillstreamError) as caught:
                topic.read(0, 0, 6)
            assert caught.value.code == "LOG_CORRUPT"
            assert f"at byte {middle.position}" in caught.value.message
            assert [n for b in topic.read(0, 0, 2) for n in b["n"].to_pylist()] == [0, 1]
            assert [n for b in topic.read(0, 4, 6) for n in b["n"].to_pylist()] == [4, 5]
            topic.append(numbered(6))
            assert topic.end_offsets() == {0: 7}


def test_unsynced_frames_that_reached_the_disk_out_of_order_are_cut_off(
    prepared: tuple[Path, list[FrameRef]], clock: ManualClock
) -> None:
    root, refs = prepared
    with Log(root, clock) as log:
        partition = log.topic("t")._partitions[0]
        tickets = [partition.write([encode(numbered(n))], 0) for n in (6, 7)]
        position = tickets[0].entries[0].position
    # Neither was acknowledged; the second is whole, the first is not.
    with Log(damaged_copy(root, refs[0], flip(position + 100)), clock) as log:
        assert read_all(log.topic("t")) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("keep_index", [True, False])
def test_damage_in_a_sealed_segment_is_reported_when_it_is_read(open_log: Callable[[], Log], keep_index: bool) -> None:
    log = open_log()
    topic = log.create_topic("t", settings=TopicSettings(segment_bytes=1_000))
    for n in range(12):
        topic.append(numbered(n))
    refs = topic.frames(0, 0)
    damaged = refs[2]
    assert damaged.path != refs[-1].path
    log.close()
    for at in (0, 30, damaged.length - 1):
        path = Path(damaged.path)
        intact = path.read_bytes()
        path.write_bytes(flip(damaged.position + at)(bytearray(intact)))
        if not keep_index:
            for index in path.parent.glob("*.idx"):
                index.unlink()
        log = open_log()
        topic = log.topic("t")
        with pytest.raises(MillstreamError) as caught:
            topic.read(0, 0)
        assert caught.value.code == "LOG_CORRUPT"
        assert str(path) in caught.value.message
        assert str(damaged.position) in caught.value.message
        assert [n for b in topic.read(0, 3) for n in b["n"].to_pylist()] == list(range(3, 12))
        log.close()
        path.write_bytes(intact)
        for index in path.parent.glob("*.idx"):
            index.unlink()
    assert read_all(open_log().topic("t")) == list(range(12))


def test_a_lost_or_damaged_index_is_rebuilt(open_log: Callable[[], Log]) -> None:
    log = open_log()
    topic = log.create_topic("t", settings=TopicSettings(segment_bytes=1_000))
    for n in range(20):
        topic.append(numbered(n))
    directory = Path(topic.frames(0, 0)[0].path).parent
    log.close()
    saved = {path: path.read_bytes() for path in directory.glob("*.idx")}
    assert len(saved) > 3
    flipped = bytes(flip(30)(bytearray(saved[min(saved)])))
    for path, contents in zip(saved, (b"", b"x" * 100, flipped), strict=False):
        path.write_bytes(contents)
    min(saved).unlink()
    assert read_offsets(open_log().topic("t")) == list(range(20))
    assert {path: path.read_bytes() for path in directory.glob("*.idx")} == saved


def test_a_lost_segment_is_reported(open_log: Callable[[], Log]) -> None:
    log = open_log()
    topic = log.create_topic("t", settings=TopicSettings(segment_bytes=1_000))
    for n in range(12):
        topic.append(numbered(n))
    paths = sorted({ref.path for ref in topic.frames(0, 0)})
    log.close()
    Path(paths[1]).unlink()
    topic = open_log().topic("t")
    with pytest.raises(MillstreamError) as caught:
        topic.read(0, 0)
    assert caught.value.code == "LOG_CORRUPT"
    assert topic.append(numbered(12)).ranges == {0: (12, 1)}
