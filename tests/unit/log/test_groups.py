from collections.abc import Callable
from pathlib import Path

import pytest

from millstream.log import Log
from millstream.log.groups import share_out
from millstream.model.errors import MillstreamError

from .rows import numbered


def test_commits_are_found_again(open_log: Callable[[], Log]) -> None:
    log = open_log()
    topic = log.create_topic("t", 2)
    topic.append(numbered(*range(10)))
    group = log.group("Readers/1")
    assert group is log.group("Readers/1")
    assert group.committed("t") == {}
    assert group.lag("t") == {0: 5, 1: 5}
    group.commit("t", {0: 3})
    group.commit("t", {1: 5})
    group.commit("t", {0: 4})
    log = open_log()
    group = log.group("Readers/1")
    assert group.committed("t") == {0: 4, 1: 5}
    assert group.lag("t") == {0: 1, 1: 0}
    assert log.group("others").committed("t") == {}


def test_a_commit_is_checked_as_a_whole(log: Log) -> None:
    log.create_topic("t", 2).append(numbered(1, 2))
    group = log.group("g")
    for offsets, code in (({0: 1, 2: 0}, "UNKNOWN_PARTITION"), ({0: 1, 1: 2}, "OFFSET_AHEAD")):
        with pytest.raises(MillstreamError) as caught:
            group.commit("t", offsets)
        assert caught.value.code == code
    assert group.committed("t") == {}
    with pytest.raises(MillstreamError) as caught:
        group.commit("other", {})
    assert caught.value.code == "UNKNOWN_TOPIC"


def test_a_failed_commit_changes_nothing(open_log: Callable[[], Log], monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log()
    log.create_topic("t").append(numbered(1, 2))
    group = log.group("g")
    group.commit("t", {0: 1})

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.writev", fail)
        with pytest.raises(MillstreamError) as caught:
            group.commit("t", {0: 2})
    assert caught.value.code == "DISK_FULL"
    assert group.committed("t") == {0: 1}
    assert open_log().group("g").committed("t") == {0: 1}


def test_a_topic_created_again_has_no_commits(log: Log) -> None:
    log.create_topic("t").append(numbered(1, 2))
    group = log.group("g")
    group.commit("t", {0: 2})
    log.drop_topic("t")
    log.create_topic("t")
    assert group.committed("t") == {}


def test_a_damaged_file_is_named(open_log: Callable[[], Log], tmp_path: Path) -> None:
    log = open_log()
    log.create_topic("t")
    log.group("g").commit("t", {0: 0})
    path = log.root / "groups" / "g.json"
    path.write_text("[")
    with pytest.raises(MillstreamError, match=str(path)):
        open_log().group("g")


def test_members_share_the_partitions(log: Log) -> None:
    log.create_topic("t", 5)
    log.create_topic("u", 1)
    group = log.group("g")
    a = group.join(["t", "u"])
    assert a.partitions("t") == (0, 1, 2, 3, 4)
    assert a.partitions("u") == (0,)
    b = group.join(["t"], "b")
    assert (a.partitions("t"), b.partitions("t")) == ((0, 1, 2), (3, 4))
    assert b.partitions("u") == ()
    with group.join(["t"]) as c:
        shares = [a.partitions("t"), b.partitions("t"), c.partitions("t")]
        assert sorted(p for share in shares for p in share) == [0, 1, 2, 3, 4]
        assert sorted(map(len, shares)) == [1, 2, 2]
        assert len(group.members()) == 3
    a.leave()
    a.leave()
    assert group.members() == ("b",)
    assert b.partitions("t") == (0, 1, 2, 3, 4)
    assert a.partitions("t") == ()
    with pytest.raises(MillstreamError) as caught:
        group.join(["t"], "b")
    assert caught.value.code == "MEMBER_EXISTS"


def test_a_member_commits_only_what_is_its_own(log: Log) -> None:
    log.create_topic("t", 2).append(numbered(1, 2))
    group = log.group("g")
    a = group.join(["t"])
    a.commit("t", {0: 1})
    group.join(["t"])
    with pytest.raises(MillstreamError) as caught:
        a.commit("t", {0: 0, 1: 1})
    assert caught.value.code == "NOT_ASSIGNED"
    assert group.committed("t") == {0: 1}


def test_sharing_out_moves_as_little_as_possible() -> None:
    assert share_out(6, {"a": (0, 1, 2, 3, 4, 5), "b": ()}) == {"a": (0, 1, 2), "b": (3, 4, 5)}
    assert share_out(6, {"a": (0, 1, 2), "b": (3, 4, 5), "c": ()}) == {"a": (0, 1), "b": (3, 4), "c": (2, 5)}
    assert share_out(2, {"a": (), "b": (), "c": (0, 1)}) == {"a": (1,), "b": (), "c": (0,)}
