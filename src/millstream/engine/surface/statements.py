"""Running statements, and the outcome of each: one case per kind.

What always holds: a statement has one outcome, and a refused statement has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isinf
from typing import cast, get_args

from sqlglot import exp

from millstream.api import Done, Effect, Outcome, Subscription
from millstream.engine.define.catalog import ViewEntry
from millstream.engine.define.tables import dated, deciding_columns, find_table, select_keys
from millstream.engine.run.parts import Parts
from millstream.engine.surface.inserting import Inserting
from millstream.engine.surface.looking import Looking
from millstream.engine.surface.result import Result
from millstream.engine.surface.selecting import Selecting
from millstream.model.errors import MillstreamError, did_you_mean, place_of
from millstream.model.settings import EngineSettings, Kernel
from millstream.sql import position_of
from millstream.sql.statements import (
    CreateFunction,
    CreateSink,
    CreateStream,
    CreateTable,
    CreateView,
    Delete,
    Describe,
    Drop,
    Explain,
    Insert,
    Rebuild,
    Select,
    SetOption,
    Show,
    ShowCreate,
    Statement,
    Subscribe,
)

_MADE: tuple[Effect, ...] = ("created", "replaced")


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of one database."""

    parts: Parts
    inserting: Inserting
    settle: Callable[[CreateView], None]
    """Finishes pending replacements of the views that a new view reads."""
    subscribe: Callable[[str, int], Subscription]
    reconcile: Callable[[], None]
    """Starts the streaming queries of new streams and stops those of dropped ones, if the database runs."""

    def run(self, statement: Statement, text: str, source: str) -> Outcome:
        looking = Looking(self.parts, Selecting(self.parts))
        match statement:
            case Select(query):
                return Result(*Selecting(self.parts).select(query, text, source))
            case Subscribe(name, from_epoch):
                return self.subscribe(self.parts.catalog.view(name, statement.position).name, from_epoch)
            case Show():
                return looking.show(statement)
            case ShowCreate():
                return looking.show_create(statement)
            case Describe():
                return looking.describe(statement)
            case Explain():
                return looking.explain(statement, text, source)
            case Insert():
                return self._insert(statement, text, source)
            case Delete():
                return self._delete(statement, text, source)
            case SetOption():
                self._set(statement)
                return Done("SET", "altered", statement.name)
            case _:
                done = self._define(statement)
                if isinstance(statement, CreateStream | CreateTable | Drop) and done.effect != "absent":
                    # Not in a turn: the batch of a query may wait for its own.
                    self.reconcile()
                return replace(done, notices=self._notices(statement)) if done.effect in _MADE else done

    # -- definitions ---------------------------------------------------------------------------

    def _define(
        self, statement: CreateStream | CreateTable | CreateView | CreateFunction | CreateSink | Rebuild | Drop
    ) -> Done:
        """Change what exists, at an epoch boundary."""
        parts = self.parts
        if isinstance(statement, CreateView):
            self.settle(statement)
        with parts.loop.lock:
            known = parts.catalog.find(statement.name)
            name = known.name if known is not None else statement.name
            match statement:
                case CreateStream():
                    parts.definitions.create_stream(statement)
                    return Done("CREATE STREAM", _created(statement, known is not None), name)
                case CreateTable():
                    parts.definitions.create_stream(statement)
                    return Done("CREATE TABLE", _created(statement, known is not None), name)
                case CreateView():
                    self._create_view(statement)
                    return Done("CREATE MATERIALIZED VIEW", _created(statement, known is not None), name)
                case CreateFunction():
                    existed = parts.functions.find(statement.name) is not None
                    parts.definitions.create_function(statement, None)
                    parts.loop.reader.discard()
                    return Done("CREATE FUNCTION", _created(statement, existed), statement.name)
                case CreateSink():
                    sink = parts.sinks.create(statement, parts.clock.now())
                    if sink is not None:
                        parts.delivery.add(sink)
                    return Done("CREATE SINK", "created" if sink is not None else "kept", statement.name)
                case Rebuild():
                    parts.replacing.rebuild(statement)
                    return Done("ALTER MATERIALIZED VIEW", "altered", name)
                case Drop(kind="function"):
                    dropped = parts.functions.drop(statement)
                    return Done("DROP FUNCTION", "dropped" if dropped else "absent", statement.name)
                case Drop(kind="sink"):
                    return Done("DROP SINK", "dropped" if self._drop_sink(statement) else "absent", statement.name)
                case Drop(kind=kind):
                    dropped = parts.definitions.drop(statement)
                    return Done(f"DROP {kind.upper()}", "dropped" if dropped else "absent", name)

    def _notices(self, statement: Statement) -> tuple[str, ...]:
        """What to say about a definition that is valid and yet probably not meant."""
        match statement:
            case CreateStream() | CreateTable():
                return self.parts.catalog.stream(statement.name).options.notices()
            case CreateView(query=exp.Query() as query) if query.args.get("order") and not query.args.get("limit"):
                return ("the rows of a view have no order: add LIMIT, or write ORDER BY where the view is read",)
        return ()

    def _create_view(self, create: CreateView) -> None:
        parts = self.parts
        parts.replacing.check_settled(create)
        if create.or_replace and isinstance(entry := parts.catalog.find(create.name), ViewEntry):
            parts.replacing.replace(create)
            if parts.replacing.is_ready(entry):
                # There is nothing to read for it.
                parts.history.swap(entry)
        else:
            parts.definitions.create_view(create)

    def _drop_sink(self, drop: Drop) -> bool:
        entry = self.parts.sinks.find(drop)
        if entry is not None:
            self.parts.delivery.remove(entry)
            self.parts.sinks.drop(entry)
        return entry is not None

    # -- settings ------------------------------------------------------------------------------

    def _set(self, option: SetOption) -> None:
        parts = self.parts
        match option.name:
            case "kernel" if option.value in get_args(Kernel):
                parts.compute.use_kernel(cast("Kernel", option.value))
            case "kernel":
                raise _bad_setting(option, f"one of {', '.join(repr(value) for value in get_args(Kernel))}")
            case "target_latency":
                target = None if option.value == "none" else option.value
                try:
                    settings = EngineSettings(target_latency=target)
                except MillstreamError:
                    raise _bad_setting(option, "a duration such as '500 ms', or 'none'") from None
                parts.loop.aim_at(settings.target_latency)
            case _:
                raise MillstreamError(
                    "UNKNOWN_SETTING",
                    f"there is no setting {option.name!r}",
                    hint=did_you_mean(option.name, ["kernel", "target_latency"]),
                    position=option.position,
                )

    # -- rows ----------------------------------------------------------------------------------

    def _insert(self, insert: Insert, text: str, source: str) -> Done:
        entry = self.parts.catalog.stream(insert.target, insert.position)
        schema = entry.stream.schema
        names = list(insert.columns or schema.names())
        for name in names:
            if schema.find(name) is None:
                raise MillstreamError(
                    "UNKNOWN_COLUMN",
                    f"{entry.name} has no column {name!r}",
                    hint=did_you_mean(name, (n.lower() for n in schema.names())),
                    position=place_of(name, insert.position),
                )
        _check_numbers(insert.query, text, source)
        rows, _ = Selecting(self.parts).select(insert.query, text, source)
        if rows.num_columns != len(names):
            raise MillstreamError(
                "BAD_INSERT",
                f"{len(names)} columns are named, but the rows have {rows.num_columns}",
                position=insert.position,
            )
        accepted = self.inserting.insert_into(entry, rows.rename_columns(names))
        return Done("INSERT", "inserted", entry.name, accepted)

    def _delete(self, delete: Delete, text: str, source: str) -> Done:
        """Append the keys of the rows that the last committed epoch has and the condition holds of."""
        entry = find_table(self.parts.catalog, delete.target, delete.position)
        keys, _ = Selecting(self.parts).select(select_keys(entry.stream, delete.query), text, source)
        keys = keys.rename_columns(list(deciding_columns(entry.stream)))
        progress = self.parts.store.progress(entry.name)
        accepted = self.inserting.delete_from(entry, dated(entry.stream, keys, progress))
        return Done("DELETE", "deleted", entry.name, accepted)


def _created(create: CreateStream | CreateTable | CreateView | CreateFunction, existed: bool) -> Effect:
    if not existed:
        return "created"
    return "replaced" if create.or_replace else "kept"


def _check_numbers(query: exp.Query, text: str, source: str) -> None:
    """Refuse a literal beyond DOUBLE, which the store would take for an infinity."""
    for literal in query.find_all(exp.Literal):
        if literal.is_number and isinf(float(literal.this)):
            raise MillstreamError(
                "TYPE_MISMATCH",
                f"the number {literal.this} is too large for a DOUBLE",
                hint="write 'Infinity' if that is meant",
                position=position_of(literal, text, source),
            )


def _bad_setting(option: SetOption, hint: str) -> MillstreamError:
    return MillstreamError(
        "BAD_SETTING", f"{option.name} cannot be {option.value!r}", hint=hint, position=option.position
    )
