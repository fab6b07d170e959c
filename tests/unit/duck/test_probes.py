"""What could only fail later is refused when a view is created, and nothing else is."""

from __future__ import annotations

import duckdb
import pytest

from millstream.duck import probes
from millstream.duck.connection import give_meaning
from millstream.sql import parse_statement
from millstream.sql.statements import Select


@pytest.fixture(scope="module")
def store() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    give_meaning(connection)
    connection.execute(
        "CREATE TABLE t (k INTEGER, v BIGINT, d DATE, ts TIMESTAMP, s VARCHAR, f BOOLEAN, x DECIMAL(9, 2))"
    )
    return connection


def ask(store: duckdb.DuckDBPyConnection, text: str) -> None:
    statement = parse_statement(text)
    assert isinstance(statement, Select)
    for probe in probes(statement.query):
        store.execute(probe).fetchall()


@pytest.mark.parametrize(
    "condition",
    [
        "d >= '2024-02-30'",
        "k > 'x'",
        "x = 'much'",
        "ts BETWEEN '2024-01-01' AND 'now and then'",
        "f = 'maybe'",
        "k > 1 / 0",
        "k < 2147483647 + 1",
        "v = CAST('a' AS BIGINT)",
        "d = s",
        "k <> s",
        "s = f",
        "x <=> s",
        "v > (SELECT max(v) FROM t WHERE d = s)",
    ],
)
def test_it_is_refused(condition: str, store: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.Error):
        ask(store, f"SELECT k FROM t WHERE {condition}")


@pytest.mark.parametrize(
    "condition",
    [
        "d >= '2024-02-28'",
        "k > '7'",
        "x = '1.5'",
        "ts > '2024-01-01 10:00:00'",
        "f = 'true'",
        "s = 'x' AND s <> '2024-02-30'",
        "k < 1 + 2",
        "v = k AND x = v AND k <=> NULL",
        "try_cast('a' AS INT) IS NULL",
        "k IN (SELECT v FROM t)",
        "s LIKE 'a%'",
        "max(s) OVER () = 'x'",
        "row_number() OVER (ORDER BY k) = 1",
        "ntile(2) OVER (ORDER BY k) + 1 > k",
        "count(*) OVER () = 1 + 1",
        "count(*) OVER (ORDER BY v ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) > 1",
        "ts > TIMESTAMP '2024-01-01 00:00:00' - INTERVAL 1 DAY",
        "array_contains(transform(array(1, 2), e -> e + 1), k)",
    ],
)
def test_it_is_let_in(condition: str, store: duckdb.DuckDBPyConnection) -> None:
    ask(store, f"SELECT {condition} AS c FROM t")


def test_both_sides_of_a_join_are_looked_at(store: duckdb.DuckDBPyConnection) -> None:
    ask(store, "SELECT t.k FROM t LEFT JOIN t AS u ON t.s = u.s AND t.d = u.d")
    with pytest.raises(duckdb.Error, match="a text is compared"):
        ask(store, "SELECT t.k FROM t LEFT JOIN t AS u ON t.d = u.s")
