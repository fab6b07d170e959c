"""Which rows are changed in place and which are written anew."""

from __future__ import annotations

import duckdb
import pytest

from millstream.store.sizes import LARGE, MANY, SOME, Sizes


class Counting(duckdb.DuckDBPyConnection):
    """A connection that knows how often a table was counted."""

    def __init__(self) -> None:
        self.rows = 0
        self.counted = 0

    def execute(self, sql: str) -> duckdb.DuckDBPyConnection:
        assert sql == "SELECT count(*) FROM t"
        self.counted += 1
        return duckdb.connect().execute(f"SELECT {self.rows}")


@pytest.fixture
def connection() -> Counting:
    return Counting()


def test_many_rows_are_written_anew_and_few_in_place(connection: Counting) -> None:
    sizes = Sizes()
    assert [sizes.writes_anew(connection, "t", changed) for changed in (1, SOME, MANY - 1, MANY)] == [
        False,
        False,
        False,
        True,
    ]
    connection.rows = LARGE
    sizes = Sizes()
    assert [sizes.writes_anew(connection, "t", changed) for changed in (SOME - 1, SOME)] == [False, True]


def test_a_table_is_counted_when_it_may_have_become_large_or_small(connection: Counting) -> None:
    sizes = Sizes()
    grown = []
    while connection.rows < LARGE + 5 * SOME:
        grown.append(sizes.writes_anew(connection, "t", SOME))
        connection.rows += SOME
    assert grown.index(True) == LARGE // SOME
    assert all(grown[grown.index(True) :])
    assert connection.counted == 2
    connection.rows = 10
    while sizes.writes_anew(connection, "t", MANY - 1):
        pass
    assert connection.counted == 3
    sizes.forget()
    sizes.writes_anew(connection, "t", 1)
    assert connection.counted == 4
