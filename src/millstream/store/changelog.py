"""The changelog of a view: one table, appended to inside the epoch's transaction.

Rows are ordered by epoch, then retractions and deletions before what replaces them. The changelog of
a view that only grows is derived from its rows. Such a view can lose rows all the same, when it or
what it reads is built anew: then the table `past` has what its rows do not tell any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from millstream.sql import quote
from millstream.store.moment import Moment
from millstream.store.naming import internal, removed

# (column, type), `__at` being processing time; the view's own columns follow.
HEADER = (
    ("__epoch", "BIGINT"),
    ("__seq", "TINYINT"),
    ("__at", "BIGINT"),
    ("__op", "VARCHAR"),
    ("__pane", "VARCHAR"),
    ("__pane_index", "BIGINT"),
    ("__final", "BOOLEAN"),
)
# The order of changes within an epoch: what is replaced goes first, what is too old to keep last.
REMOVE, ADD, FORGET = 0, 1, 2


def changes_table(view: str) -> str:
    return internal(view, "changes")


def create_changelog(connection: duckdb.DuckDBPyConnection, view: str, relation: str) -> None:
    """Create the changelog of a view whose columns are those of a relation."""
    header = ", ".join(f"CAST(NULL AS {type_}) AS {name}" for name, type_ in HEADER)
    connection.execute(f"CREATE TABLE {changes_table(view)} AS SELECT {header}, * FROM {relation} LIMIT 0")


def derive_changelog(connection: duckdb.DuckDBPyConnection, view: str, rows: str, columns: str) -> None:
    """The changelog of a view that only grows is in its rows: each was inserted once, in its epoch."""
    past = ""
    if _has_past(connection, view):
        past = f" UNION ALL SELECT rowid, {_names()}, {columns} FROM {internal(view, 'past')}"
    connection.execute(
        f"CREATE OR REPLACE VIEW {changes_table(view)} AS SELECT rowid AS rowid, {_derived()}, {columns} "
        f"FROM {rows}{past}"
    )


@contextmanager
def kept_past(connection: duckdb.DuckDBPyConnection, view: str, columns: str, rows: str, at: Moment) -> Iterator[None]:
    """Keep in a derived changelog what `removed(view)` loses in the block, and say that it was retracted."""
    listed = f"{_names()}, {columns}"
    connection.execute(f"CREATE OR REPLACE TEMP TABLE __past AS SELECT {_derived()}, {columns} FROM {rows}")
    yield
    gone = f"SELECT * FROM __past EXCEPT ALL SELECT {_derived()}, {columns} FROM {rows}"
    retracted = f"SELECT {at.epoch}, {REMOVE}, {at.now}, 'retract', 'late', 0, false, {columns} FROM {removed(view)}"
    past = internal(view, "past")
    connection.execute(f"CREATE TABLE IF NOT EXISTS {past} AS SELECT {listed} FROM __past LIMIT 0")
    connection.execute(f"INSERT INTO {past} {gone}")
    connection.execute(f"INSERT INTO {past} {retracted}")
    connection.execute("DROP TABLE __past")
    derive_changelog(connection, view, rows, columns)


def write_out(connection: duckdb.DuckDBPyConnection, view: str, columns: str) -> None:
    """Make a table of a derived changelog."""
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE __past AS SELECT {_names()}, {columns} FROM {changes_table(view)} "
        f"ORDER BY __epoch, __seq, rowid"
    )
    connection.execute(f"DROP VIEW {changes_table(view)}")
    connection.execute(f"DROP TABLE IF EXISTS {internal(view, 'past')}")
    connection.execute(f"CREATE TABLE {changes_table(view)} AS SELECT * FROM __past")
    connection.execute("DROP TABLE __past")


def fold_in(connection: duckdb.DuckDBPyConnection, view: str, rows: str, columns: str) -> None:
    """Derive from now on a changelog that is a table; what the rows do not tell stays in `past`."""
    past, table = internal(view, "past"), changes_table(view)
    connection.execute(
        f"CREATE TABLE {past} AS SELECT {_names()}, {columns} FROM {table} "
        f"EXCEPT ALL SELECT {_derived()}, {columns} FROM {rows}"
    )
    connection.execute(f"DROP TABLE {table}")
    derive_changelog(connection, view, rows, columns)


def _names() -> str:
    return ", ".join(name for name, _ in HEADER)


def _derived() -> str:
    values = {"__epoch": "__epoch", "__seq": str(ADD), "__at": "__at", "__op": "'insert'", "__pane": "'early'"}
    values |= {"__pane_index": "0", "__final": "false"}
    return ", ".join(f"CAST({values[name]} AS {type_}) AS {name}" for name, type_ in HEADER)


def _has_past(connection: duckdb.DuckDBPyConnection, view: str) -> bool:
    found = connection.execute(
        "SELECT 1 FROM duckdb_tables() WHERE schema_name = 'ms' AND table_name = ?", [f"{view}.past"]
    )
    return bool(found.fetchall())


def read_changes_sql(view: str, columns: list[str], since: int) -> str:
    """The changelog after an epoch, in order, with its public column names."""
    header = ", ".join(f"{name} AS {quote(name[2:])}" for name, _ in HEADER if name not in ("__seq", "__at"))
    own = ", ".join(quote(column) for column in columns)
    return f"SELECT {header}, {own} FROM {changes_table(view)} WHERE __epoch > {since} ORDER BY __epoch, __seq, rowid"
