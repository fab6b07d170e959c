from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from millstream.log import Log, Topic, TopicSettings
from millstream.model.errors import MillstreamError
from millstream.model.time import ManualClock
from millstream.sinks import SINKS, Opening, Position, Sink


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path / "log", ManualClock(0))
    yield log
    log.close()


def _open(log: Log, name: str = "s", columns: tuple[str, ...] = ("k", "n"), **options: str) -> Sink:
    read = SINKS["topic"].options.read({"connector": "topic", "topic": "t", **options})
    return SINKS["topic"].open(read, Opening(name, columns, log))


def _changes(epoch: int, *ns: int) -> pa.Table:
    rows = [
        {"epoch": epoch, "op": "upsert", "pane": "early", "pane_index": 0, "final": False, "k": f"k{n}", "n": n}
        for n in ns
    ]
    return pa.Table.from_pylist(rows)


def _landed(topic: Topic) -> list[tuple[str, int, int]]:
    rows = [row for batch in topic.read(0, 0) for row in batch.to_pylist()]
    return [(row["sink"], row["epoch"], row["n"]) for row in rows]


def test_rows_have_a_header_and_the_columns_of_the_view(log: Log) -> None:
    sink = _open(log)
    position = sink.deliver(3, _changes(3, 7))
    assert position == Position(3, "1")
    (batch,) = log.topic("t").read(0, 0)
    (row,) = batch.drop_columns(["_offset", "_landed_at"]).to_pylist()
    assert row == {
        "sink": "s",
        "epoch": 3,
        "op": "upsert",
        "pane": "early",
        "pane_index": 0,
        "final": False,
        "k": "k7",
        "n": 7,
    }


def test_what_was_delivered_and_not_acknowledged_is_not_repeated(log: Log) -> None:
    first = _open(log)
    known = first.begin(0)
    first.deliver(1, _changes(1, 1, 2))
    first.deliver(2, _changes(2, 3))
    again = _open(log)
    # The last epoch may be cut off: it is asked for again, and found to be there.
    assert again.position(known) == Position(1, known.target)
    assert again.deliver(2, _changes(2, 3)) == Position(2, "3")
    assert _landed(log.topic("t")) == [("s", 1, 1), ("s", 1, 2), ("s", 2, 3)]


@pytest.mark.parametrize("landed", range(6))
def test_the_rest_of_an_epoch_that_was_cut_off(log: Log, landed: int) -> None:
    """Equal rows too: the second 5 is there as often as it was changed."""
    known = _open(log).begin(0)
    ns = [5, 1, 5, 2, 3]
    if landed:
        _open(log).deliver(1, _changes(1, *ns[:landed]))
    again = _open(log)
    assert again.position(known).epoch == 0
    again.deliver(1, _changes(1, *ns))
    again.deliver(2, _changes(2, *ns))
    assert [n for _, _, n in _landed(log.topic("t"))] == ns + ns


def test_sinks_share_a_topic(log: Log) -> None:
    one, two = _open(log, "one"), _open(log, "two")
    known = one.begin(0)
    two.deliver(1, _changes(1, 1))
    assert one.position(known) == known
    one.deliver(1, _changes(1, 1))
    assert _landed(log.topic("t")) == [("two", 1, 1), ("one", 1, 1)]


def test_rows_of_others_do_not_matter(log: Log) -> None:
    sink = _open(log)
    known = sink.begin(0)
    log.topic("t").append(pa.table({"_raw": pa.array([b"{}"], pa.binary())}))
    log.topic("t").append(pa.table({"sink": pa.array([4]), "n": pa.array([1])}))
    assert sink.position(known) == known


def test_a_log_that_is_older_than_the_store(log: Log) -> None:
    with pytest.raises(MillstreamError) as caught:
        _open(log).position(Position(4, "17"))
    assert caught.value.code == "LOG_BEHIND_STORE"


@pytest.mark.parametrize("settings", [(2, TopicSettings()), (1, TopicSettings(compact_by=("k",)))])
def test_topics_that_cannot_keep_the_order(log: Log, settings: tuple[int, TopicSettings]) -> None:
    log.create_topic("t", *settings)
    with pytest.raises(MillstreamError) as caught:
        _open(log)
    assert caught.value.code == "BAD_OPTION"


def test_a_column_that_is_called_like_one_of_the_header(log: Log) -> None:
    with pytest.raises(MillstreamError) as caught:
        _open(log, columns=("k", "Epoch"))
    assert caught.value.code == "DUPLICATE_COLUMN"
    assert not log.topics()


def test_the_retention_of_a_new_topic(log: Log) -> None:
    _open(log, retention="1 hour", retention_size="1 MiB")
    settings = log.topic("t").settings
    assert (settings.retention_micros, settings.retention_bytes) == (3_600_000_000, 1 << 20)
