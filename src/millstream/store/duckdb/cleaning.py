"""Retention: deletes expired changes, letters and epoch records, and truncates the write-ahead log by checkpoints.

Runs concurrently with commits, on a connection and a thread of its own; readers and the next epoch do not wait for it.
What always holds: rows of a changelog go together with the note that says so, and none goes that a sink still needs.
What is deleted follows from the store as it was when retention began: epochs that commit meanwhile are left alone, and
whatever takes relations away waits (`Writer.undisturbed`). What a full disk prevents is left for the next time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb

from millstream.plan.nodes import Part, Stream
from millstream.store.duckdb.changelog import changes_table, epoch_of, until
from millstream.store.duckdb.letters import forget_letters
from millstream.store.duckdb.reading import SUMMED
from millstream.store.duckdb.shelves import changed_view

# In processing time.
_EPOCHS_RETAIN = 7 * 86_400 * 1_000_000
_HOUR = 3_600 * 1_000_000
# A smaller write-ahead log is not worth rewriting row groups for.
_WAL_BYTES = 1 << 20
# A checkpoint fails while a transaction writes; between two epochs there is room for one.
_ATTEMPTS, _ATTEMPT_SECONDS = 20, 0.05
# At most this share of the time goes into checkpoints, however large the state is.
_CHECKPOINT_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Expired:
    """What retention works on, and how far it may go."""

    changelogs: Sequence[Part]
    streams: Sequence[Stream]
    now: int
    epoch: int
    """The last epoch that may have expired."""
    needed: Mapping[str, int]
    """By view: the epoch after which a sink still needs its changes."""


class Cleaner:
    def __init__(self, cursor: Callable[[], duckdb.DuckDBPyConnection], path: Path) -> None:
        self._cursor = cursor
        self._wal = path.with_name(f"{path.name}.wal")
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="millstream-cleaning")
        self._work: Future[None] | None = None
        self._closing = False
        self._checkpoint_from = 0.0

    def retain(self, expired: Expired) -> None:
        """Begin to delete, after what is under way already."""
        self._work = self._pool.submit(self._run, expired)

    def settle(self) -> None:
        """Wait for what is under way."""
        if self._work is not None:
            wait([self._work])

    def close(self) -> None:
        self._closing = True
        self._pool.shutdown()

    def _run(self, expired: Expired) -> None:
        with closing(self._cursor()) as connection:
            for view in expired.changelogs:
                if view.changelog_retain is not None and not view.hidden and not view.only_grows:
                    with _attempt(connection):
                        _forget_changes(connection, view, expired)
            for stream in expired.streams:
                with _attempt(connection):
                    forget_letters(connection, stream, expired.now, expired.epoch)
            with _attempt(connection):
                _thin_out_epochs(connection, expired.now - _EPOCHS_RETAIN, expired.epoch)
            self._checkpoint(connection)

    def _checkpoint(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Move the write-ahead log into the file, which also frees the space of deleted rows."""
        for _ in range(_ATTEMPTS):
            began = time.monotonic()
            if self._closing or began < self._checkpoint_from or not self._is_due():
                return
            try:
                connection.execute("CHECKPOINT")
            except duckdb.TransactionException:
                time.sleep(_ATTEMPT_SECONDS)
            except duckdb.Error:
                return
            else:
                self._checkpoint_from = began + (time.monotonic() - began) / _CHECKPOINT_SHARE
                return

    def _is_due(self) -> bool:
        try:
            return self._wal.stat().st_size >= _WAL_BYTES
        except OSError:
            return False


@contextmanager
def _attempt(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """A transaction that may fail."""
    try:
        connection.execute("BEGIN")
        yield
        connection.execute("COMMIT")
    except duckdb.Error:
        with suppress(duckdb.Error):
            connection.execute("ROLLBACK")


def _forget_changes(connection: duckdb.DuckDBPyConnection, changelog: Part, expired: Expired) -> None:
    assert changelog.changelog_retain is not None
    ((epoch,),) = connection.execute(
        "SELECT max(epoch) FROM ms.epochs WHERE committed_at <= ? AND epoch <= ?",
        [expired.now - changelog.changelog_retain, expired.epoch],
    ).fetchall()
    if epoch is None:
        return
    found = _expired(connection, changelog, epoch)
    needed = min((expired.needed[view] for view, _ in found if view in expired.needed), default=None)
    if needed is not None and needed < epoch:
        epoch, found = needed, _expired(connection, changelog, needed)
    if found:
        old = f"{changes_table(changelog.name)} WHERE {until(epoch)}"
        connection.execute(f"DELETE FROM {old}")
        connection.execute("DELETE FROM ms.cleaned WHERE view IN (SELECT unnest(?))", [[view for view, _ in found]])
        connection.executemany("INSERT INTO ms.cleaned VALUES (?, ?)", found)


def _expired(connection: duckdb.DuckDBPyConnection, changelog: Part, epoch: int) -> list[tuple[str, int]]:
    """The views with changes up to an epoch in a changelog, and the newest of these epochs."""
    old = f"{changes_table(changelog.name)} WHERE {until(epoch)}"
    newest = f"SELECT {changed_view(changelog)} AS view, {epoch_of('max(__change)')} AS epoch FROM {old} GROUP BY 1"
    return connection.execute(f"SELECT view, epoch FROM ({newest}) WHERE view IS NOT NULL").fetchall()


def _thin_out_epochs(connection: duckdb.DuckDBPyConnection, old_at: int, last: int) -> None:
    """Of old epochs keep the last of every hour: they tell how old changes are that are kept longer. Of the others
    `ms.thinned` keeps the sums, in its one row."""
    old = "ms.epochs WHERE committed_at <= ? AND epoch <= ?"
    hourly = f"SELECT max(epoch) FROM {old} GROUP BY committed_at // {_HOUR}"
    gone, limits = f"{old} AND epoch NOT IN ({hourly})", [old_at, last, old_at, last]
    if connection.execute(f"SELECT 1 FROM {gone} LIMIT 1", limits).fetchone() is None:
        return
    columns = ", ".join(SUMMED)
    sums = ", ".join(f"sum({column})" for column in SUMMED)
    both = f"SELECT {columns} FROM {gone} UNION ALL SELECT {columns} FROM ms.thinned"
    found = connection.execute(f"SELECT {sums} FROM ({both})", limits).fetchone()
    connection.execute("DELETE FROM ms.thinned")
    connection.execute("INSERT INTO ms.thinned VALUES (?, ?, ?, ?)", found)
    connection.execute(f"DELETE FROM {gone}", limits)
