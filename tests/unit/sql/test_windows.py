"""Window calls in FROM."""

from __future__ import annotations

import pytest
from sqlglot import exp

from millstream.model.errors import MillstreamError
from millstream.sql import WindowCall, parse_statement, read_window_call
from millstream.sql.statements import Select

SECOND = 1_000_000


def read(call: str) -> WindowCall | None:
    text = f"SELECT * FROM {call}"
    statement = parse_statement(text)
    assert isinstance(statement, Select)
    table = statement.query.find(exp.Table)
    assert table is not None
    return read_window_call(table, text, "q.sql")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("TUMBLE(s, ts, INTERVAL 10 SECONDS)", WindowCall("tumble", "s", "ts", 10 * SECOND, 10 * SECOND)),
        (
            "tumble(s, ts, INTERVAL 1 DAY, INTERVAL -2 HOURS) AS w",
            WindowCall("tumble", "s", "ts", 86_400 * SECOND, 86_400 * SECOND, -7200 * SECOND, alias="w"),
        ),
        (
            "HOP(s, ts, INTERVAL 2 SECONDS, INTERVAL 10 SECONDS) h",
            WindowCall("hop", "s", "ts", 10 * SECOND, 2 * SECOND, alias="h"),
        ),
        (
            "HOP(s, ts, INTERVAL 20 SECONDS, INTERVAL 10 SECONDS, INTERVAL 1 SECOND)",
            WindowCall("hop", "s", "ts", 10 * SECOND, 20 * SECOND, SECOND),
        ),
        (
            "SESSION(s PARTITION BY k, ts, INTERVAL 5 MINUTES)",
            WindowCall("session", "s", "ts", 300 * SECOND, 300 * SECOND, partition_by=("k",)),
        ),
        (
            "SESSION(s PARTITION BY (k, k2), ts, INTERVAL 5 MINUTES)",
            WindowCall("session", "s", "ts", 300 * SECOND, 300 * SECOND, partition_by=("k", "k2")),
        ),
        (
            "SESSION(s, ts, INTERVAL 5 MINUTES)",
            WindowCall("session", "s", "ts", 300 * SECOND, 300 * SECOND),
        ),
        (
            "SLIDE(s PARTITION BY k, k2, ts, INTERVAL '1 minute 30 seconds')",
            WindowCall("slide", "s", "ts", 90 * SECOND, 90 * SECOND, partition_by=("k", "k2")),
        ),
        (
            "TUMBLE(s, PROCTIME(), INTERVAL 10 SECONDS)",
            WindowCall("tumble", "s", None, 10 * SECOND, 10 * SECOND, on_clock=True),
        ),
        (
            "session(s PARTITION BY k, proctime(), INTERVAL 1 SECOND)",
            WindowCall("session", "s", None, SECOND, SECOND, partition_by=("k",), on_clock=True),
        ),
        ("COUNT_WINDOW(s PARTITION BY k, 100)", WindowCall("count", "s", None, 100, 100, partition_by=("k",))),
        ("COUNT_WINDOW(s PARTITION BY k, 100, 10)", WindowCall("count", "s", None, 100, 10, partition_by=("k",))),
        ("COUNT_WINDOW(s, 3)", WindowCall("count", "s", None, 3, 3)),
        (
            "TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL 10 SECONDS)",
            WindowCall("tumble", "s", "ts", 10 * SECOND, 10 * SECOND),
        ),
        ("TUMBLE(`my s`, `t s`, INTERVAL 1 SECOND)", WindowCall("tumble", "my s", "t s", SECOND, SECOND)),
    ],
)
def test_calls(call: str, expected: WindowCall) -> None:
    assert read(call) == expected


def test_a_call_knows_its_place() -> None:
    call = read("TUMBLE(s, ts, INTERVAL 10 SECONDS)")
    assert call is not None
    assert call.position is not None
    assert (call.position.line, call.position.column, call.position.source) == (1, 15, "q.sql")


@pytest.mark.parametrize("item", ["s", "s AS tumble", "hop", "session", "slide AS s"])
def test_other_tables_are_no_calls(item: str) -> None:
    assert read(item) is None


def test_arguments_are_not_columns_of_the_query() -> None:
    statement = parse_statement("SELECT a FROM SESSION(s PARTITION BY k, ts, INTERVAL 1 SECOND)")
    assert isinstance(statement, Select)
    assert [column.name for column in statement.query.find_all(exp.Column)] == ["a"]


def test_a_column_may_have_the_name_of_the_clock() -> None:
    call = read("TUMBLE(s, proctime, INTERVAL 1 SECOND)")
    assert call is not None
    assert (call.time_column, call.on_clock) == ("proctime", False)


@pytest.mark.parametrize("call", ["COUNT_WINDOW(s PARTITION BY PROCTIME(), 3)", "SESSION(s, PROCTIME(), PROCTIME())"])
def test_the_clock_is_only_a_time(call: str) -> None:
    with pytest.raises(MillstreamError):
        read(call)
