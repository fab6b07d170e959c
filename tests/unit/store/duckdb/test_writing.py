"""What the writing connection keeps between epochs: rows that change under one name, statements parsed once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from millstream.store.duckdb.moment import NAMED, Moment
from millstream.store.duckdb.writing import Writing


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE seen (epoch BIGINT, x BIGINT)")
        yield connection


def note(writing: Writing, epoch: int, *values: int, name: str = "v", type_: pa.DataType | None = None) -> None:
    statements = writing.of(name, Moment(epoch, 0))
    with statements.handed(pa.table({"x": pa.array(values, type_ or pa.int64())})) as rows:
        statements.execute(f"INSERT INTO seen SELECT {NAMED.epoch}, CAST(x AS BIGINT) FROM {rows}")


def seen(connection: duckdb.DuckDBPyConnection) -> list[tuple[int, int]]:
    return connection.execute("SELECT * FROM seen ORDER BY ALL").fetchall()


def test_each_time_the_rows_and_the_moment_are_others(connection: duckdb.DuckDBPyConnection) -> None:
    writing = Writing(connection)
    note(writing, 1, 10)
    note(writing, 2, 20, 21)
    note(writing, 3)
    note(writing, 4, 40, name='of "another" view')
    assert seen(connection) == [(1, 10), (2, 20), (2, 21), (4, 40)]


def test_a_statement_is_parsed_once(connection: duckdb.DuckDBPyConnection) -> None:
    class Counting:
        parsed = 0

        def extract_statements(self, sql: str) -> list[duckdb.Statement]:
            Counting.parsed += 1
            return connection.extract_statements(sql)

        def __getattr__(self, name: str) -> object:
            return getattr(connection, name)

    counting: Any = Counting()
    writing = Writing(counting)
    for epoch in range(5):
        note(writing, epoch, epoch)
    assert seen(connection) == [(epoch, epoch) for epoch in range(5)]
    assert Counting.parsed == 1
    writing.forget("w")
    note(writing, 5, 5)
    assert Counting.parsed == 1
    writing.forget("v")
    note(writing, 6, 6)
    assert Counting.parsed == 2


def test_rows_of_other_types(connection: duckdb.DuckDBPyConnection) -> None:
    writing = Writing(connection)
    note(writing, 1, 10)
    note(writing, 2, 20, type_=pa.decimal128(10, 2))
    assert seen(connection) == [(1, 10), (2, 20)]


def test_a_failed_transaction_takes_relations_back(connection: duckdb.DuckDBPyConnection) -> None:
    writing = Writing(connection)
    connection.execute("BEGIN")
    note(writing, 1, 10)
    connection.execute("ROLLBACK")
    writing.forget()
    connection.execute("BEGIN")
    note(writing, 1, 10)
    connection.execute("COMMIT")
    assert seen(connection) == [(1, 10)]


def test_rows_are_let_go(connection: duckdb.DuckDBPyConnection) -> None:
    writing = Writing(connection)
    with pytest.raises(duckdb.Error), writing.handed("v", pa.table({"x": [1]})) as rows:
        connection.execute(f"SELECT * FROM {rows} WHERE no_such_column")
    assert connection.execute(f"SELECT * FROM {rows}").fetchall() == []


@pytest.mark.parametrize("many", [0, 1_000])
def test_steps_are_done_together_or_one_by_one(
    connection: duckdb.DuckDBPyConnection, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.store.duckdb.writing.MANY", many)
    statements = Writing(connection).of("v", Moment(7, 0))
    assert statements.make("__m", "SELECT range AS x FROM range(3)") == 3
    add = f"INSERT INTO seen SELECT {NAMED.epoch}, x FROM __m"
    statements.run([f"{add} WHERE x > 1", f"{add} WHERE x < 1"], rows=3)
    assert seen(connection) == [(7, 0), (7, 2)]
    assert statements.count("seen") == 2


def test_what_is_known_is_made_once_and_forgotten_by_name(connection: duckdb.DuckDBPyConnection) -> None:
    writing = Writing(connection)
    made: list[str] = []

    def make() -> str:
        made.append("SELECT 1")
        return made[-1]

    v, w = (writing.of(name, Moment(1, 0)) for name in "vw")
    for statements in (v, v, w):
        assert statements.known(("a", True), make) == "SELECT 1"
    assert len(made) == 2
    assert [writing.reached("v", 5), writing.reached("v", 6), writing.reached("w", 7)] == [None, 5, None]
    writing.forget("v")
    v.known(("a", True), make)
    w.known(("a", True), make)
    assert len(made) == 3
    assert [writing.reached("v", 8), writing.reached("w", 9)] == [None, 7]
