"""The positions of sinks: which changes of which view each of them still needs.

Owns the table `ms.sinks`. What always holds: a position is noted after its target has the changes, so
retention may delete changes up to it, and none after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass

import duckdb

SINKS = """
CREATE TABLE IF NOT EXISTS ms.sinks (name VARCHAR, view VARCHAR, epoch BIGINT, target VARCHAR);
"""

Transaction = Callable[[], AbstractContextManager[duckdb.DuckDBPyConnection]]
Remember = Callable[[duckdb.DuckDBPyConnection, str, str, str, int], None]


@dataclass(frozen=True, slots=True)
class SinkPositions:
    """Sinks have names of their own: one may be called like a view."""

    transaction: Transaction
    undisturbed: Transaction
    """A transaction while no changes are being deleted."""
    remember: Remember
    """Notes a statement in the catalog."""
    cursor: Callable[[], duckdb.DuckDBPyConnection]

    def create(self, name: str, view: str, statement: str, now: int, epoch: int, target: str) -> None:
        """Create a sink that needs the changes after an epoch; -1: all that are left."""
        with self.undisturbed() as txn:
            self.remember(txn, _key(name), "sink", statement, now)
            txn.execute("INSERT INTO ms.sinks VALUES (?, ?, ?, ?)", [name.lower(), view, epoch, target])

    def drop(self, name: str) -> None:
        with self.transaction() as txn:
            txn.execute("DELETE FROM ms.catalog WHERE name = ?", [_key(name)])
            txn.execute("DELETE FROM ms.sinks WHERE name = ?", [name.lower()])

    def acknowledge(self, name: str, epoch: int, target: str) -> None:
        """Note that a target has all changes up to an epoch."""
        with self.transaction() as txn:
            txn.execute("UPDATE ms.sinks SET epoch = ?, target = ? WHERE name = ?", [epoch, target, name.lower()])

    def position(self, name: str) -> tuple[int, str]:
        """The epoch and the target's own mark that were noted last."""
        with closing(self.cursor()) as cursor:
            found = cursor.execute("SELECT epoch, target FROM ms.sinks WHERE name = ?", [name.lower()]).fetchall()
        ((epoch, target),) = found
        return epoch, target


def needed_after(connection: duckdb.DuckDBPyConnection, views: Sequence[str]) -> int | None:
    """The epoch after which a sink still needs changes of some views; None if there is no such sink."""
    ((epoch,),) = connection.execute(
        "SELECT min(epoch) FROM ms.sinks WHERE view IN (SELECT unnest(?))", [list(views)]
    ).fetchall()
    return None if epoch is None else int(epoch)


def _key(name: str) -> str:
    # No relation can have this name.
    return f"sink {name.lower()}"
