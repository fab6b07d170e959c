"""The parts of a database: opened in order, let go of in reverse.

Owns the lock of the data directory and the life of log, store, readers and sources; and what the
catalog in the store says is opened again. What always holds: one process owns a directory, and where
a part cannot be opened, none stays open. Must not process rows: that is for `running`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
from pathlib import Path

from millstream.engine.define.catalog import Catalog, ViewEntry
from millstream.engine.define.definitions import Definitions
from millstream.engine.define.functions import Functions
from millstream.engine.define.replacing import Replacing
from millstream.engine.define.sinks import Sinks
from millstream.engine.run.backfill import History
from millstream.engine.run.delivery import Delivery
from millstream.engine.run.epochs import EpochLoop
from millstream.engine.run.parts import Parts
from millstream.engine.run.reads import Reader
from millstream.engine.run.turns import Turns
from millstream.log import Log
from millstream.model.errors import MillstreamError
from millstream.model.settings import EngineSettings
from millstream.model.time import Clock
from millstream.plan.compute import OpenCompute
from millstream.sql import parse_script
from millstream.sql.statements import CreateFunction, CreateSink, CreateStream, CreateTable, CreateView
from millstream.store.duckdb.store import DuckDBStore
from millstream.store.protocol import Store


def open_parts(directory: Path, clock: Clock, open_compute: OpenCompute, settings: EngineSettings) -> Parts:
    """Open the parts of the database in a directory, which is made if it is not there."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return _open(directory.absolute(), clock, open_compute, settings)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise MillstreamError(
            "DISK_FULL" if full else "BAD_PATH",
            f"{directory} cannot be a data directory",
            detail=": ".join(str(part) for part in (error.filename, error.strerror) if part),
            hint="free some space" if full else "pass a directory that this user may write",
        ) from None


def _open(directory: Path, clock: Clock, open_compute: OpenCompute, settings: EngineSettings) -> Parts:
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, _own(directory))
        compute = open_compute(directory)
        undo.callback(compute.close)
        if settings.eager_spark:
            # It starts while the rest is opened; the first epoch waits for it, not the caller.
            compute.begin()
        log = Log(directory / "log", clock)
        undo.callback(log.close)
        store = DuckDBStore(directory / "store.duckdb", settings.store_memory)
        undo.callback(store.close)
        catalog = Catalog()
        functions = Functions(
            store, compute, settings.function_modules, lambda: [view.statement for view in catalog.views()]
        )
        definitions = Definitions(catalog, store, log, clock, compute, directory, functions)
        present = Reader(compute.lane("present"))
        undo.callback(present.close)
        past = Reader(compute.lane("past"))
        undo.callback(past.close)
        beside = Reader(compute.lane("beside"))
        undo.callback(beside.close)
        loop = EpochLoop(catalog, store, clock, settings, definitions.plan, Turns(), threading.Condition(), present)
        replacing = Replacing(definitions, catalog, store)
        history = History(loop, replacing, past, beside)
        undo.callback(_close_sources, catalog)
        sinks = Sinks(catalog, store, log)
        delivery = Delivery(sinks, store, loop.committed)
        undo.callback(delivery.close)
        _restore(store, catalog, definitions, functions, replacing, sinks)
        return Parts(
            directory,
            clock,
            settings,
            catalog,
            log,
            store,
            compute,
            functions,
            definitions,
            loop,
            replacing,
            history,
            sinks,
            delivery,
            # From here on it is `close` that lets go of all this, in the same order.
            undo.pop_all(),
        )


def _own(directory: Path) -> int:
    """Lock a directory for this process, or say who has it."""
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


def _restore(
    store: Store,
    catalog: Catalog,
    definitions: Definitions,
    functions: Functions,
    replacing: Replacing,
    sinks: Sinks,
) -> None:
    """Open again what the statements in the store made."""
    for _, kind, text, incarnation in store.statements():
        (statement,) = parse_script(text)
        match statement:
            case CreateView() if kind == "successor":
                replacing.restore(statement)
            case CreateStream() | CreateTable():
                definitions.restore_stream(statement, incarnation)
            case CreateView():
                catalog.add(ViewEntry(statement, incarnation))
            case CreateFunction():
                functions.restore(statement)
            case CreateSink():
                sinks.restore(statement)
            case _:
                raise MillstreamError("STORE_FAILED", f"the catalog holds an unknown statement: {text}")
    catalog.arrange()
    definitions.holdings.sweep()


def _close_sources(catalog: Catalog) -> None:
    for entry in catalog.streams():
        # One that fails to close keeps no other open.
        with contextlib.suppress(Exception):
            entry.source.close()
