"""What an epoch changes in a relation that others are computed from.

Two bags of rows per relation, in temporary tables while the epoch is committed: what it lost and
what it gained. A value that is replaced is in both.
"""

from __future__ import annotations

import duckdb

from millstream.store.naming import added, public, removed


def begin_changes(connection: duckdb.DuckDBPyConnection, relation: str) -> None:
    """No changes yet, in the columns that readers of the relation see."""
    for table in (removed(relation), added(relation)):
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT * FROM {public(relation)} LIMIT 0")


def note_changes(
    connection: duckdb.DuckDBPyConnection,
    relation: str,
    *,
    removed_sql: str | None = None,
    added_sql: str | None = None,
) -> None:
    """Add to the changes the rows of queries, whose columns are the relation's in order."""
    if removed_sql is not None:
        connection.execute(f"INSERT INTO {removed(relation)} {removed_sql}")
    if added_sql is not None:
        connection.execute(f"INSERT INTO {added(relation)} {added_sql}")


def has_rows(connection: duckdb.DuckDBPyConnection, table: str) -> bool:
    return bool(connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchall())
