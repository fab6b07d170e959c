"""What an epoch changes in a relation is found whatever its size."""

from __future__ import annotations

import duckdb
import pytest

from millstream.store.duckdb.deltas import Changes, has_rows
from millstream.store.duckdb.moment import Moment
from millstream.store.duckdb.naming import added, removed
from millstream.store.duckdb.writing import Writing


@pytest.mark.parametrize("rows", [0, 1, 200_000])
def test_changes_are_found_in_the_transaction_that_makes_them(rows: int) -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE v (a BIGINT)")
    connection.execute("BEGIN")
    changes = Changes(Writing(connection).of("v", Moment(1, 0)).make, "v")
    changes.note(added_sql=f"SELECT range FROM range({rows})")
    changes.note(added_sql=f"SELECT range FROM range({rows})")
    assert changes.finish() == (rows > 0)
    assert has_rows(connection, added("v")) == (rows > 0)
    assert not has_rows(connection, removed("v"))
    (found,) = connection.execute(f"SELECT count(*) FROM (SELECT * FROM {added('v')} LIMIT 5)").fetchall()
    assert found == (min(5, 2 * rows),)
