"""The embedded database is a `Connection`: what each statement gives, without Spark."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import millstream as ms
from millstream.api import Connection, Done, Outcome, Result, Starts

STREAM = "CREATE STREAM s (k STRING, n BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS);"
TABLE = "CREATE TABLE users (id BIGINT PRIMARY KEY, name STRING);"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Connection]:
    with ms.connect(tmp_path / "data", settings=ms.EngineSettings(eager_spark=False)) as database:
        connection: Connection = database
        yield connection


def test_a_database_has_every_method_of_a_connection(db: Connection) -> None:
    for name, member in inspect.getmembers(Connection, inspect.isfunction):
        own = getattr(type(db), name)
        if name.startswith("__"):
            continue
        expected, found = inspect.signature(member), inspect.signature(own)
        assert list(found.parameters) == list(expected.parameters), name
        kinds = [parameter.kind for parameter in found.parameters.values()]
        assert kinds == [parameter.kind for parameter in expected.parameters.values()], name


def test_every_statement_says_what_it_did(db: Connection) -> None:
    assert db.execute(STREAM + TABLE) == [
        Done("CREATE STREAM", "created", "s"),
        Done("CREATE TABLE", "created", "users"),
    ]
    text = "CREATE STREAM IF NOT EXISTS S (k STRING); DROP VIEW IF EXISTS v; SET kernel = 'spark';"
    assert db.execute(text) == [
        Done("CREATE STREAM", "kept", "s"),
        Done("DROP VIEW", "absent", "v"),
        Done("SET", "altered", "kernel"),
    ]
    rows = "INSERT INTO s VALUES ('a', 1, TIMESTAMP '2024-01-01 00:00:00'), ('b', 2, NULL)"
    assert db.execute(rows) == [Done("INSERT", "inserted", "s", 2)]
    assert db.execute("DELETE FROM users WHERE id = 7") == [Done("DELETE", "deleted", "users", 0)]
    assert db.execute("DROP TABLE users") == [Done("DROP TABLE", "dropped", "users")]
    assert db.execute("") == []


def test_statements_that_read_give_rows_and_their_epoch(db: Connection) -> None:
    (_, rows, shown) = db.execute(f"{TABLE} SELECT 1 AS one; SHOW TABLES")
    assert _rows(rows) == [{"one": 1}]
    assert _rows(shown) == [{"name": "users", "primary_key": "id"}]
    assert (_result(rows).epoch, _result(shown).epoch) == (0, None)


def test_sql_gives_the_rows_of_the_last_statement_or_nothing(db: Connection) -> None:
    assert db.sql(TABLE) is None
    assert db.sql("SELECT 1 AS one; SET kernel = 'auto'") is None
    assert [row["one"] for row in db.sql("SHOW TABLES; SELECT 1 AS one") or ()] == [1]


def test_statements_after_an_error_do_not_run(db: Connection) -> None:
    with pytest.raises(ms.MillstreamError, match="there is no view or table"):
        db.execute(f"{STREAM} SELECT * FROM nothing; {TABLE}")
    assert [stream["name"] for stream in db.status()["streams"]] == ["s"]


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        -(2**63),
        0.1,
        Decimal("12.50"),
        "it's -- ? ;",
        b"\x00\xff",
        date(2024, 2, 29),
        datetime(2024, 1, 1, 12, 30, 0, 5),
    ],
    ids=repr,
)
def test_a_parameter_is_the_value_that_was_passed(db: Connection, value: Any) -> None:
    (row,) = db.query("SELECT ? AS v", [value]).rows()
    assert row["v"] == value


def test_parameters_are_in_the_order_of_the_text(db: Connection) -> None:
    text = "WITH a AS (SELECT ? AS x) SELECT ? AS y, x, '?' AS z FROM a WHERE x BETWEEN ? AND ? LIMIT ?"
    assert db.query(text, [1, 2, 0, 5, 9]).rows() == [{"y": 2, "x": 1, "z": "?"}]
    (done, rows) = db.execute(f"{TABLE} SELECT ? AS v", ["x"])
    assert isinstance(done, Done)
    assert _rows(rows) == [{"v": "x"}]
    assert db.execute("INSERT INTO users VALUES (?, ?)", [1, "ann"]) == [Done("INSERT", "inserted", "users", 1)]


@pytest.mark.parametrize(
    ("text", "values", "message"),
    [
        ("SELECT ?", [], "no value for this parameter, 0 passed"),
        ("SELECT ?, ?", [1], "no value for this parameter, 1 passed"),
        ("SELECT ?", [1, 2], "takes 1 parameters, got 2"),
        ("SELECT 1", "x", "a list of values"),
        ("SELECT :a", [1], "parameters have no names"),
        ("SELECT ?", [object()], "has no literal"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(db: Connection, text: str, values: Any, message: str) -> None:
    with pytest.raises(ms.MillstreamError, match=message):
        db.query(text, values)


def test_a_script_can_be_applied_again(db: Connection) -> None:
    first = db.apply(STREAM + TABLE)
    assert [done.effect for done in _done(first)] == ["created", "created"]
    assert [done.effect for done in _done(db.apply(STREAM + TABLE))] == ["kept", "kept"]
    with pytest.raises(ms.MillstreamError) as differs:
        db.apply(TABLE.replace("name STRING", "name STRING, zip STRING"))
    assert differs.value.code == "DEFINITION_DIFFERS"
    assert "+" in (differs.value.detail or "")


def test_a_script_is_applied_with_starts(db: Connection) -> None:
    generated = "CREATE STREAM g (n BIGINT) WITH (source = 'datagen', rows = 1);"
    (stream, notice) = _done(db.apply(STREAM + generated, starts=Starts("latest")))
    assert stream.notices == ()
    assert notice.notices == ("stream g begins as its source 'datagen' says",)
    created = db.sql("SHOW CREATE s")
    assert created is not None
    assert "'start' = 'latest'" in next(iter(created))["statement"].replace("start =", "'start' =")
    with pytest.raises(ms.MillstreamError, match="begins where its own options say"):
        db.apply(generated, starts=Starts(None, {"g": "latest"}))


def test_status_tells_what_waits(db: Connection) -> None:
    db.execute(STREAM + TABLE)
    assert db.insert("s", [{"k": "a"}, {"k": "b"}]) == 2
    status = db.status()
    assert [(s["name"], s["is_table"], s["topic"], s["waiting"]) for s in status["streams"]] == [
        ("s", False, "s", 2),
        ("users", True, "users", 0),
    ]
    assert (status["epoch"], status["running"], status["failure"], status["committed_at"]) == (0, False, None, None)
    assert status["views"] == []


def test_topics_take_and_give_lines(db: Connection) -> None:
    topics = db.topics
    topics.create("raw")
    topics.create("raw")
    assert topics.append("raw", ["one", b"two"]) == 2
    assert topics.names() == ["raw"]
    offsets = topics.offsets("raw")
    assert (offsets.start, offsets.end) == ({0: 0}, {0: 2})
    assert [line for batch in topics.read("raw", 0, 1, 2) for line in batch.column("_raw").to_pylist()] == [b"two"]
    with pytest.raises(ms.MillstreamError, match="there is no topic 'row'") as unknown:
        topics.offsets("row")
    assert unknown.value.hint == "did you mean 'raw'?"


def test_waiting_for_an_epoch_ends_with_its_time(db: Connection) -> None:
    assert db.wait_for_epoch(0, 0.01) == 0
    assert db.wait_for_epoch(-1, 60) == 0


def test_a_closed_connection_answers_nothing(db: Connection) -> None:
    db.close()
    for call in (db.status, lambda: db.execute("SELECT 1"), lambda: db.topics, lambda: db.wait_for_epoch(0, 60)):
        with pytest.raises(ms.MillstreamError, match="closed"):
            call()


def _result(outcome: Outcome) -> Result:
    assert isinstance(outcome, Result)
    return outcome


def _rows(outcome: Outcome) -> list[dict[str, Any]]:
    return _result(outcome).rows()


def _done(outcomes: list[Outcome]) -> list[Done]:
    assert all(isinstance(outcome, Done) for outcome in outcomes)
    return [outcome for outcome in outcomes if isinstance(outcome, Done)]
