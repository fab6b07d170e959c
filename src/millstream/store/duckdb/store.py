"""The DuckDB store: one file, one writer, one transaction per command.

Owns nothing but the order of commands: `definitions` and `commits` apply them, `reading` answers readers. Readers use
cursors of their own and see the last committed epoch whole, whatever the writer is doing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
from sqlglot import exp

from millstream.duck.functions import create_user_function
from millstream.model.progress import Completeness, Progress, Totals
from millstream.model.user_functions import UserFunction
from millstream.plan.nodes import View, ViewPlan
from millstream.store.commands import Acknowledge, Command, Commit, Failure, Retain
from millstream.store.duckdb import catalog
from millstream.store.duckdb.commits import Commits
from millstream.store.duckdb.completeness import read_completeness
from millstream.store.duckdb.definitions import Definitions
from millstream.store.duckdb.maintainers import maintainer
from millstream.store.duckdb.reading import Reading
from millstream.store.duckdb.sinks import acknowledge, sink_position
from millstream.store.duckdb.writer import Writer
from millstream.store.protocol import Consumer


class DuckDBStore:
    """See `store.protocol.Store`."""

    def __init__(self, path: Path, memory: str) -> None:
        self._writer = Writer(path, memory)
        self._definitions = Definitions(self._writer)
        self._commits = Commits(self._writer)
        self._reading = Reading(self._writer.cursor)
        self.consumer: Consumer | None = None

    def close(self) -> None:
        self._writer.close()

    # -- commands ------------------------------------------------------------------------------

    def apply(self, command: Command) -> int:
        with self._writer.lock:
            match command:
                case Commit():
                    self._commits.commit(command)
                case Acknowledge():
                    with self._writer.transaction() as txn:
                        acknowledge(txn, command)
                case Retain(now, views, streams):
                    self._writer.retain(views, streams, now)
                case _:
                    self._definitions.apply(command)
            if self.consumer is not None:
                self.consumer(command)
            return self._writer.epoch

    def register_function(self, function: UserFunction) -> None:
        with self._writer.lock:
            create_user_function(self._writer.connection, function)

    def settle(self) -> None:
        """Wait for what runs concurrently with commits."""
        self._writer.cleaner.settle()

    # -- what it has ---------------------------------------------------------------------------

    def statements(self) -> list[tuple[str, str, str, str]]:
        """(name, kind, statement, incarnation) of every relation, in the order they were created."""
        return catalog.statements(self.cursor())

    def last_epoch(self) -> int:
        return self._writer.epoch

    def progress(self, stream: str) -> Progress | None:
        return self._writer.progress.stream(stream)

    def view_progress(self, view: str) -> Progress | None:
        """How far a view that reads history has come; None once it has joined its stream."""
        return self._writer.progress.view(view)

    def views_behind(self) -> dict[str, Progress]:
        """The parts of views that read history, and how far they have come; those of failed views are among them."""
        return self._writer.progress.behind()

    def files(self, stream: str) -> list[str]:
        """The files of a stream that are done, in the order they were read."""
        return catalog.files_of(self.cursor(), stream)

    def failures(self) -> Mapping[str, Failure]:
        """The views that stand still, by name."""
        return self._writer.failures

    def parts_of(self, view: str) -> list[str]:
        """The names of a view and its hidden parts."""
        with self._reading.cursor() as cursor:
            found = cursor.execute(
                "SELECT DISTINCT regexp_extract(table_name, '^(.*)\\.', 1) FROM information_schema.tables "
                "WHERE table_schema = 'ms' AND starts_with(table_name, ?)",
                [view],
            ).fetchall()
        hidden = re.compile(rf"{re.escape(view)}\$\d+")
        return [view, *sorted(name for (name,) in found if hidden.fullmatch(name))]

    def next_due_at(self, views: Sequence[View]) -> int | None:
        writer = self._writer
        with writer.lock:
            due = [maintainer(view).next_due_at(writer.connection) for view in writer.shelves.kept_as(views)]
        return min((at for at in due if at is not None), default=None)

    def sink_position(self, sink: str) -> tuple[int, str]:
        with self._reading.cursor() as cursor:
            return sink_position(cursor, sink)

    def kept_with(self, view: str) -> list[str]:
        """The views that are merged together with one."""
        with self._writer.lock:
            return self._writer.shelves.beside(view)

    # -- reading -------------------------------------------------------------------------------

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection for one reader."""
        return self._writer.cursor()

    def query(self, sql: str) -> pa.Table:
        """Run DuckDB's own SQL, for tests and inspection."""
        return self._reading.sql(sql)

    def read(self, query: exp.Query) -> tuple[pa.Table, int]:
        return self._reading.read(query)

    def check(self, query: exp.Query) -> None:
        self._reading.check(query)

    def columns(self, relation: str) -> pa.Schema:
        return self._reading.columns(relation)

    def preview(
        self, plan: ViewPlan, deltas: Mapping[str, pa.Schema], now: int, instead_of: Sequence[str]
    ) -> pa.Schema:
        return self._definitions.preview(plan, deltas, now, instead_of)

    def changes(self, view: str, since: int, until: int | None = None, limit: int | None = None) -> pa.Table:
        return self._reading.changes(view, since, until, limit)

    def completeness(self, view: View) -> Completeness | None:
        progress = self.view_progress(view.name) or self.progress(view.stream) or Progress()
        with self._reading.cursor() as cursor:
            return read_completeness(cursor, view, progress.watermark)

    def epochs(self, since: int = 0) -> pa.Table:
        return self._reading.epochs(since)

    def totals(self) -> Totals:
        return self._reading.totals()
