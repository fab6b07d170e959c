"""The DuckDB store: one file, one writer, one transaction per epoch.

Owns the tables `ms.epochs`, `ms.progress`, `ms.files`, `ms.catalog` and the order of things in
a commit. The view kinds own their own tables. Readers use cursors of their own and see the last
committed epoch whole, whatever the writer is doing.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from millstream.duck import quote
from millstream.duck.functions import create_user_function, remove_user_function
from millstream.model.errors import MillstreamError
from millstream.model.lateness import Lateness
from millstream.model.progress import BEGINNING, Completeness, Progress, Totals
from millstream.model.user_functions import UserFunction
from millstream.plan.nodes import VERSIONS, AppendView, Part, QueryView, Stream, View, ViewPlan
from millstream.store.commands import (
    ChangeStream,
    ChangeView,
    Command,
    Commit,
    CreateFunction,
    CreateStream,
    CreateView,
    Drop,
    DropFunction,
    Failure,
    StreamPart,
    Swap,
    ViewPart,
)
from millstream.store.duckdb.append import Append
from millstream.store.duckdb.changelog import fold_in, write_out
from millstream.store.duckdb.cleaning import Cleaner
from millstream.store.duckdb.completeness import (
    COMPLETENESS,
    count_arrivals,
    forget_completeness,
    read_completeness,
)
from millstream.store.duckdb.connection import open_database, store_error, tables_of
from millstream.store.duckdb.deltas import is_changed
from millstream.store.duckdb.failures import (
    FAILURES,
    Blame,
    SharedFailedError,
    forget_failures,
    load_failures,
    save_failures,
)
from millstream.store.duckdb.letters import (
    create_letters,
    drop_letters,
    drop_letters_for,
    keep_dead,
    keep_late,
)
from millstream.store.duckdb.maintainers import maintainer, merge_delta
from millstream.store.duckdb.moment import Moment
from millstream.store.duckdb.naming import check_columns, columns_of, internal, public
from millstream.store.duckdb.query import QueryMaintainer
from millstream.store.duckdb.reading import Reading
from millstream.store.duckdb.shelves import SHELVED, Shelves, may_share
from millstream.store.duckdb.sinks import SINKS, SinkPositions
from millstream.store.duckdb.swap import Swapping
from millstream.store.duckdb.table import Table
from millstream.store.duckdb.writing import Writing
from millstream.store.protocol import EARLY_INCARNATION, Consumer

FORMAT_VERSION = 5
_READABLE = (2, 3, 4, 5)
"""Stores of format 2 and 3 are some of format 4 in which no view, or only live ones, are kept together. Before format 5
relations had no incarnation: they get one when the store is opened."""

_TABLES = """
CREATE SCHEMA IF NOT EXISTS ms;
CREATE TABLE IF NOT EXISTS ms.format (version INTEGER);
CREATE TABLE IF NOT EXISTS ms.catalog (
    name VARCHAR, kind VARCHAR, statement VARCHAR, created_at BIGINT, ordinal BIGINT);
ALTER TABLE ms.catalog ADD COLUMN IF NOT EXISTS incarnation VARCHAR;
CREATE TABLE IF NOT EXISTS ms.progress (name VARCHAR, kind VARCHAR, state VARCHAR);
CREATE TABLE IF NOT EXISTS ms.cleaned (view VARCHAR, epoch BIGINT);
CREATE TABLE IF NOT EXISTS ms.files (stream VARCHAR, seq BIGINT, path VARCHAR);
CREATE TABLE IF NOT EXISTS ms.epochs (
    epoch BIGINT, committed_at BIGINT, rows_in BIGINT, rows_decoded BIGINT, rows_dead BIGINT,
    rows_used BIGINT, rows_filtered BIGINT, rows_late BIGINT, rows_failed BIGINT,
    offsets VARCHAR, watermarks VARCHAR, streams VARCHAR, views VARCHAR, timings VARCHAR);
"""
_TABLES += SINKS + COMPLETENESS + SHELVED + FAILURES


class DuckDBStore:
    """See `store.protocol.Store`."""

    def __init__(self, path: Path, memory: str) -> None:
        self._connection = open_database(path, memory)
        self._lock = threading.RLock()
        self._reading = Reading(self._connection.cursor)
        self.consumer: Consumer | None = None
        self._writing = Writing(self._connection)
        self._shelves = Shelves(self._connection, self._writing)
        with self._transaction() as txn:
            txn.execute(_TABLES)
            version = _one(txn.execute("SELECT version FROM ms.format"))
            if version is None:
                txn.execute(f"INSERT INTO ms.format VALUES ({FORMAT_VERSION})")
            elif version[0] not in _READABLE:
                raise MillstreamError(
                    "STORE_VERSION",
                    f"the store has format {version[0]}, this release reads {' and '.join(map(str, _READABLE))}",
                    hint="open it with the release that wrote it",
                )
            else:
                txn.execute(f"UPDATE ms.format SET version = {FORMAT_VERSION} WHERE version < {FORMAT_VERSION}")
                txn.execute(
                    f"UPDATE ms.catalog SET incarnation = '{EARLY_INCARNATION}' || ordinal WHERE incarnation IS NULL"
                )
            row = _one(txn.execute("SELECT max(epoch) FROM ms.epochs"))
        self._epoch = (row[0] if row else None) or 0
        self._cleaner = Cleaner(self.cursor, path)
        self.sinks = SinkPositions(self._transaction, self._undisturbed, self._remember, self.cursor)
        # What ms.progress says, so that planning an epoch asks no query.
        self._progress = self._load_progress()
        self._failures = load_failures(self.cursor())
        self._unshelved: set[str] = set()
        """Views that were taken from their shelf to find which of them fails, and go back."""

    @contextmanager
    def _transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """All or nothing, one at a time; store errors come out as ours."""
        with self._lock:
            try:
                self._connection.execute("BEGIN")
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException as error:
                # A failed commit has rolled back already.
                with suppress(duckdb.Error):
                    self._connection.execute("ROLLBACK")
                self._writing.forget()
                self._shelves.forget()
                if isinstance(error, duckdb.Error):
                    raise store_error(error) from None
                raise

    @contextmanager
    def _undisturbed(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A transaction that takes rows out of changelogs, of which the cleaner may be removing some."""
        with self._lock:
            self._cleaner.settle()
            with self._transaction() as txn:
                yield txn

    def close(self) -> None:
        self._cleaner.close()
        with self._lock:
            self._writing.forget()
            self._connection.close()

    # -- the catalog ---------------------------------------------------------------------------

    def statements(self) -> list[tuple[str, str, str, str]]:
        """(name, kind, statement, incarnation) of every relation, in the order they were created."""
        cursor = self.cursor()
        return cursor.execute("SELECT name, kind, statement, incarnation FROM ms.catalog ORDER BY ordinal").fetchall()

    def _remember(
        self, txn: duckdb.DuckDBPyConnection, name: str, kind: str, statement: str, now: int, incarnation: str = ""
    ) -> None:
        txn.execute("DELETE FROM ms.catalog WHERE name = ?", [name])
        txn.execute(
            "INSERT INTO ms.catalog (name, kind, statement, created_at, ordinal, incarnation) "
            "SELECT ?, ?, ?, ?, coalesce(max(ordinal), 0) + 1, ? FROM ms.catalog",
            [name, kind, statement, now, incarnation],
        )

    def register_function(self, function: UserFunction) -> None:
        with self._lock:
            create_user_function(self._connection, function)

    # -- commands ------------------------------------------------------------------------------

    def apply(self, command: Command) -> int:
        with self._lock:
            match command:
                case Commit():
                    self._commit(command)
                case CreateStream():
                    self._create_stream(command)
                case ChangeStream():
                    self._change_stream(command)
                case CreateView():
                    self._create_view(command)
                case ChangeView():
                    self._change_view(command)
                case Drop():
                    self._drop(command)
                case CreateFunction(name, statement, now):
                    with self._transaction() as txn:
                        self._remember(txn, f"{name.lower()}()", "function", statement, now)
                case DropFunction(name):
                    with self._transaction() as txn:
                        txn.execute("DELETE FROM ms.catalog WHERE name = ?", [f"{name.lower()}()"])
                    remove_user_function(self._connection, name)
            if self.consumer is not None:
                self.consumer(command)
            return self._epoch

    def _create_stream(self, create: CreateStream) -> None:
        stream, is_table = create.stream, bool(create.stream.primary_key)
        if is_table:
            check_columns(stream.name, stream.schema.names())
        gone = [] if create.instead_of is None else [create.instead_of]
        kind = "table" if is_table else "stream"
        with self._undisturbed() if gone else self._transaction() as txn:
            for name in gone:
                self._drop_relation(txn, name)
            self._remember(txn, stream.name, kind, create.statement, create.now, create.incarnation)
            create_letters(txn, stream)
            _skip(txn, stream.name, create.files)
            if is_table:
                Table(stream).create(txn)
        self._forget(gone)

    def _change_stream(self, change: ChangeStream) -> None:
        with self._transaction() as txn:
            txn.execute("UPDATE ms.catalog SET statement = ? WHERE name = ?", [change.statement, change.name])
            _skip(txn, change.name, change.files)

    def _create_view(self, create: CreateView) -> None:
        plan, history, now = create.plan, create.history, create.now
        for part in plan.parts:
            check_columns(plan.view.name, columns_of(part))
        with self._undisturbed() if create.instead_of else self._transaction() as txn:
            self._drop_parts(txn, create.instead_of, create.letters_of)
            self._remember(txn, plan.view.name, create.kind, create.statement, now, create.incarnation)
            self._create_parts(txn, plan, create.deltas, now)
            for part in plan.on_spark:
                self._save_new_progress(txn, part.name, history.get(part.name))
                if may_share(part) and part.name not in history:
                    self._shelves.put(part)
        self._forget(create.instead_of)
        for part in plan.parts:
            self._note_progress(part.name, "view", history.get(part.name))

    def _create_parts(
        self, txn: duckdb.DuckDBPyConnection, plan: ViewPlan, deltas: Mapping[str, pa.Schema], now: int
    ) -> None:
        for part in plan.parts:
            if isinstance(part, QueryView):
                QueryMaintainer(part).create(txn, self._epoch, now)
            else:
                maintainer(part).create(txn, deltas[part.name], self._epoch, now)

    def preview(
        self, plan: ViewPlan, deltas: Mapping[str, pa.Schema], now: int, instead_of: Sequence[str]
    ) -> pa.Schema:
        """The columns that a view would have. It is created in a transaction that is rolled back."""
        for part in plan.parts:
            check_columns(plan.view.name, columns_of(part))
        try:
            with self._undisturbed() as txn:
                self._drop_parts(txn, instead_of)
                self._create_parts(txn, plan, deltas, now)
                raise _PreviewedError(txn.sql(f"SELECT * FROM {public(plan.view.name)} LIMIT 0").to_arrow_table())
        except _PreviewedError as previewed:
            return previewed.rows.schema

    def _drop_parts(self, txn: duckdb.DuckDBPyConnection, names: Sequence[str], letters_of: Sequence[str] = ()) -> None:
        for name in names:
            self._drop_relation(txn, name)
        drop_letters_for(txn, letters_of, names)

    def _change_view(self, change: ChangeView) -> None:
        old, new, name = change.old, change.new, change.new.view.name
        if not self._shelves.suits(new.view):
            self._take_from_shelves([name])
        with self._undisturbed() if change.ending else self._transaction() as txn:
            self._drop_parts(txn, change.ending, change.letters_of)
            txn.execute("UPDATE ms.catalog SET statement = ? WHERE name = ?", [change.statement, name])
            if old.view.only_grows != new.view.only_grows:
                own = ", ".join(quote(field.name) for field in self.columns(name))
                if new.view.only_grows:
                    fold_in(txn, name, internal(name, "rows"), own)
                else:
                    write_out(txn, name, own)
        self._forget(change.ending)
        self._writing.forget(*(part.name for part in new.parts))
        self._put_on_shelves([new.view])

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

    def _drop(self, drop: Drop) -> None:
        with self._undisturbed() as txn:
            self._drop_parts(txn, drop.names, drop.letters_of)
        self._forget(drop.names)

    def _forget(self, names: Sequence[str]) -> None:
        """Forget what is known of relations whose drop has been committed."""
        if names:
            self._writing.forget(*names)
        for name in names:
            self._failures.pop(name, None)
            for kind in ("stream", "view"):
                self._note_progress(name, kind, None)

    def _note_progress(self, name: str, kind: str, progress: Progress | None) -> None:
        """Remember what has been committed."""
        if progress is None:
            self._progress.pop((name, kind), None)
        else:
            self._progress[name, kind] = progress

    def _drop_relation(self, txn: duckdb.DuckDBPyConnection, name: str) -> None:
        txn.execute(f"DROP VIEW IF EXISTS {public(name)}")
        drop_letters(txn, name)
        for suffix, kind in tables_of(txn, name).items():
            txn.execute(f"DROP {kind} {internal(name, suffix)}")
        self._shelves.drop(name)
        txn.execute("DELETE FROM ms.catalog WHERE name = ?", [name])
        txn.execute("DELETE FROM ms.progress WHERE name = ?", [name])
        forget_failures(txn, [name])
        txn.execute("DELETE FROM ms.files WHERE stream = ?", [name])
        forget_completeness(txn, name)
        txn.execute("DELETE FROM ms.cleaned WHERE view = ?", [name])

    # -- progress ------------------------------------------------------------------------------

    def last_epoch(self) -> int:
        return self._epoch

    def progress(self, stream: str) -> Progress | None:
        return self._progress.get((stream, "stream"))

    def view_progress(self, view: str) -> Progress | None:
        """How far a view that reads history has come; None once it has joined its stream."""
        return self._progress.get((view, "view"))

    def views_behind(self) -> dict[str, Progress]:
        """The parts of views that read history, and how far they have come; those of failed views are among them."""
        return {name: progress for (name, kind), progress in list(self._progress.items()) if kind == "view"}

    def failures(self) -> Mapping[str, Failure]:
        """The views that stand still, by name."""
        return self._failures

    def _load_progress(self) -> dict[tuple[str, str], Progress]:
        loaded: dict[tuple[str, str], Progress] = {}
        rows = self.cursor().execute("SELECT name, kind, state FROM ms.progress").fetchall()
        for name, kind, text in rows:
            state = json.loads(text)
            by_partition = {key: _by_number(state[key]) for key in ("offsets", "newest", "active_at")}
            seen = state.get("lateness")
            lateness = Lateness(*(_by_number(seen[key]) for key in ("recent", "earlier"))) if seen else None
            loaded[name, kind] = Progress(
                watermark=state["watermark"], clock=state.get("clock", BEGINNING), lateness=lateness, **by_partition
            )
        return loaded

    def _save_progress(self, txn: duckdb.DuckDBPyConnection, name: str, kind: str, progress: Progress | None) -> None:
        known = self._progress.get((name, kind))
        if progress == known:
            return
        if progress is None:
            txn.execute("DELETE FROM ms.progress WHERE name = ? AND kind = ?", [name, kind])
        elif known is None:
            txn.execute("INSERT INTO ms.progress VALUES (?, ?, ?)", [name, kind, _progress_json(progress)])
        else:
            state = _progress_json(progress)
            txn.execute("UPDATE ms.progress SET state = ? WHERE name = ? AND kind = ?", [state, name, kind])

    def _save_new_progress(self, txn: duckdb.DuckDBPyConnection, name: str, progress: Progress | None) -> None:
        """Save where a new view begins, whatever is known of one that it takes the place of."""
        txn.execute("DELETE FROM ms.progress WHERE name = ? AND kind = 'view'", [name])
        if progress is not None:
            txn.execute("INSERT INTO ms.progress VALUES (?, 'view', ?)", [name, _progress_json(progress)])

    def files(self, stream: str) -> list[str]:
        """The files of a stream that are done, in the order they were read."""
        rows = self.cursor().execute("SELECT path FROM ms.files WHERE stream = ? ORDER BY seq", [stream])
        return [row[0] for row in rows.fetchall()]

    # -- the epoch -----------------------------------------------------------------------------

    def _commit(self, part: Commit) -> None:
        feeding = {i.relation for q in part.queries if isinstance(q.view, QueryView) for i in q.view.inputs}
        swapped = [name for swap in part.swaps for name in (*swap.built, *(old.name for old in swap.old.parts))]
        outdated = [v.view for v in part.views if v.view.name in self._shelves and not self._shelves.suits(v.view)]
        names = [view.name for view in outdated]
        misplaced = self._shelves.misplaced(part.views, feeding)
        # The rows of a shelf fire together: a view that stands still would go on firing there.
        self._take_from_shelves([*names, *misplaced, *swapped, *part.failed])
        self._commit_apart(part, feeding)
        joined = [v.view for v in part.views if v.catching_up is None and self.view_progress(v.view.name)]
        self._note(part)
        alone = [v.view for v in part.views if v.view.name in self._unshelved]
        self._unshelved.difference_update(view.name for view in alone)
        new = [*outdated, *joined, *alone, *(view for swap in part.swaps for view in swap.new.parts)]
        self._put_on_shelves([view for view in new if view.name not in feeding])

    def _commit_apart(self, part: Commit, feeding: set[str]) -> None:
        """Commit; views whose shelf cannot be merged are taken from it, so that each succeeds or fails alone."""
        while True:
            try:
                return self._write(part, feeding)
            except SharedFailedError as shared:
                self._take_from_shelves(shared.views)
                self._unshelved.update(shared.views)

    def _take_from_shelves(self, names: Sequence[str]) -> None:
        """Give views tables of their own, if they have none."""
        if moved := [name for name in dict.fromkeys(names) if name in self._shelves]:
            with self._undisturbed():
                for name in moved:
                    self._shelves.take(name)

    def _put_on_shelves(self, parts: Sequence[Part]) -> None:
        """Keep views with others of their kind, where they belong there. One that cannot be moved stays where it is:
        what it is moved after has been committed."""
        for part in parts:
            if may_share(part) and part.name not in self._shelves and self.view_progress(part.name) is None:
                with suppress(MillstreamError), self._undisturbed():
                    self._shelves.put(part)

    def _write(self, part: Commit, feeding: set[str]) -> None:
        with self._transaction() as txn, Blame() as blame:
            epoch = self._epoch + 1
            changed: set[str] = set()
            stale: dict[str, int] = {}
            for stream in part.streams:
                moment = Moment(epoch, part.now, BEGINNING, stream.progress.watermark)
                name = stream.stream.name
                stale[name] = self._commit_stream(txn, stream, moment)
                changed |= {n for n in (name, name + VERSIONS) if n in feeding and is_changed(txn, n)}
            shelved = [view for view in part.views if view.view.name in self._shelves]
            self._shelves.merge(shelved, epoch, part.now, blame)
            for view in part.views:
                blame.on(view.view.name)
                if self._commit_view(txn, view, epoch, part, view.view.name in feeding):
                    changed.add(view.view.name)
            blame.on()
            count_arrivals(txn, part.views, Moment(epoch, part.now), self._writing)
            for swap in part.swaps:
                blame.on(swap.built[-1])
                if self._swap(txn, swap, Moment(epoch, part.now)):
                    changed.add(swap.new.view.name)
            for query in part.queries:
                assert isinstance(query.view, QueryView)
                blame.on(query.view.name)
                statements = self._writing.of(query.view.name, Moment(epoch, part.now, query.before, query.after))
                if QueryMaintainer(query.view).maintain(statements, changed):
                    changed.add(query.view.name)
            for rows in part.kept:
                assert isinstance(rows.view, AppendView)
                blame.on(rows.view.name)
                Append(rows.view).let_go(txn, Moment(epoch, part.now, rows.before, rows.after))
            blame.on()
            save_failures(txn, part.failed)
            self._record(txn, part, epoch, stale)

    def _swap(self, txn: duckdb.DuckDBPyConnection, swap: Swap, at: Moment) -> bool:
        """Put a rebuilt view in place. Returns True if readers see a difference."""
        differs = Swapping(txn, swap, at).run()
        for name in swap.gone:
            self._save_progress(txn, name, "view", None)
        txn.execute("DELETE FROM ms.catalog WHERE name = ?", [swap.built[-1]])
        txn.execute("UPDATE ms.catalog SET statement = ? WHERE name = ?", [swap.statement, swap.new.view.name])
        forget_failures(txn, [swap.new.view.name])
        return differs

    def _note(self, part: Commit) -> None:
        """Remember what has been committed."""
        self._epoch += 1
        self._failures.update(part.failed)
        for stream in part.streams:
            self._note_progress(stream.stream.name, "stream", stream.progress)
        for view in part.views:
            self._note_progress(view.view.name, "view", view.catching_up)
        for swap in part.swaps:
            self._writing.forget(*swap.gone, *swap.built, *(view.name for view in swap.new.parts))
            self._failures.pop(swap.new.view.name, None)
            for name in swap.gone:
                self._note_progress(name, "view", None)

    def _commit_stream(self, txn: duckdb.DuckDBPyConnection, part: StreamPart, at: Moment) -> int:
        """Commit a stream's share; of a table, how many changes came too late to change anything."""
        stream = part.stream
        self._save_progress(txn, stream.name, "stream", part.progress)
        if part.files:
            txn.executemany(
                "INSERT INTO ms.files VALUES (?, ?, ?)",
                [[stream.name, seq, path] for seq, path in part.files],
            )
        if part.dead_rows is not None:
            keep_dead(txn, stream, None, at, part.dead_rows)
        return Table(stream).merge(txn, part.table_rows, at) if stream.primary_key else 0

    def _commit_view(
        self, txn: duckdb.DuckDBPyConnection, part: ViewPart, epoch: int, whole: Commit, feeds: bool
    ) -> bool:
        """Commit a view's share; whether others have to know of changes."""
        moment = Moment(epoch, whole.now, part.before, part.after)
        changed = part.view.name not in self._shelves and self._merge(part, moment, feeds)
        stream = next((s.stream for s in whole.streams if s.stream.name == part.view.stream), None)
        if stream is not None and part.late_rows is not None:
            keep_late(txn, stream, part.view.name, moment, part.late_rows)
        if stream is not None and part.failed_rows is not None:
            keep_dead(txn, stream, part.view.name, moment, part.failed_rows)
        self._save_progress(txn, part.view.name, "view", part.catching_up)
        return changed

    def _merge(self, part: ViewPart, at: Moment, feeds: bool) -> bool:
        """Merge the delta of a view that has tables of its own; whether others have to know of changes."""
        statements = self._writing.of(part.view.name, at, feeds=feeds)
        merge_delta(maintainer(part.view), statements, part.delta, repeats=part.repeats)
        return statements.changes is not None and statements.changes.finish()

    def _record(self, txn: duckdb.DuckDBPyConnection, part: Commit, epoch: int, stale: Mapping[str, int]) -> None:
        offsets = {s.stream.name: dict(s.progress.offsets) for s in part.streams}
        watermarks = {s.stream.name: s.progress.watermark for s in part.streams if s.stream.watermark}
        streams = {s.stream.name: {"in": s.rows, "decoded": s.rows - s.dead, "dead": s.dead} for s in part.streams}
        for table in (s for s in part.streams if s.stream.primary_key):
            filtered = stale[table.stream.name]
            streams[table.stream.name] |= {"used": table.rows - table.dead - filtered, "filtered": filtered}
        views = {
            v.view.name: {"used": v.used, "filtered": v.filtered, "late": v.late, "failed": v.failed}
            for v in part.views
        }
        rows_in, dead = sum(s.rows for s in part.streams), sum(s.dead for s in part.streams)
        txn.execute(
            "INSERT INTO ms.epochs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                epoch,
                part.now,
                rows_in,
                rows_in - dead,
                dead,
                *(sum(v[key] for v in views.values()) for key in ("used", "filtered", "late", "failed")),
                *(json.dumps(value) for value in (offsets, watermarks, streams, views, dict(part.timings))),
            ],
        )

    def retain(self, views: Sequence[View | QueryView], streams: Sequence[Stream], now: int) -> None:
        """Begin to delete the changes, letters and epoch records that have expired by an instant; commits go on."""
        with self._lock:
            self._cleaner.retain(self._shelves.kept_as(views), streams, now)

    def settle(self) -> None:
        """Wait for what runs concurrently with commits."""
        self._cleaner.settle()

    def next_due_at(self, views: Sequence[View]) -> int | None:
        with self._lock:
            due = [maintainer(view).next_due_at(self._connection) for view in self._shelves.kept_as(views)]
        return min((at for at in due if at is not None), default=None)

    def kept_with(self, view: str) -> list[str]:
        """The views that are merged together with one."""
        with self._lock:
            return self._shelves.beside(view)

    # -- reading -------------------------------------------------------------------------------

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection for one reader."""
        return self._connection.cursor()

    def query(self, sql: str) -> pa.Table:
        """Run DuckDB's own SQL, for tests and inspection."""
        return self._reading.sql(sql)

    def read(self, query: exp.Query) -> tuple[pa.Table, int]:
        return self._reading.read(query)

    def check(self, query: exp.Query) -> None:
        self._reading.check(query)

    def columns(self, relation: str) -> pa.Schema:
        return self._reading.columns(relation)

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


class _PreviewedError(Exception):
    """Rolls back what was created to be looked at."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows


def _progress_json(progress: Progress) -> str:
    # Not `asdict`, which copies one by one what may be thousands of counts.
    state = {field.name: getattr(progress, field.name) for field in fields(progress)}
    if progress.lateness is not None:
        state["lateness"] = {"recent": progress.lateness.recent, "earlier": progress.lateness.earlier}
    return json.dumps(state)


def _by_number(values: Mapping[str, int]) -> dict[int, int]:
    """JSON has no numbers for keys."""
    return {int(number): value for number, value in values.items()}


def _skip(txn: duckdb.DuckDBPyConnection, stream: str, files: Sequence[str]) -> None:
    """Note files as if they had been read."""
    txn.execute("DELETE FROM ms.files WHERE stream = ?", [stream])
    if files:
        numbered = [[stream, number, path] for number, path in enumerate(files)]
        txn.executemany("INSERT INTO ms.files VALUES (?, ?, ?)", numbered)


def _one(result: duckdb.DuckDBPyConnection) -> tuple[Any, ...] | None:
    """The only row of a result, which is then finished: an open one blocks the connection."""
    rows = result.fetchall()
    return rows[0] if rows else None
