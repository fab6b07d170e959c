"""The Nexmark workload's own parts: its files, its queries, and the judgement of results."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from bench.nexmark import data, flink_sql, native_sql
from bench.nexmark.data import Events, deal, prepare
from bench.nexmark.job import Reply
from bench.nexmark.truth import QUERIES, Truth
from bench.peers.nexmark_millstream import streams
from bench.workloads.nexmark import _unchecked, judge
from millstream.sql import parse_script
from millstream.sql.statements import CreateStream


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Events:
    monkeypatch.setattr(data, "ROOT", tmp_path)
    made = Events(5_000)
    prepare(made)
    return made


def lines(directory: Path) -> list[bytes]:
    return [line for path in sorted(directory.iterdir()) for line in path.read_bytes().splitlines()]


def test_both_layouts_have_the_same_rows(events: Events) -> None:
    for kind, rows in events.rows().items():
        in_order, dealt = lines(events.epochs / kind), lines(events.readers / kind)
        assert len(in_order) == rows
        assert sorted(in_order) == sorted(dealt)


def test_files_of_an_epoch_are_in_the_order_of_their_modification(events: Events) -> None:
    for kind in events.rows():
        files = sorted((events.epochs / kind).iterdir())
        assert len(files) == events.files == 2
        assert files == sorted(files, key=lambda path: path.stat().st_mtime)


def test_what_is_there_is_kept_and_what_is_half_there_is_made_again(events: Events) -> None:
    some = next((events.epochs / "bid").iterdir())
    some.write_text("")
    prepare(events)
    assert some.read_text() == ""
    (events.directory / "complete.json").unlink()
    prepare(events)
    assert some.read_text() != ""


def test_lines_are_dealt_in_turn_over_the_ends_of_files(tmp_path: Path) -> None:
    first, second = tmp_path / "0.csv", tmp_path / "1.csv"
    first.write_text("a\nb\nc\n")
    second.write_text("d\ne\n")
    deal([first, second], tmp_path / "dealt", 2)
    assert [path.read_text() for path in sorted((tmp_path / "dealt").iterdir())] == ["a\nc\ne\n", "b\nd\n"]


def test_every_query_is_written_for_flink_and_written_or_refused_for_spark() -> None:
    assert set(flink_sql.QUERIES) == set(QUERIES)
    assert set(native_sql.QUERIES) | set(native_sql.REFUSED) == set(QUERIES)
    assert not set(native_sql.QUERIES) & set(native_sql.REFUSED)


def test_updates_have_keys_and_only_they() -> None:
    for name, query in native_sql.QUERIES.items():
        assert bool(query.keys) == (query.mode == "update"), name


def test_the_streams_of_the_example_read_our_files() -> None:
    query = "CREATE MATERIALIZED VIEW v AS SELECT bid.auction, seller FROM auction JOIN bid ON id = bid.auction"
    made = parse_script(streams("/data/events", query))
    assert [statement.name for statement in made if isinstance(statement, CreateStream)] == ["auction", "bid"]
    (alone,) = parse_script(streams("/data/events", "CREATE MATERIALIZED VIEW v AS SELECT auction FROM bid"))
    assert isinstance(alone, CreateStream)
    assert alone.name == "bid", "a column of that name reads no stream"
    for statement in made:
        assert isinstance(statement, CreateStream)
        options = dict(statement.options)
        assert options == {"source": "files", "path": f"/data/events/{statement.name}", "format": "csv"}


def test_the_truth_sees_a_wrong_value_and_a_missing_row(events: Events) -> None:
    right = pa.table({"auction": pa.array([], pa.int64()), "price": pa.array([], pa.int64())})
    with Truth(events.epochs) as truth:
        assert truth.rows("q0") == events.rows()["bid"]
        assert truth.rows("q0", "false") == 0
        found = truth.difference("q2", right)
        assert found is not None
        assert f"0 rows, should be {truth.rows('q2')}" in found


def test_what_is_not_checked_is_named() -> None:
    replies = {
        ("q8", "native"): [(Reply(seconds=1.0, rows=0, expected_rows=0), 0)],
        ("q12", "native"): [(Reply(seconds=1.0), 0)],
        ("q19", "native"): [(Reply(refused="no ranks over streams"), 0)],
        ("q0", "native"): [(Reply(seconds=1.0, rows=3, expected_rows=3), 0)],
    }
    first, second = _unchecked(("q0", "q8", "q12", "q19"), ["native"], replies)
    assert first.startswith("q8, Structured Streaming: RocksDB: not checked, no window")
    assert second.startswith("q12, Structured Streaming: RocksDB: not checked, its rows")


@pytest.mark.parametrize(
    ("contender", "reply", "ok"),
    [
        pytest.param("millstream", Reply(rows=7), True, id="equal rows"),
        pytest.param("millstream", Reply(rows=7, difference="the first that differs"), False, id="other rows"),
        pytest.param("flink_heap", Reply(rows=7), True, id="as many rows"),
        pytest.param("flink_heap", Reply(rows=6), False, id="a row less"),
        pytest.param("native", Reply(rows=4, expected_rows=4), True, id="all of the closed windows"),
        pytest.param("native", Reply(rows=7, expected_rows=4), False, id="more than the closed windows"),
        pytest.param("native", Reply(rows=0, expected_rows=0), None, id="no closed window shows nothing"),
        pytest.param("native", Reply(rows=1, expected_rows=0), False, id="rows of open windows"),
        pytest.param("native", Reply(failed="Py4JError: no"), False, id="failed"),
        pytest.param("native", Reply(refused="no ranks over streams"), None, id="refused"),
        pytest.param("flink_heap", Reply(seconds=1.0), None, id="not counted"),
    ],
)
def test_a_result_is_judged_by_its_rows(contender: str, reply: Reply, ok: bool | None) -> None:
    check = judge("q5", contender, reply, expected=7)
    assert (check.ok if check else None) is ok
