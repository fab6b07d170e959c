"""What an epoch changes in a relation that others are computed from.

Two bags of rows per relation, in temporary tables while the epoch is committed: what it lost and
what it gained. A value that is replaced is in both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import duckdb

from millstream.store.duckdb.connection import count_rows
from millstream.store.duckdb.naming import added, public, removed


def extended(table: str, sql: str) -> str:
    """The rows of a temporary table and those of a query, to be written anew: DuckDB 2.0.0 overlooks rows that a
    transaction inserts in bulk into a table which it has itself created without any, as soon as a LIMIT or an EXISTS
    reads them."""
    return f"SELECT * FROM {table} UNION ALL ({sql})"


class Changes:
    """The changes of a relation in an epoch, noted as they happen."""

    def __init__(self, make: Callable[[str, str], int], relation: str) -> None:
        self._make = make
        """Makes a temporary table of a query, and says how many rows it has."""
        self._removed, self._added = removed(relation), added(relation)
        # In the columns that readers of the relation see.
        self._none = f"SELECT * FROM {public(relation)} LIMIT 0"
        self._counts: dict[str, int] = {}

    def note(self, *, removed_sql: str | None = None, added_sql: str | None = None) -> None:
        """Add the rows of queries, whose columns are the relation's in order."""
        for table, sql in ((self._removed, removed_sql), (self._added, added_sql)):
            if sql is not None:
                known = table if table in self._counts else f"({self._none})"
                self._counts[table] = self._make(table, extended(known, sql))

    def put(self, *, removed_sql: str, added_sql: str) -> None:
        """All of them at once, in columns that may be more than the relation's."""
        self._counts = {
            table: self._make(table, sql) for table, sql in ((self._removed, removed_sql), (self._added, added_sql))
        }

    def finish(self) -> bool:
        """Nothing comes any more; whether anything has changed."""
        for table in (self._removed, self._added):
            if table not in self._counts:
                self._counts[table] = self._make(table, self._none)
        return any(self._counts.values())


def has_rows(connection: duckdb.DuckDBPyConnection, table: str) -> bool:
    return count_rows(connection, table) > 0


def is_changed(connection: duckdb.DuckDBPyConnection, relation: str) -> bool:
    """Whether an epoch changes anything in a relation whose changes are known."""
    return has_rows(connection, removed(relation)) or has_rows(connection, added(relation))


def removing(table: str, names: Sequence[str], gone: str) -> str:
    """The statement that deletes from a bag of rows as many copies of each row as another bag has, by some columns."""
    same = " AND ".join(f"r.{name} IS NOT DISTINCT FROM g.{name}" for name in names)
    listed = ", ".join(names)
    numbered = f"row_number() OVER (PARTITION BY {', '.join(f'r.{name}' for name in names)} ORDER BY r.rowid) AS __n"
    return (
        f"DELETE FROM {table} WHERE rowid IN (SELECT __rid FROM ("
        f"SELECT r.rowid AS __rid, {numbered}, g.__copies FROM {table} r "
        f"JOIN (SELECT {listed}, count(*) AS __copies FROM {gone} GROUP BY {listed}) g ON {same}"
        f") WHERE __n <= __copies)"
    )
