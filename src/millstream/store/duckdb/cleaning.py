"""Removing what is older than it is kept: changes, letters, records of epochs.

Beside the commits, on a connection and a thread of its own: readers and the next epoch do not wait for it. What
always holds: rows of a changelog go together with the note that says so; what could not be removed now, because
its relation is just being dropped or the disk is full, is left for the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress

import duckdb

from millstream.plan.nodes import QueryView, Stream, View
from millstream.store.duckdb.changelog import changes_table, epoch_of, until
from millstream.store.duckdb.letters import forget_letters
from millstream.store.duckdb.shelves import changed_view

# In processing time.
_EVERY = 60 * 1_000_000
_EPOCHS_RETAIN = 7 * 86_400 * 1_000_000
_HOUR = 3_600 * 1_000_000


Changelogs = Callable[[Sequence[View | QueryView]], Sequence[View | QueryView]]
"""Says what has the changelogs of views."""


class Cleaner:
    def __init__(self, cursor: Callable[[], duckdb.DuckDBPyConnection], changelogs: Changelogs) -> None:
        self._cursor = cursor
        self._changelogs = changelogs
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="millstream-cleaning")
        self._work: Future[None] | None = None
        self._began_at: int | None = None

    def clean(self, views: Sequence[View | QueryView], streams: Sequence[Stream], now: int) -> None:
        """Begin to remove what is too old, if that is due and not under way already."""
        if self._began_at is not None and now - self._began_at < _EVERY:
            return
        if self._work is None or self._work.done():
            self._began_at = now
            self._work = self._pool.submit(self._run, self._changelogs(views), tuple(streams), now)

    def settle(self) -> None:
        """Wait for what is under way."""
        if self._work is not None:
            wait([self._work])

    def close(self) -> None:
        self._pool.shutdown()

    def _run(self, changelogs: Sequence[View | QueryView], streams: Sequence[Stream], now: int) -> None:
        with closing(self._cursor()) as connection:
            for view in changelogs:
                if view.changelog_retain is not None and not view.hidden and not view.only_grows:
                    with _attempt(connection):
                        _forget_changes(connection, view, now - view.changelog_retain)
            for stream in streams:
                with _attempt(connection):
                    forget_letters(connection, stream, now)
            with _attempt(connection):
                _thin_out_epochs(connection, now - _EPOCHS_RETAIN)


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


def _forget_changes(connection: duckdb.DuckDBPyConnection, changelog: View | QueryView, old_at: int) -> None:
    ((epoch,),) = connection.execute("SELECT max(epoch) FROM ms.epochs WHERE committed_at <= ?", [old_at]).fetchall()
    if epoch is None:
        return
    old = f"{changes_table(changelog.name)} WHERE {until(epoch)}"
    newest = f"SELECT {changed_view(changelog)} AS view, {epoch_of('max(__change)')} AS epoch FROM {old} GROUP BY 1"
    found = connection.execute(f"SELECT view, epoch FROM ({newest}) WHERE view IS NOT NULL").fetchall()
    if found:
        connection.execute(f"DELETE FROM {old}")
        connection.execute("DELETE FROM ms.cleaned WHERE view IN (SELECT unnest(?))", [[view for view, _ in found]])
        connection.executemany("INSERT INTO ms.cleaned VALUES (?, ?)", found)


def _thin_out_epochs(connection: duckdb.DuckDBPyConnection, old_at: int) -> None:
    """Of old epochs keep the last of every hour: they tell how old changes are that are kept longer."""
    old = "ms.epochs WHERE committed_at <= ?"
    hourly = f"SELECT max(epoch) FROM {old} GROUP BY committed_at // {_HOUR}"
    connection.execute(f"DELETE FROM {old} AND epoch NOT IN ({hourly})", [old_at, old_at])
