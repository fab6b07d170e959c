"""The connection that writes: what it reads of a table to which its own transaction has added rows."""

from __future__ import annotations

from pathlib import Path

from millstream.store.duckdb.connection import open_database

COLUMNS = "range AS k, hash(range) % 1000 AS n, [range] AS l, 'the text of number ' || range AS s"


def test_a_limit_finds_rows_of_the_transaction_and_others(tmp_path: Path) -> None:
    """DuckDB's late materialization would look for them by their ids, which loses some and destroys others."""
    connection = open_database(tmp_path / "store.duckdb", "1GB")
    connection.execute(f"CREATE TABLE t AS SELECT {COLUMNS} FROM range(600)")
    for epoch in range(1, 80):
        connection.execute("BEGIN")
        connection.execute(f"DELETE FROM t WHERE hash(k + {epoch}) % 5 = 0")
        connection.execute(f"INSERT INTO t SELECT {COLUMNS} FROM range({epoch} * 600, {epoch} * 600 + 100)")
        rows = connection.execute("SELECT * FROM t").fetchall()
        first = connection.execute("SELECT * FROM t ORDER BY n DESC, k LIMIT 10").fetchall()
        assert first == sorted(rows, key=lambda row: (-row[1], row[0]))[:10]
        some = connection.execute("SELECT * FROM t WHERE k % 7 = 0 ORDER BY k LIMIT 10").fetchall()
        assert some == sorted(row for row in rows if row[0] % 7 == 0)[:10]
        connection.execute("COMMIT")
        assert sorted(connection.execute("SELECT * FROM t").fetchall()) == sorted(rows)
    connection.close()
