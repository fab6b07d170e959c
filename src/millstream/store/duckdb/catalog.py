"""The catalog: the statements of all relations, functions and sinks, and the files that streams are done with.

Owns `ms.catalog` and `ms.files`.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb


def remember(
    txn: duckdb.DuckDBPyConnection, name: str, kind: str, statement: str, now: int, incarnation: str = ""
) -> None:
    txn.execute("DELETE FROM ms.catalog WHERE name = ?", [name])
    txn.execute(
        "INSERT INTO ms.catalog (name, kind, statement, created_at, ordinal, incarnation) "
        "SELECT ?, ?, ?, ?, coalesce(max(ordinal), 0) + 1, ? FROM ms.catalog",
        [name, kind, statement, now, incarnation],
    )


def change_statement(txn: duckdb.DuckDBPyConnection, name: str, statement: str) -> None:
    txn.execute("UPDATE ms.catalog SET statement = ? WHERE name = ?", [statement, name])


def forget(txn: duckdb.DuckDBPyConnection, name: str) -> None:
    txn.execute("DELETE FROM ms.catalog WHERE name = ?", [name])


def statements(cursor: duckdb.DuckDBPyConnection) -> list[tuple[str, str, str, str]]:
    """(name, kind, statement, incarnation) in the order they were created."""
    return cursor.execute("SELECT name, kind, statement, incarnation FROM ms.catalog ORDER BY ordinal").fetchall()


def function_key(name: str) -> str:
    # No relation can have this name.
    return f"{name.lower()}()"


def skip_files(txn: duckdb.DuckDBPyConnection, stream: str, files: Sequence[str]) -> None:
    """Note files as if they had been read."""
    txn.execute("DELETE FROM ms.files WHERE stream = ?", [stream])
    add_files(txn, stream, list(enumerate(files)))


def add_files(txn: duckdb.DuckDBPyConnection, stream: str, files: Sequence[tuple[int, str]]) -> None:
    if files:
        txn.executemany("INSERT INTO ms.files VALUES (?, ?, ?)", [[stream, number, path] for number, path in files])


def files_of(cursor: duckdb.DuckDBPyConnection, stream: str) -> list[str]:
    """The files of a stream that are done, in the order they were read."""
    rows = cursor.execute("SELECT path FROM ms.files WHERE stream = ? ORDER BY seq", [stream])
    return [row[0] for row in rows.fetchall()]
