"""The Nexmark workload's own parts: its files, its queries, and the judgement of results."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from bench.__main__ import arguments, make_plan
from bench.data import deal
from bench.environments import Environment, UnavailableError
from bench.nexmark import batch_sql, data, flink_sql, native_sql, polars_sql
from bench.nexmark.data import Events, prepare
from bench.nexmark.job import WRAP, Question, Reply
from bench.nexmark.truth import QUERIES, Truth
from bench.peers import nexmark_duckdb_once
from bench.peers.nexmark_millstream import streams
from bench.peers.nexmark_spark_once import without_zones
from bench.runner import environment
from bench.workloads import nexmark
from bench.workloads.nexmark import LIMITS, RIVALS, _later_failures, _times, _unchecked, differing, judge
from millstream.nexmark.files import KINDS
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


def test_every_query_is_written_for_the_limits() -> None:
    assert set(batch_sql.QUERIES) == set(QUERIES)
    assert set(polars_sql.QUERIES) == set(QUERIES)
    for name in native_sql.QUERIES:
        assert batch_sql.QUERIES[name] == native_sql.QUERIES[name].text


def test_polars_knows_the_columns_of_the_files_in_their_order() -> None:
    types = {"int64": "Int64", "string": "String", "timestamp[us]": "Datetime"}
    for kind, schema in KINDS.items():
        expected = [(field.name, types[str(field.type)]) for field in schema]
        assert list(polars_sql.COLUMNS[kind].items()) == expected


@pytest.mark.parametrize("peer", ["nexmark_flink", "nexmark_polars_once"])
def test_a_contender_with_a_python_of_its_own_needs_nothing_of_ours(peer: str) -> None:
    # -S: without the packages of this environment.
    command = [sys.executable, "-S", "-c", f"import bench.peers.{peer}"]
    subprocess.run(command, check=True, env=environment())


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


def test_the_truth_adds_up_whole_numbers_texts_and_instants(events: Events) -> None:
    bids = [line.decode().split(",") for line in lines(events.epochs / "bid")]
    microseconds = [(datetime.fromisoformat(bid[5]) - datetime(1970, 1, 1)).microseconds for bid in bids]
    with Truth(events.epochs) as truth:
        sums = truth.sums("q0")
        assert set(truth.sums("q1")) == set(sums) - {"price"}, "fractions are left out"
        assert set(truth.sums("q12")) == {"bidder", "bid_count"}, "no file knows when a row arrives"
    assert sums["price"] == sum(int(bid[2]) for bid in bids)
    assert sums["extra"] == sum(len(bid[6]) for bid in bids)
    assert sums["date_time"] % 1_000_000 == sum(microseconds) % 1_000_000
    assert sums["date_time"] < WRAP * len(bids)


def test_what_adds_up_to_something_else_is_named() -> None:
    assert differing({"auction": 7, "starttime": 1}, {"auction": 7}) is None
    assert differing({"auction": 7}, {"auction": 8}) == "auction adds up to 7, should be 8"
    assert differing({}, {"auction": 8}) == "auction adds up to None, should be 8"


@pytest.mark.parametrize("query", ["q3", "q12"])
def test_one_shot_duckdb_has_the_rows_of_the_truth(events: Events, query: str) -> None:
    reply = nexmark_duckdb_once.answer(Question(query, str(events.epochs), str(events.epochs), work=""))
    with Truth(events.epochs) as truth:
        assert reply.rows == truth.rows(query)
    assert reply.seconds > 0


def test_instants_of_spark_lose_their_zone_and_nothing_else() -> None:
    instant = datetime(2026, 5, 1, 10, 0, 0, 7)
    rows = pa.table({"at": pa.array([instant], pa.timestamp("us", "UTC")), "n": pa.array([1], pa.int32())})
    assert without_zones(rows).to_pylist() == [{"at": instant, "n": 1}]


class Idle:
    """A contender that answers at once, and notes what it is asked."""

    asked: list[tuple[str, str]]
    closed: list[str]

    def __init__(self, name: str, *_: object, **__: object) -> None:
        self.name = name

    def ask(self, question: Question) -> tuple[Reply, int]:
        self.asked.append((self.name, question.query))
        return Reply(1.0, 2.0, 1.0, rows=1), 2**20

    def close(self) -> None:
        self.closed.append(self.name)


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> type[Idle]:
    Idle.asked, Idle.closed = [], []
    monkeypatch.setattr(nexmark, "Resident", Idle)
    return Idle


def test_limits_are_asked_last_and_in_the_first_turn_only(
    events: Events, idle: type[Idle], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Environment, "python", lambda self, *, install: Path("/x/python"))
    plan = replace(make_plan(arguments(["--query", "q0", "--runs", "2"]), lambda _: None), events=events)
    (section,) = nexmark.measure(plan)
    assert [name for name, _ in idle.asked] == ["millstream", *RIVALS, *LIMITS, "millstream", *RIVALS]
    assert set(LIMITS) <= set(idle.closed)
    assert section.grid is not None
    assert (section.grid.rivals, section.grid.limits) == (RIVALS, LIMITS)
    assert section.grid.ratios("polars_once") == {"q0": 1.0}
    assert not any("one-shot" in target.what for target in section.targets)


def test_who_is_not_installed_is_named(events: Events, idle: type[Idle], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Environment, *, install: bool) -> Path:
        raise UnavailableError(f"{self.name} is not here")

    monkeypatch.setattr(Environment, "python", refuse)
    plan = replace(make_plan(arguments(["--query", "q0"]), lambda _: None), events=events)
    (section,) = nexmark.measure(plan)
    assert section.grid is not None
    assert section.grid.limits == ("duckdb_once", "spark_once")
    flink = dict.fromkeys(("flink_heap", "flink_rocksdb"), "flink is not here")
    assert section.grid.skipped == {**flink, "polars_once": "polars is not here"}
    assert "polars_once" not in {name for name, _ in idle.asked}


def test_a_run_that_fails_takes_nothing_from_the_others_and_is_wrong() -> None:
    good, bad = (Reply(seconds=2.0, rows=3), 5), (Reply(failed="no heap"), 7)
    replies = {
        ("q0", "flink_heap"): [good, bad],
        ("q0", "flink_rocksdb"): [bad],
        ("q0", "native"): [(Reply(refused="no ranks"), 0)],
    }
    times = _times("q0", ["flink_heap", "flink_rocksdb", "native"], replies)
    assert times.seconds == {"flink_heap": (2.0,), "flink_rocksdb": (), "native": ()}
    assert times.absent == {"flink_rocksdb": "failed: no heap", "native": "cannot express it: no ranks"}
    (wrong,) = _later_failures("q0", "flink_heap", replies)
    assert (wrong.ok, wrong.detail) == (False, "no heap")
    assert wrong.what.endswith(", run 2")
    assert _later_failures("q0", "flink_rocksdb", replies) == []


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
        pytest.param("duckdb_once", Reply(rows=6), False, id="a limit, a row less"),
        pytest.param("spark_once", Reply(rows=7), True, id="a limit, equal rows"),
        pytest.param("spark_once", Reply(rows=7, difference="the first that differs"), False, id="a limit, other rows"),
        pytest.param("polars_once", Reply(rows=7, sums={"num": 1}), True, id="a limit, equal sums"),
        pytest.param("polars_once", Reply(rows=6, sums={}), False, id="a limit, equal sums of a row less"),
    ],
)
def test_a_result_is_judged_by_its_rows(contender: str, reply: Reply, ok: bool | None) -> None:
    check = judge("q5", contender, reply, expected=7)
    assert (check.ok if check else None) is ok
