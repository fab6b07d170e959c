"""What an epoch changes in a relation that others are computed from.

Two bags of rows per relation, in temporary tables while the epoch is committed: what it lost and
what it gained. A value that is replaced is in both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import duckdb

from millstream.store.naming import added, public, removed


def extended(table: str, sql: str) -> str:
    """The statement that adds the rows of a query to a temporary table.

    It is written anew: DuckDB 2.0.0 overlooks rows that a transaction inserts in bulk into a table which it has
    itself created without any, as soon as a LIMIT or an EXISTS reads them.
    """
    return f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT * FROM {table} UNION ALL ({sql})"


def _none(relation: str) -> str:
    """No rows, in the columns that readers of a relation see."""
    return f"SELECT * FROM {public(relation)} LIMIT 0"


class Changes:
    """The changes of a relation in an epoch, noted as they happen."""

    def __init__(self, execute: Callable[[str], int], relation: str) -> None:
        self._execute = execute
        self._relation = relation
        self._counts: dict[str, int] = {}

    def note(self, *, removed_sql: str | None = None, added_sql: str | None = None) -> None:
        """Add the rows of queries, whose columns are the relation's in order."""
        for table, sql in ((removed(self._relation), removed_sql), (added(self._relation), added_sql)):
            if sql is None:
                continue
            first = f"CREATE OR REPLACE TEMP TABLE {table} AS ({_none(self._relation)}) UNION ALL ({sql})"
            self._counts[table] = self._execute(extended(table, sql) if table in self._counts else first)

    def put(self, *, removed_sql: str, added_sql: str) -> None:
        """All of them at once, in columns that may be more than the relation's."""
        for table, sql in ((removed(self._relation), removed_sql), (added(self._relation), added_sql)):
            self._counts[table] = self._execute(f"CREATE OR REPLACE TEMP TABLE {table} AS {sql}")

    def finish(self) -> bool:
        """Nothing comes any more; whether anything has changed."""
        for table in (removed(self._relation), added(self._relation)):
            if table not in self._counts:
                self._counts[table] = self._execute(f"CREATE OR REPLACE TEMP TABLE {table} AS {_none(self._relation)}")
        return any(self._counts.values())


def has_rows(connection: duckdb.DuckDBPyConnection, table: str) -> bool:
    rows: list[tuple[int]] = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
    return rows[0][0] > 0


def removing(table: str, names: Sequence[str], gone: str) -> str:
    """The statement that deletes from a bag of rows as many copies of each row as another bag has, by some columns."""
    same = " AND ".join(f"r.{name} IS NOT DISTINCT FROM g.{name}" for name in names)
    listed = ", ".join(names)
    numbered = f"row_number() OVER (PARTITION BY {', '.join(f'r.{name}' for name in names)}) AS __n"
    return (
        f"DELETE FROM {table} WHERE rowid IN (SELECT __rid FROM ("
        f"SELECT r.rowid AS __rid, {numbered}, g.__copies FROM {table} r "
        f"JOIN (SELECT {listed}, count(*) AS __copies FROM {gone} GROUP BY {listed}) g ON {same}"
        f") WHERE __n <= __copies)"
    )
