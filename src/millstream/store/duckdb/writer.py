"""The writer of a store: its connection, its transactions, and the state that it knows without asking.

Owns the lock: one transaction at a time. What always holds: a transaction is all there or nothing of it, and what the
writer knows (epoch, progress, failures, shelves) is what has been committed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb

from millstream.model.errors import MillstreamError
from millstream.plan.nodes import Part, Stream
from millstream.store.duckdb.cleaning import Cleaner, Expired
from millstream.store.duckdb.connection import open_database, store_error
from millstream.store.duckdb.failures import load_failures
from millstream.store.duckdb.layout import prepare
from millstream.store.duckdb.progress import KnownProgress
from millstream.store.duckdb.shelves import Shelves, Taken, may_share
from millstream.store.duckdb.sinks import needed_after
from millstream.store.duckdb.writing import Writing


class Writer:
    def __init__(self, path: Path, memory: str) -> None:
        self.connection = open_database(path, memory)
        self.lock = threading.RLock()
        self.writing = Writing(self.connection)
        self.shelves = Shelves(self.connection, self.writing)
        with self.transaction() as txn:
            self.epoch = prepare(txn)
        self.cleaner = Cleaner(self.cursor, path)
        self.progress = KnownProgress(self.cursor())
        self.failures = load_failures(self.cursor())

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection for one reader."""
        return self.connection.cursor()

    @contextmanager
    def transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """All or nothing, one at a time; store errors come out as ours."""
        with self.lock:
            try:
                self.connection.execute("BEGIN")
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException as error:
                # A failed commit has rolled back already.
                with suppress(duckdb.Error):
                    self.connection.execute("ROLLBACK")
                self.writing.forget()
                self.shelves.forget()
                if isinstance(error, duckdb.Error):
                    raise store_error(error) from None
                raise

    @contextmanager
    def undisturbed(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A transaction that takes rows out of changelogs, of which the cleaner may be removing some."""
        with self.lock:
            self.cleaner.settle()
            with self.transaction() as txn:
                yield txn

    def retain(self, views: Sequence[Part], streams: Sequence[Stream], now: int) -> None:
        """Begin to delete what has expired by an instant. All that it depends on is looked up now; commits go on."""
        with self.lock:
            expired = Expired(
                tuple(self.shelves.kept_as(views)), tuple(streams), now, self.epoch, needed_after(self.connection)
            )
            self.cleaner.retain(expired)

    def forget(self, names: Sequence[str]) -> None:
        """Forget what is known of relations whose drop has been committed."""
        if names:
            self.writing.forget(*names)
        for name in names:
            self.failures.pop(name, None)
            self.progress.note(name, "stream", None)
            self.progress.note(name, "view", None)

    def take_from_shelves(self, names: Sequence[str]) -> dict[str, Taken]:
        """Move views from shelves to tables of their own; returns where they were."""
        moved = [name for name in dict.fromkeys(names) if name in self.shelves]
        if not moved:
            return {}
        with self.undisturbed():
            return {name: self.shelves.take(name) for name in moved}

    def put_back(self, taken: Mapping[str, Taken]) -> None:
        """Put views where they were, as if they had not been taken. One that cannot be moved stays where it is."""
        for name, place in taken.items():
            with suppress(MillstreamError), self.undisturbed():
                self.shelves.put_back(name, place)

    def put_on_shelves(self, parts: Sequence[Part]) -> None:
        """Keep views with others of their kind, where they belong there. One that cannot be moved stays where it is:
        what it is moved after has been committed."""
        for part in parts:
            if may_share(part) and part.name not in self.shelves and self.progress.view(part.name) is None:
                with suppress(MillstreamError), self.undisturbed():
                    self.shelves.put(part)

    def close(self) -> None:
        self.cleaner.close()
        with self.lock:
            self.writing.forget()
            self.connection.close()
