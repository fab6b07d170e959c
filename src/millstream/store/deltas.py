"""What an epoch changes in a relation that others are computed from.

Two bags of rows per relation, in temporary tables while the epoch is committed: what it lost and
what it gained. A value that is replaced is in both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import duckdb

from millstream.store.naming import added, public, removed


def begin_changes(connection: duckdb.DuckDBPyConnection, relation: str) -> None:
    """No changes yet, in the columns that readers of the relation see."""
    for table in (removed(relation), added(relation)):
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT * FROM {public(relation)} LIMIT 0")


def note_changes(
    execute: Callable[[str], object],
    relation: str,
    *,
    removed_sql: str | None = None,
    added_sql: str | None = None,
) -> None:
    """Add to the changes the rows of queries, whose columns are the relation's in order."""
    for table, sql in ((removed(relation), removed_sql), (added(relation), added_sql)):
        if sql is not None:
            # Written anew rather than inserted: DuckDB 2.0.0 overlooks rows that a transaction inserts in bulk
            # into a table which it has itself created without any, as soon as a LIMIT or an EXISTS reads them.
            execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT * FROM {table} UNION ALL ({sql})")


def has_rows(connection: duckdb.DuckDBPyConnection, table: str) -> bool:
    rows: list[tuple[int]] = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
    return rows[0][0] > 0


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
