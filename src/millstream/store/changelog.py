"""The changelog of a view: one table, appended to inside the epoch's transaction.

Rows are ordered by epoch, then retractions and deletions before what replaces them.
"""

from __future__ import annotations

import duckdb

from millstream.store.naming import internal, quote

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
    values = {"__epoch": "__epoch", "__seq": str(ADD), "__at": "__at", "__op": "'insert'", "__pane": "'early'"}
    values |= {"__pane_index": "0", "__final": "false"}
    header = ", ".join(f"CAST({values[name]} AS {type_}) AS {name}" for name, type_ in HEADER)
    connection.execute(f"CREATE VIEW {changes_table(view)} AS SELECT rowid AS rowid, {header}, {columns} FROM {rows}")


def read_changes_sql(view: str, columns: list[str], since: int) -> str:
    """The changelog after an epoch, in order, with its public column names."""
    header = ", ".join(f"{name} AS {quote(name[2:])}" for name, _ in HEADER if name not in ("__seq", "__at"))
    own = ", ".join(quote(column) for column in columns)
    return f"SELECT {header}, {own} FROM {changes_table(view)} WHERE __epoch > {since} ORDER BY __epoch, __seq, rowid"
