"""The database: what `ms.connect` returns.

Owns the life of the parts (log, store, Spark, the epoch loop, the background thread) and the
Python surface. Statements are carried out in `statements.py`.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import fcntl
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

import pyarrow as pa
from pyspark.sql import SparkSession

from millstream.builder.origins import connected, connected_view
from millstream.builder.relations import Relation, View
from millstream.engine.catalog import Catalog, StreamEntry, ViewEntry, read_names
from millstream.engine.definitions import Definitions
from millstream.engine.epochs import EpochLoop
from millstream.engine.functions import Functions
from millstream.engine.history import History
from millstream.engine.reads import GENERATIONS, Reader
from millstream.engine.replacing import Replacing
from millstream.engine.result import Result
from millstream.engine.rows import Rows, to_table
from millstream.engine.statements import Statements
from millstream.engine.subscription import Subscription
from millstream.engine.tables import find_table, tombstones
from millstream.engine.turns import Turns
from millstream.kernel.handover import open_directory
from millstream.log import Log
from millstream.model.errors import MillstreamError
from millstream.model.settings import EngineSettings, Kernel, SparkSettings
from millstream.model.time import Clock, SystemClock
from millstream.sources import LogOptions
from millstream.spark.native import NativeForms
from millstream.spark.session import new_session, start_spark
from millstream.spark.streaming import StreamingSource
from millstream.sql import parse_script, parse_statement
from millstream.sql.statements import CreateFunction, CreateStream, CreateTable, CreateView, Select
from millstream.store.duckdb_store import DuckDBStore
from millstream.store.protocol import Progress

_MAINTAIN_SECONDS = 60.0

_OPEN: WeakSet[Database] = WeakSet()


@atexit.register
def _close_all() -> None:
    """A program that ends without closing leaves nothing half done behind it."""
    for database in list(_OPEN):
        with contextlib.suppress(MillstreamError):
            database.close()


class Database:
    """An embedded Millstream: the engine in this process, the data in a directory."""

    def __init__(
        self,
        directory: Path,
        *,
        clock: Clock | None = None,
        spark: SparkSettings | None = None,
        settings: EngineSettings | None = None,
    ) -> None:
        self._directory = directory.absolute()
        self._clock = clock or SystemClock()
        self._settings = settings or EngineSettings()
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MillstreamError(
                "BAD_PATH", f"{directory} cannot be a data directory", detail=error.strerror, hint="pass a directory"
            ) from None
        self._spark_settings = spark or SparkSettings()
        self._start_spark = partial(start_spark, self._spark_settings, self._directory / "spark" / "logs")
        self._spark: Future[SparkSession] | None = None
        self._own_session: SparkSession | None = None
        self._beside_session: SparkSession | None = None
        self._wake = threading.Condition()
        self._dirty = False
        self._thread: threading.Thread | None = None
        self._past: threading.Thread | None = None
        self._streaming: list[StreamingSource] = []
        self._failure: MillstreamError | None = None
        self._maintained_at = time.monotonic()
        self._catalog = Catalog()
        self._open = True
        with contextlib.ExitStack() as undo:
            lock = _lock(self._directory)
            undo.callback(os.close, lock)
            if self._settings.eager_spark:
                # Spark starts while the rest is opened; the first epoch waits for it, not the caller.
                self._spark = self._start_spark()
            self._log = Log(self._directory / "log", self._clock)
            undo.callback(self._log.close)
            self._store = DuckDBStore(self._directory / "store.duckdb", self._settings.store_memory)
            undo.callback(self._store.close)
            self._functions = Functions(
                self._store,
                self._settings.function_modules,
                lambda: [view.statement for view in self._catalog.views()],
            )
            # Executors of a cluster do not see the files of this machine.
            is_local = self._spark_settings.master.startswith("local")
            handover = open_directory(self._directory / "spark" / "handover") if is_local else None
            forms = NativeForms(handover)
            self._definitions = Definitions(
                self._catalog,
                self._store,
                self._log,
                self._clock,
                self._session,
                self._directory,
                self._functions,
                forms,
            )
            self._loop = EpochLoop(
                self._catalog,
                self._store,
                self._clock,
                self._settings,
                self._definitions.plan,
                Turns(),
                threading.Condition(),
                Reader(self._session, self._functions.prepare, forms, self._settings.kernel),
            )
            undo.callback(self._loop.reader.close)
            self._replacing = Replacing(self._definitions, self._catalog, self._store)
            past = Reader(
                self._session, self._functions.prepare, forms, self._settings.kernel, first_generation=GENERATIONS
            )
            undo.callback(past.close)
            beside = Reader(self._session_beside, self._functions.prepare, forms, self._settings.kernel)
            undo.callback(beside.close)
            self._history = History(self._loop, self._replacing, past, beside)
            self._statements = Statements(self)
            self._log.on_append(self._on_append)
            undo.callback(self._close_sources)
            self._restore()
            # From here on it is `close` that lets go of all this, in the same order.
            self._held = undo.pop_all()
        _OPEN.add(self)

    def _restore(self) -> None:
        for _, kind, text in self._store.statements():
            (statement,) = parse_script(text)
            match statement:
                case CreateView() if kind == "successor":
                    self._replacing.restore(statement)
                case CreateStream():
                    self._catalog.add(self._definitions.open_stream(statement))
                case CreateTable():
                    self._catalog.add(self._definitions.open_table(statement))
                case CreateView():
                    self._catalog.add(ViewEntry(statement))
                case CreateFunction():
                    self._functions.restore(statement)
                case _:
                    raise MillstreamError("STORE_FAILED", f"the catalog holds an unknown statement: {text}")
        self._catalog.arrange()

    def _session(self) -> SparkSession:
        if self._own_session is None:
            if self._spark is None:
                self._spark = self._start_spark()
            self._own_session = new_session(self._spark.result(), self._spark_settings)
        self._functions.prepare(self._own_session)
        return self._own_session

    def use_kernel(self, kernel: Kernel) -> None:
        """What computes deltas from the next epoch on."""
        for reader in (self._loop.reader, self._history.reader, self._history.beside):
            reader.kernel = kernel

    def _session_beside(self) -> SparkSession:
        """A session whose jobs leave a core to those of live epochs."""
        if self._beside_session is None:
            assert self._spark is not None
            running = self._spark.result()
            cores = max(1, running.sparkContext.defaultParallelism - 1)
            self._beside_session = new_session(running, self._spark_settings, parallelism=cores)
        return self._beside_session

    # -- statements and queries ----------------------------------------------------------------

    def sql(self, text: str, *, source: str = "<sql>") -> Result | Subscription | None:
        """Carry out one or more statements; the result is that of the last one.

        SELECT, SHOW, DESCRIBE and EXPLAIN return a `Result`, SUBSCRIBE a `Subscription`.
        """
        self._check_open()
        result: Result | Subscription | None = None
        for statement in parse_script(text, source):
            result = self._statements.run(statement, text, source)
        return result

    def query(self, text: str) -> Result:
        """The rows of one SELECT over views and tables, as of the last committed epoch."""
        self._check_open()
        statements = parse_script(text)
        if len(statements) != 1 or not isinstance(statements[0], Select):
            raise MillstreamError("NOT_A_QUERY", "query takes one SELECT", hint="use sql() for other statements")
        result = self._statements.run(statements[0], text, "<sql>")
        assert isinstance(result, Result)
        return result

    def create_function(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        arguments: Sequence[str],
        returns: str,
        replace: bool = False,
    ) -> None:
        """Let queries call a function: it gets one `pyarrow.Array` per argument and returns one of the same length.

        Types are written as in SQL. The function goes with the program: after a restart it must be
        passed again before views that use it go on.
        """
        self._check_open()
        columns = ", ".join(f"a{index} {type_}" for index, type_ in enumerate(arguments))
        text = f"CREATE FUNCTION `{name.replace('`', '``')}` ({columns}) RETURNS {returns}"
        statement = parse_statement(text)
        if not isinstance(statement, CreateFunction) or statement.source is not None:
            raise MillstreamError("BAD_FUNCTION", "the types of a function are written as in SQL", detail=text)
        with self._loop.lock:
            self._functions.create(dataclasses.replace(statement, or_replace=replace), function, self._clock.now())

    def insert(self, name: str, rows: Rows, *, message_ids: Sequence[str | None] | None = None) -> int:
        """Append rows to a stream or upsert them into a table; returns when they are durable.

        With `message_ids`, one a row, a row whose id was accepted before is dropped, so a retry
        after a failure adds nothing twice. Returns how many rows were accepted.
        """
        self._check_open()
        entry = self._insertable(name)
        table = to_table(rows, entry.stream.schema, entry.name)
        if table.num_rows == 0:
            return 0
        return self._append(entry, table, message_ids)

    def delete(self, name: str, keys: Rows, *, message_ids: Sequence[str | None] | None = None) -> int:
        """Delete rows of a table by primary key; returns when the deletions are durable.

        They take effect with the next epoch, in order with what is inserted. Rows name the key columns and,
        where the table has them, its sequence and the event time of versions. Returns how many were accepted.
        """
        self._check_open()
        entry = find_table(self._catalog, name)
        self._insertable(entry.name)
        table = to_table(keys, entry.stream.schema, entry.name)
        if table.num_rows == 0:
            return 0
        return self._append(entry, tombstones(entry.stream, table), message_ids)

    def insert_lines(
        self, name: str, lines: Sequence[bytes | str], *, message_ids: Sequence[str | None] | None = None
    ) -> int:
        """Append undecoded lines, in the stream's format, to its log; what is malformed becomes a dead letter."""
        self._check_open()
        entry = self._insertable(name)
        raw = [line.encode() if isinstance(line, str) else line for line in lines]
        if not raw:
            return 0
        return self._append(entry, pa.table({"_raw": pa.array(raw, pa.binary())}), message_ids)

    def _insertable(self, name: str) -> StreamEntry:
        entry = self._catalog.stream(name)
        if not isinstance(entry.options, LogOptions):
            raise MillstreamError(
                "NOT_INSERTABLE",
                f"{entry.name} reads from {entry.options.source!r}: rows cannot be inserted or deleted",
                hint="a stream or table with source = 'log' takes them",
            )
        return entry

    def _append(self, entry: StreamEntry, rows: pa.Table, message_ids: Sequence[str | None] | None) -> int:
        assert isinstance(entry.options, LogOptions)
        topic = self._log.topic(entry.options.topic or entry.name)
        keys = entry.stream.primary_key or entry.options.keys
        if "_raw" in rows.column_names:
            keys = ()
        return topic.append(rows, keys=keys, message_ids=message_ids).rows

    def changes(self, view: str, since_epoch: int = 0) -> Result:
        """The changelog of a view after an epoch; 0 means from its beginning."""
        self._check_open()
        return self._changes(self._catalog.view(view).name, since_epoch if since_epoch > 0 else -1)

    def _changes(self, name: str, since: int) -> Result:
        self._check_open()
        return Result(self._store.changes(name, since))

    def subscribe(self, view: str, from_epoch: int = 0) -> Subscription:
        """The changes of a view from an epoch on, as they are committed; never a loss, never a repeat."""
        self._check_open()
        name = self._catalog.view(view).name
        return Subscription(
            partial(self._changes, name),
            self._store.last_epoch,
            self._loop.committed,
            lambda: self._open,
            from_epoch,
        )

    # -- the builder ---------------------------------------------------------------------------

    def stream(self, name: str) -> Relation:
        """A stream, to build a view on step by step."""
        return connected(self, name, "stream")

    def table(self, name: str) -> Relation:
        """A table, to join or to build a view on."""
        return connected(self, name, "table")

    def view(self, name: str) -> View:
        """A view, to read, to follow, or to build another view on."""
        return connected_view(self, name)

    # -- running -------------------------------------------------------------------------------

    def drain(self) -> int:
        """Process everything that has arrived and what the clock has made due; the last epoch."""
        self._check_open()
        self._raise_failure()
        for entry in self._pushed():
            if not self._streaming:
                self._definitions.streaming_source(entry).run_available(
                    self._session(), partial(self._loop.run_batch, entry)
                )
        if self._past is None or not self._past.is_alive():
            while self._history.step():
                pass
        else:
            self._await_history(self._past)
        # Rows that arrive meanwhile are for the next call, or this one might never end.
        until = self._loop.ends()
        while self._loop.run(until) is not None:
            pass
        self._maintain()
        self._store.settle()
        return self._store.last_epoch()

    def _await_history(self, thread: threading.Thread) -> None:
        """Wait until the background has read the past for all views."""
        while not self._history.is_done() and thread.is_alive():
            with self._loop.committed:
                self._loop.committed.wait(0.2)
        self._raise_failure()

    def settle(self, create: CreateView) -> None:
        """Put views in place first that are about to have other columns, if a new view reads them and nothing runs."""
        if self._past is not None:
            return
        for name in read_names(create.query):
            entry = self._catalog.find(name)
            while isinstance(entry, ViewEntry) and entry.successor is not None and self._history.step():
                pass

    def start(self) -> None:
        """Process continuously, in the background."""
        self._check_open()
        if self._thread is not None and self._thread.is_alive():
            return
        self._failure = None
        self._thread = threading.Thread(target=self._run, name="millstream-epochs", daemon=True)
        self._thread.start()
        self._past = threading.Thread(target=self._catch_up, name="millstream-history", daemon=True)
        self._past.start()
        for entry in self._pushed():
            source = self._definitions.streaming_source(entry)
            source.start(self._session(), partial(self._loop.run_batch, entry))
            self._streaming.append(source)

    def stop(self) -> None:
        """Stop processing; the epoch under way is finished first."""
        thread, self._thread = self._thread, None
        past, self._past = self._past, None
        for source in self._streaming:
            source.stop()
        self._streaming.clear()
        if thread is not None:
            self._notify()
            thread.join()
        if past is not None:
            past.join()
        self._raise_failure()

    def _catch_up(self) -> None:
        """Read the past for new views, beside the epochs of the others."""
        me = threading.current_thread()
        while self._past is me:
            try:
                worked = self._history.step(beside=True)
            except MillstreamError as error:
                self._failure = error
                return
            except Exception as error:
                self._failure = MillstreamError("INTERNAL", f"{type(error).__name__}: {error}")
                return
            if not worked:
                with self._wake:
                    if self._past is me:
                        self._wake.wait(0.2)

    def _run(self) -> None:
        me = threading.current_thread()
        while self._thread is me:
            try:
                self._dirty = False
                worked = self._loop.pause() == 0 and self._loop.run() is not None
                self._maintain()
                for source in self._streaming:
                    if (failure := source.failure()) is not None:
                        raise failure
                patience = 0.0 if worked else self._patience()
            except MillstreamError as error:
                self._failure = error
                return
            except Exception as error:
                self._failure = MillstreamError("INTERNAL", f"{type(error).__name__}: {error}")
                return
            if worked:
                continue
            with self._wake:
                if not self._dirty and self._thread is me:
                    self._clock.wait(self._wake, patience)

    def _patience(self) -> float:
        """How long to sleep without a call: until a timer, or until rows or a source must be looked at."""
        limits = [1.0]
        if (pause := self._loop.pause()) > 0:
            limits.append(pause)
        due = self._loop.seconds_until_due()
        if due is not None:
            limits.append(due + 0.001)
        if any(e.source is not None and not e.source.announces() for e in self._catalog.streams()):
            limits.append(self._settings.poll_interval)
        return min(limits)

    def _on_append(self, topic: str) -> None:
        self._notify()

    def _notify(self) -> None:
        with self._wake:
            self._dirty = True
            self._wake.notify_all()

    def _pushed(self) -> list[StreamEntry]:
        return [entry for entry in self._catalog.streams() if entry.source is None]

    def _maintain(self) -> None:
        """Retention and compaction of the log, now and then."""
        if time.monotonic() - self._maintained_at < _MAINTAIN_SECONDS:
            return
        self.maintain()

    def maintain(self) -> None:
        """Apply the retention of every topic and compact the topics of tables now."""
        self._maintained_at = time.monotonic()
        readers: dict[str, list[StreamEntry]] = {}
        for entry in self._catalog.streams():
            if isinstance(entry.options, LogOptions):
                readers.setdefault(entry.options.topic or entry.name, []).append(entry)
        for name, entries in readers.items():
            topic = self._log.topic(name)
            needed = [self._unread_from(entry, topic.start_offsets()) for entry in entries]
            unread = {p: min(offsets[p] for offsets in needed) for p in topic.start_offsets()}
            topic.retain(keep_from=unread)
            tables = [entry for entry in entries if entry.is_table]
            if tables and self._definitions.agree_on_compaction(tables):
                topic.compact(keep_from=unread)

    def _unread_from(self, entry: StreamEntry, start: Mapping[int, int]) -> dict[int, int]:
        """From where on the rows of a stream are still needed, by the stream itself or a view that catches up."""
        readers = [self._store.progress(entry.name) or Progress(offsets=start)]
        for plan in self._loop.plans():
            for part in plan.on_spark:
                behind = self._store.view_progress(part.name)
                if behind is not None and part.stream == entry.name:
                    readers.append(behind)
        return {p: min(reader.offsets.get(p, offset) for reader in readers) for p, offset in start.items()}

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop and let go of the data directory. Spark stays up for the next database."""
        if not self._open:
            return
        try:
            self.stop()
        finally:
            self._open = False
            _OPEN.discard(self)
            with self._loop.committed:
                self._loop.committed.notify_all()
            with self._loop.lock:
                self._held.close()

    def _close_sources(self) -> None:
        for entry in self._catalog.streams():
            if entry.source is not None:
                entry.source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            # What went wrong in the block matters more than what the background has to say.
            with contextlib.suppress(MillstreamError):
                self.close()

    def _check_open(self) -> None:
        if not self._open:
            raise MillstreamError("CLOSED", "the database is closed")

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    # -- for the statements and the command line -----------------------------------------------

    @property
    def catalog(self) -> Catalog:
        return self._catalog

    @property
    def definitions(self) -> Definitions:
        return self._definitions

    @property
    def functions(self) -> Functions:
        return self._functions

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def loop(self) -> EpochLoop:
        return self._loop

    @property
    def replacing(self) -> Replacing:
        return self._replacing

    @property
    def history(self) -> History:
        return self._history

    @property
    def store(self) -> DuckDBStore:
        return self._store

    @property
    def log(self) -> Log:
        return self._log

    def status(self) -> dict[str, Any]:
        """What is going on, in a few figures."""
        return {
            "directory": str(self._directory),
            "epoch": self._store.last_epoch(),
            "running": self._thread is not None,
            "failure": str(self._failure) if self._failure else None,
            "streams": len([e for e in self._catalog.streams() if not e.is_table]),
            "tables": len([e for e in self._catalog.streams() if e.is_table]),
            "views": len(self._catalog.views()),
            "pace": self._loop.pace.figures(),
        }


def _lock(directory: Path) -> int:
    """Own the directory, or say who does."""
    file = os.open(directory / "LOCK", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.read(file, 32).decode(errors="replace").strip()
        os.close(file)
        raise MillstreamError(
            "DATA_DIR_IN_USE",
            f"the data directory {directory} is in use",
            detail=f"by process {owner}" if owner else None,
            hint="one process owns a data directory: close the other one, or use another directory",
        ) from None
    os.ftruncate(file, 0)
    os.pwrite(file, str(os.getpid()).encode(), 0)
    return file
