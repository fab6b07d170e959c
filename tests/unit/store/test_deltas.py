"""What an epoch changes in a relation is found whatever its size."""

from __future__ import annotations

import duckdb
import pytest

from millstream.store.deltas import begin_changes, has_rows, note_changes
from millstream.store.naming import added, removed


@pytest.mark.parametrize("rows", [0, 1, 200_000])
def test_changes_are_found_in_the_transaction_that_makes_them(rows: int) -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE v (a BIGINT)")
    connection.execute("BEGIN")
    begin_changes(connection, "v")
    note_changes(connection.execute, "v", added_sql=f"SELECT range FROM range({rows})")
    note_changes(connection.execute, "v", added_sql=f"SELECT range FROM range({rows})")
    assert has_rows(connection, added("v")) == (rows > 0)
    assert not has_rows(connection, removed("v"))
    (found,) = connection.execute(f"SELECT count(*) FROM (SELECT * FROM {added('v')} LIMIT 5)").fetchall()
    assert found == (min(5, 2 * rows),)
