"""What an epoch changes in a relation that others are computed from.

Two bags of rows per relation, in temporary tables while the epoch is committed: what it lost and
what it gained. A value that is replaced is in both.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def remove_rows(connection: duckdb.DuckDBPyConnection, table: str, names: Sequence[str], gone: str) -> None:
    """Delete from a bag of rows as many copies of each row as another bag has, by some columns."""
    same = " AND ".join(f"r.{name} IS NOT DISTINCT FROM g.{name}" for name in names)
    listed = ", ".join(names)
    numbered = f"row_number() OVER (PARTITION BY {', '.join(f'r.{name}' for name in names)}) AS __n"
    connection.execute(
        f"DELETE FROM {table} WHERE rowid IN (SELECT __rid FROM ("
        f"SELECT r.rowid AS __rid, {numbered}, g.__copies FROM {table} r "
        f"JOIN (SELECT {listed}, count(*) AS __copies FROM {gone} GROUP BY {listed}) g ON {same}"
        f") WHERE __n <= __copies)"
    )
