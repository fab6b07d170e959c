"""The database: what `ms.connect` returns.

Owns the Python surface. What is behind it has rooms of its own: `opening` opens what a
database consists of, `inserting` takes rows, `running` processes them, `statements` carries out
what SQL says. What always holds: a database that was closed answers nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Sequence
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from weakref import WeakSet

from millstream.api import Done, Lines, MessageIds, Outcome, Parameters, Rows, Starts, Status
from millstream.builder.origins import connected, connected_view
from millstream.builder.relations import Relation, View
from millstream.engine.define.catalog import ViewEntry
from millstream.engine.run.running import Running
from millstream.engine.run.upkeep import Upkeep
from millstream.engine.surface.gate import ClosedError, Gate
from millstream.engine.surface.inserting import Inserting
from millstream.engine.surface.looking import read_epochs
from millstream.engine.surface.opening import open_parts
from millstream.engine.surface.parameters import bind
from millstream.engine.surface.result import Result
from millstream.engine.surface.scripts import kept, place_stream
from millstream.engine.surface.statements import Statements
from millstream.engine.surface.status import is_caught_up, status_of
from millstream.engine.surface.subscription import Subscription
from millstream.engine.surface.topics import LogTopics
from millstream.model.errors import MillstreamError, MillstreamWarning
from millstream.model.settings import EngineSettings
from millstream.model.time import Clock, SystemClock
from millstream.plan.compute import OpenCompute
from millstream.sql import parse_script, parse_statement
from millstream.sql.statements import CreateFunction, CreateStream, Select, Statement

_NO_STARTS = Starts()
_OPEN: WeakSet[Database] = WeakSet()


_PATIENCE_SECONDS = 30.0
"""How long `close` waits for the calls of other threads."""

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


@atexit.register
def _close_all() -> None:
    """A program that ends without closing leaves nothing half done behind it."""
    for database in list(_OPEN):
        with contextlib.suppress(MillstreamError):
            database._close(ending=True)


def _call(
    method: Callable[Concatenate[Database, Arguments], Answer],
) -> Callable[Concatenate[Database, Arguments], Answer]:
    """A method that is refused once the database is closed, and that `close` waits for."""

    @wraps(method)
    def called(self: Database, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Answer:
        with self._gate.call(parks=True):
            return method(self, *arguments, **options)

    return called


class Database:
    """An embedded Millstream: the engine in this process, the data in a directory."""

    def __init__(
        self,
        directory: Path,
        open_compute: OpenCompute,
        *,
        clock: Clock | None = None,
        settings: EngineSettings | None = None,
    ) -> None:
        self._parts = open_parts(directory, clock or SystemClock(), open_compute, settings or EngineSettings())
        self._gate = Gate()
        self._inserting = Inserting(self._parts.catalog)
        self._upkeep = Upkeep(self._parts)
        self._running = Running(self._parts, self._upkeep)
        self._statements = Statements(
            self._parts, self._inserting, self._running.settle, self.subscribe, self._running.reconcile
        )
        self._parts.log.on_append(self._on_append)
        _OPEN.add(self)

    def _on_append(self, topic: str) -> None:
        # The threads hold the log, and the log this method: what runs is not collected, and is closed at exit.
        self._running.wake()

    # -- statements and queries ----------------------------------------------------------------

    @_call
    def execute(self, text: str, parameters: Parameters = (), *, source: str = "<sql>") -> list[Outcome]:
        """Run statements in order, up to the first error; one outcome per statement.

        SELECT, SHOW, DESCRIBE and EXPLAIN give a `Result`, SUBSCRIBE a `Subscription`, all others a `Done`.
        """
        statements = bind(parse_script(text, source), parameters, text, source)
        return [self._statements.run(statement, text, source) for statement in statements]

    @_call
    def run(self, statement: Statement, text: str, source: str) -> Outcome:
        """Run a statement that has been parsed already."""
        return self._statements.run(statement, text, source)

    @_call
    def apply(self, script: str, *, source: str = "<sql>", starts: Starts = _NO_STARTS) -> list[Outcome]:
        """Run a script that may have run before: a CREATE whose object is there unchanged is skipped.

        A CREATE that differs from its object is refused, unless it says OR REPLACE or IF NOT EXISTS. `starts` says
        where streams begin that were not read yet.
        """
        outcomes: list[Outcome] = []
        for statement in parse_script(script, source):
            notices: Sequence[str] = ()
            if isinstance(statement, CreateStream):
                statement, notices = place_stream(self._parts, statement, starts)
            outcome = kept(self._parts, statement) or self._statements.run(statement, script, source)
            if notices and isinstance(outcome, Done):
                outcome = dataclasses.replace(outcome, notices=(*notices, *outcome.notices))
            outcomes.append(outcome)
        return outcomes

    def sql(self, text: str, parameters: Parameters = (), *, source: str = "<sql>") -> Result | Subscription | None:
        """Run one or more statements; the result is that of the last one.

        SELECT, SHOW, DESCRIBE and EXPLAIN return a `Result`, SUBSCRIBE a `Subscription`, all others None. What is
        accepted and probably not meant is a `MillstreamWarning`.
        """
        outcomes = self.execute(text, parameters, source=source)
        for done in (outcome for outcome in outcomes if isinstance(outcome, Done)):
            for notice in done.notices:
                warnings.warn(f"{done.done} {done.name}: {notice}", MillstreamWarning, stacklevel=2)
        last = outcomes[-1] if outcomes else None
        return last if isinstance(last, Result | Subscription) else None

    @_call
    def query(self, text: str, parameters: Parameters = ()) -> Result:
        """The rows of one SELECT over views and tables, as of the last committed epoch."""
        statements = parse_script(text)
        if len(statements) != 1 or not isinstance(statements[0], Select):
            raise MillstreamError("NOT_A_QUERY", "query takes one SELECT", hint="use sql() for other statements")
        (statement,) = bind(statements, parameters, text, "<sql>")
        result = self._statements.run(statement, text, "<sql>")
        assert isinstance(result, Result)
        return result

    @_call
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
        columns = ", ".join(f"a{index} {type_}" for index, type_ in enumerate(arguments))
        text = f"CREATE FUNCTION `{name.replace('`', '``')}` ({columns}) RETURNS {returns}"
        statement = parse_statement(text)
        if not isinstance(statement, CreateFunction) or statement.source is not None:
            raise MillstreamError("BAD_FUNCTION", "the types of a function are written as in SQL", detail=text)
        parts = self._parts
        with parts.loop.lock:
            parts.definitions.create_function(dataclasses.replace(statement, or_replace=replace), function)
            parts.loop.reader.discard()

    @_call
    def insert(self, name: str, rows: Rows, *, message_ids: MessageIds | None = None) -> int:
        """Append rows to a stream or upsert them into a table; returns when they are durable.

        With `message_ids`, one a row, a row whose id was accepted before is dropped, so a retry
        after a failure adds nothing twice. Returns how many rows were accepted.
        """
        return self._inserting.insert(name, rows, message_ids)

    @_call
    def delete(self, name: str, keys: Rows, *, message_ids: MessageIds | None = None) -> int:
        """Delete rows of a table by primary key; returns when the deletions are durable.

        They take effect with the next epoch, in order with what is inserted. Rows name the key columns and,
        where the table has them, its sequence and the event time of versions. Returns how many were accepted.
        """
        return self._inserting.delete(name, keys, message_ids)

    @_call
    def insert_lines(self, name: str, lines: Lines, *, message_ids: MessageIds | None = None) -> int:
        """Append undecoded lines, in the stream's format, to its log; what is malformed becomes a dead letter."""
        return self._inserting.insert_lines(name, lines, message_ids)

    @property
    @_call
    def topics(self) -> LogTopics:
        """The log by topic, whether or not a stream reads it."""
        return LogTopics(self._parts.log)

    # -- changes and state ---------------------------------------------------------------------

    @_call
    def changes(
        self, view: str, since_epoch: int = 0, *, until_epoch: int | None = None, limit: int | None = None
    ) -> Result:
        """The changelog of a view after an epoch, up to and with another; 0 means from its beginning.

        With `limit`, whole epochs from the oldest on while they fit, and always at least one.
        """
        _check_epoch("since_epoch", since_epoch)
        if until_epoch is not None:
            _check_epoch("until_epoch", until_epoch)
        entry = self._parts.catalog.view(view)
        return self._changes(entry, since_epoch if since_epoch > 0 else -1, until_epoch, limit)

    def _changes(self, entry: ViewEntry, since: int, until: int | None = None, limit: int | None = None) -> Result:
        """The changelog of a view, of this one and not of another under its name."""
        with self._gate.call():
            try:
                found = self._parts.store.changes(entry.name, since, until, limit)
                result = Result(found, incarnation=entry.incarnation)
            except MillstreamError:
                self._check_there(entry)
                raise
            self._check_there(entry)
            return result

    def _check_there(self, entry: ViewEntry) -> None:
        with self._gate.call():
            if self._parts.catalog.has(entry):
                return
        raise MillstreamError(
            "UNKNOWN_VIEW",
            f"view {entry.name} was dropped",
            detail="a view that was created again under this name has a changelog of its own",
            hint="subscribe again to follow the view that has the name now",
        )

    @_call
    def epochs(self, since_epoch: int = 0) -> Result:
        """The records of the epochs after one, oldest first, with the columns of SHOW EPOCHS."""
        _check_epoch("since_epoch", since_epoch)
        return read_epochs(self._parts.store, since_epoch)

    @_call
    def subscribe(self, view: str, from_epoch: int = 0) -> Subscription:
        """The changes of a view from an epoch on, as they are committed; never a loss, never a repeat."""
        _check_epoch("from_epoch", from_epoch)
        entry = self._parts.catalog.view(view)
        return Subscription(
            entry.incarnation,
            partial(self._changes, entry),
            partial(self._check_there, entry),
            self._last_epoch,
            self._parts.loop.committed,
            lambda: self._gate.is_open,
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
        self._gate.check()
        return self._running.drain()

    def warm_up(self) -> None:
        """Start Spark, unless it is there, and wait for it. Statements do so themselves."""
        self._gate.check()
        self._parts.compute.warm_up()

    def wait_for_epoch(self, after: int, timeout_seconds: float) -> int:
        """Wait until an epoch later than `after` is committed, or the time is over; returns the last epoch."""
        with self._gate.call(parks=True):
            committed = self._parts.loop.committed
        with committed:
            committed.wait_for(lambda: self._last_epoch() > after or not self._gate.is_open, timeout_seconds)
        self._gate.check()
        return self._last_epoch()

    def _last_epoch(self) -> int:
        """The last epoch; -1 once the database is closed."""
        with contextlib.suppress(ClosedError), self._gate.call():
            return self._parts.store.last_epoch()
        return -1

    @_call
    def is_caught_up(self) -> bool:
        """Whether `drain` would find no row to read, as far as sources can tell. Starts no Spark job."""
        return is_caught_up(self._parts)

    def start(self) -> None:
        """Process continuously, in the background."""
        self._gate.check()
        self._running.start()

    def stop(self) -> None:
        """Stop processing; the epoch under way is finished first."""
        if self._gate.is_open:
            self._running.stop()

    @_call
    def maintain(self) -> None:
        """Apply all retention and compact the topics of tables now."""
        self._upkeep.run()

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop, wait for calls of other threads, release the data directory. Spark stays up for the next database."""
        self._close(ending=False)

    def _close(self, *, ending: bool) -> None:
        if not self._gate.shut(ending=ending):
            return
        _OPEN.discard(self)
        try:
            self._running.stop()
        finally:
            with self._parts.loop.committed:
                self._parts.loop.committed.notify_all()
            self._gate.wait(_PATIENCE_SECONDS)
            self._parts.close()
            # A thread that never ends may hold this object until the process is gone: nothing of DuckDB hangs on it.
            del self._parts, self._inserting, self._upkeep, self._running, self._statements

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

    @_call
    def status(self) -> Status:
        """What is going on, in figures."""
        return status_of(self._parts, self._running)


def _check_epoch(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise MillstreamError("BAD_OPTION", f"{name} is the number of an epoch, got {type(value).__name__}")
