"""The positions of sinks: which changes of which view each of them still needs.

Owns the table `ms.sinks`. What always holds: a position is noted after its target has the changes, so
retention may delete changes up to it, and none after it. Sinks have names of their own: one may be called like a view.
"""

from __future__ import annotations

import duckdb

from millstream.store.commands import Acknowledge, CreateSink
from millstream.store.duckdb import catalog

SINKS = """
CREATE TABLE IF NOT EXISTS ms.sinks (name VARCHAR, view VARCHAR, epoch BIGINT, target VARCHAR);
"""


def create_sink(txn: duckdb.DuckDBPyConnection, create: CreateSink) -> None:
    catalog.remember(txn, _key(create.name), "sink", create.statement, create.now)
    position = [create.name.lower(), create.view, create.epoch, create.target]
    txn.execute("INSERT INTO ms.sinks VALUES (?, ?, ?, ?)", position)


def drop_sink(txn: duckdb.DuckDBPyConnection, name: str) -> None:
    catalog.forget(txn, _key(name))
    txn.execute("DELETE FROM ms.sinks WHERE name = ?", [name.lower()])


def acknowledge(txn: duckdb.DuckDBPyConnection, done: Acknowledge) -> None:
    position = [done.epoch, done.target, done.name.lower()]
    txn.execute("UPDATE ms.sinks SET epoch = ?, target = ? WHERE name = ?", position)


def sink_position(cursor: duckdb.DuckDBPyConnection, name: str) -> tuple[int, str]:
    """The epoch and the target's own mark that were noted last."""
    found = cursor.execute("SELECT epoch, target FROM ms.sinks WHERE name = ?", [name.lower()]).fetchall()
    ((epoch, target),) = found
    return epoch, target


def needed_after(connection: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """By view: the epoch after which a sink still needs its changes."""
    return dict(connection.execute("SELECT view, min(epoch) FROM ms.sinks GROUP BY view").fetchall())


def _key(name: str) -> str:
    # No relation can have this name.
    return f"sink {name.lower()}"
