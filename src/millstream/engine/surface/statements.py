"""Carrying out statements: one function per kind."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast, get_args

import pyarrow as pa
from sqlglot import exp

from millstream.duck import store_sql, with_truths
from millstream.engine.define.catalog import StreamEntry, ViewEntry
from millstream.engine.define.replacing import SUCCESSOR
from millstream.engine.define.tables import column_notes, dated, deciding_columns, find_table, select_keys
from millstream.engine.surface.as_of import read_as_of
from millstream.engine.surface.notes import completeness_words, event_time_words, slack_words
from millstream.engine.surface.result import Result
from millstream.engine.surface.subscription import Subscription
from millstream.model.errors import MillstreamError, did_you_mean, place_of
from millstream.model.schema import TIMESTAMP, sql_type
from millstream.model.settings import EngineSettings, Kernel
from millstream.model.time import to_datetime
from millstream.plan.explain import explain_plan, some
from millstream.plan.identities import identity
from millstream.plan.nodes import AggregateView, QueryView, Stream, TopView, View
from millstream.plan.windows import Window
from millstream.sql import check_query, position_of, render
from millstream.sql.statements import (
    CreateFunction,
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
from millstream.store.protocol import BEGINNING

if TYPE_CHECKING:
    from millstream.engine.surface.database import Database


class Statements:
    """The statements of one database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def run(self, statement: Statement, text: str, source: str) -> Result | Subscription | None:
        db = self._db
        match statement:
            case CreateStream():
                with db.loop.lock:
                    db.definitions.create_stream(statement)
            case CreateTable():
                with db.loop.lock:
                    db.definitions.create_table(statement)
            case CreateView():
                db.settle(statement)
                with db.loop.lock:
                    self._create_view(statement)
            case Rebuild():
                with db.loop.lock:
                    db.replacing.rebuild(statement)
            case CreateFunction():
                with db.loop.lock:
                    db.functions.create(statement, None, db.clock.now())
            case Drop(kind="function"):
                with db.loop.lock:
                    db.functions.drop(statement)
            case Drop():
                with db.loop.lock:
                    db.definitions.drop(statement)
            case Insert():
                self._insert(statement, text, source)
            case Delete():
                self._delete(statement, text, source)
            case Select(query):
                return Result(self._select(query, text, source))
            case Subscribe(name, from_epoch):
                return db.subscribe(db.catalog.view(name, statement.position).name, from_epoch)
            case SetOption():
                self._set(statement)
            case Show():
                return self._show(statement)
            case ShowCreate():
                return self._show_create(statement)
            case Describe():
                return self._describe(statement)
            case Explain():
                return self._explain(statement, text, source)
        return None

    def _set(self, option: SetOption) -> None:
        match option.name:
            case "kernel" if option.value in get_args(Kernel):
                self._db.use_kernel(cast("Kernel", option.value))
            case "kernel":
                raise _bad_setting(option, f"one of {', '.join(repr(value) for value in get_args(Kernel))}")
            case "target_latency":
                target = None if option.value == "none" else option.value
                try:
                    settings = EngineSettings(target_latency=target)
                except MillstreamError:
                    raise _bad_setting(option, "a duration such as '500 ms', or 'none'") from None
                self._db.loop.aim_at(settings.target_latency)
            case _:
                raise MillstreamError(
                    "UNKNOWN_SETTING",
                    f"there is no setting {option.name!r}",
                    hint=did_you_mean(option.name, ["kernel", "target_latency"]),
                    position=option.position,
                )

    def _create_view(self, create: CreateView) -> None:
        db = self._db
        db.replacing.check_settled(create)
        if create.or_replace and isinstance(entry := db.catalog.find(create.name), ViewEntry):
            db.replacing.replace(create)
            if db.replacing.is_ready(entry):
                # There is nothing to read for it.
                db.history.swap(entry)
        else:
            db.definitions.create_view(create)

    # -- reading -------------------------------------------------------------------------------

    def _select(self, query: exp.Query, text: str, source: str, *, describe: bool = False) -> pa.Table:
        """Check a query and run it in the store, as of the last committed epoch; or only describe its result."""
        functions = self._db.functions
        check_query(query, text=text, source=source, continuous=False, udfs=functions.names())
        readable = self._db.catalog.readable()
        query = functions.bind(query.copy(), text, source)
        defined = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
        for table in query.find_all(exp.Table):
            name = table.name.lower()
            if name in readable:
                table.set("this", exp.to_identifier(readable[name], quoted=True))
            elif name not in defined and table.name:
                entry = self._db.catalog.find(table.name)
                known = isinstance(entry, StreamEntry)
                raise MillstreamError(
                    "STREAM_NOT_READABLE" if known else "UNKNOWN_RELATION",
                    f"{table.name} is a stream: its rows pass by and are not kept"
                    if known
                    else f"there is no view or table {table.name!r}",
                    hint="create a view over it and read that" if known else did_you_mean(table.name, readable),
                    position=position_of(table, text, source),
                )
        read_as_of(query, self._db.catalog, text, source)
        try:
            return self._db.store.query(f"{'DESCRIBE ' if describe else ''}{store_sql(with_truths(query))}")
        except MillstreamError as error:
            raise _located(error, query, text, source) from None

    def _insert(self, insert: Insert, text: str, source: str) -> None:
        entry = self._db.catalog.stream(insert.target, insert.position)
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
        rows = self._select(insert.query, text, source)
        if rows.num_columns != len(names):
            raise MillstreamError(
                "BAD_INSERT",
                f"{len(names)} columns are named, but the rows have {rows.num_columns}",
                position=insert.position,
            )
        table = rows.rename_columns(names)
        arrays = [table.column(i) for i in range(table.num_columns)]
        fixed = [_loosely(array, schema.find(name).type) for array, name in zip(arrays, names, strict=True)]  # type: ignore[union-attr]
        self._db.insert(entry.name, pa.table(fixed, names=names))

    def _delete(self, delete: Delete, text: str, source: str) -> None:
        """Append the keys of the rows that the last committed epoch has and the condition holds of."""
        entry = find_table(self._db.catalog, delete.target, delete.position)
        keys = self._select(select_keys(entry.stream, delete.query), text, source)
        keys = keys.rename_columns(list(deciding_columns(entry.stream)))
        self._db.delete(entry.name, dated(entry.stream, keys, self._db.store.progress(entry.name)))

    # -- looking -------------------------------------------------------------------------------

    def _show(self, show: Show) -> Result:
        catalog = self._db.catalog
        match show.what:
            case "streams":
                rows = [self._stream_row(e) for e in catalog.streams() if not e.is_table]
                return _result(rows, {"name": str, "source": str, "watermark": datetime, "slack": str, "position": int})
            case "tables":
                tables = [e for e in catalog.streams() if e.is_table]
                rows = [{"name": e.name, "primary_key": ", ".join(e.stream.primary_key)} for e in tables]
                return _result(rows, {"name": str, "primary_key": str})
            case "views":
                rows = [
                    {
                        "name": v.name,
                        "stream": ", ".join(sorted(plan.reads())),
                        "emit": _emit_words(plan.view),
                        "state": self._db.history.state(v),
                        "statement": render(v.statement),
                    }
                    for v in catalog.views()
                    for plan in [self._db.definitions.plan(v)]
                ]
                return _result(rows, {"name": str, "stream": str, "emit": str, "state": str, "statement": str})
            case "sinks":
                return _result([], {"name": str})
            case "functions":
                columns = ("name", "arguments", "returns", "source", "status")
                return _result(self._db.functions.rows(), dict.fromkeys(columns, str))
            case "epochs":
                return Result(self._db.store.query(_EPOCHS))

    def _stream_row(self, entry: StreamEntry) -> dict[str, Any]:
        progress = self._db.store.progress(entry.name)
        watermark = progress.watermark if progress else BEGINNING
        return {
            "name": entry.name,
            "source": entry.options.source,
            "watermark": None if watermark == BEGINNING else to_datetime(watermark),
            "slack": slack_words(entry.stream, progress),
            "position": sum(progress.offsets.values()) if progress else 0,
        }

    def _show_create(self, show: ShowCreate) -> Result:
        entry = self._db.catalog.find(show.name) or self._db.functions.find(show.name)
        if entry is None:
            raise self._unknown(show.name, show.position)
        return _result([{"statement": render(entry.statement)}], {"statement": str})

    def _describe(self, describe: Describe) -> Result:
        db = self._db
        entry = db.catalog.find(describe.name)
        if isinstance(entry, StreamEntry) and not entry.is_table:
            stream = entry.stream
            rows = [
                {
                    "column": c.name,
                    "type": sql_type(c.type),
                    "note": event_time_words(stream, db.store.progress(entry.name))
                    if c.name == stream.event_time
                    else None,
                }
                for c in stream.schema.columns
            ]
            return _result(rows, {"column": str, "type": str, "note": str})
        name = entry.name if entry is not None else db.catalog.readable().get(describe.name.lower())
        if name is None:
            raise self._unknown(describe.name, describe.position)
        keys: set[str] = set()
        others: dict[str, str] = {}
        if isinstance(entry, StreamEntry):
            keys, others = set(entry.stream.primary_key), column_notes(entry.stream)
        elif isinstance(entry, ViewEntry):
            keys = set(identity(db.definitions.plan(entry).view))
        rows = [
            {
                "column": field.name,
                "type": sql_type(field.type),
                "note": "key" if field.name in keys else others.get(field.name),
            }
            for field in db.store.columns(name)
        ]
        if isinstance(entry, ViewEntry):
            rows += self._completeness(entry)
        return _result(rows, {"column": str, "type": str, "note": str})

    def _completeness(self, entry: ViewEntry) -> list[dict[str, Any]]:
        """A line about the windows of a view, where the watermark closes them."""
        store, parts = self._db.store, self._db.definitions.plan(entry).on_spark
        windowed = [
            part
            for part in parts
            if isinstance(part.window, Window) and not part.window.on_clock and part.windows_close
        ]
        if not windowed:
            return []
        words = completeness_words([store.completeness(part) for part in windowed])
        return [{"column": "(completeness)", "type": None, "note": words}]

    def _explain(self, explain: Explain, text: str, source: str) -> Result:
        db = self._db
        match explain.target:
            case str(name):
                plan = db.definitions.plan(db.catalog.view(name, explain.position))
            case CreateView() as create:
                plan = db.definitions.plan_statement(create)
            case Select(query):
                self._select(query, text, source, describe=True)
                lines = [
                    "query",
                    "  in the store, over one committed epoch",
                    f"    {query.sql(dialect='spark')}",
                ]
                return _result([{"plan": line} for line in lines], {"plan": str})
        streams = {name: db.catalog.stream(name).stream for name in plan.streams}
        slacks = {name: slack_words(stream, db.store.progress(name)) for name, stream in streams.items()}
        kernels = {part.name: self._kernel_words(part, streams[part.stream]) for part in plan.on_spark}
        kept_with: dict[str, list[str]] = {}
        if isinstance(explain.target, str):
            names = {part.name: db.store.kept_with(part.name) for part in plan.on_spark}
            kept_with = {part: [n for n in others if not n.endswith(SUCCESSOR)] for part, others in names.items()}
        # What was only explained is not kept.
        db.definitions.tidy_forms()
        lines = explain_plan(plan, streams, slacks, kernels, kept_with)
        return _result([{"plan": line} for line in lines], {"plan": str})

    def _kernel_words(self, part: View, stream: Stream) -> list[str]:
        """What computes the delta of a part, why, and with what other parts."""
        db = self._db
        partners = db.loop.reader.sharing(part, stream, db.loop.plans_of(db.catalog.stream(stream.name)))
        if isinstance(partners, str):
            return [f"kernel: Spark SQL, because {partners}"]
        return ["kernel: native", *([f"  shares its aggregation with {some(partners)}"] if partners else [])]

    def _unknown(self, name: str, position: Any) -> MillstreamError:
        known = [entry.name.lower() for entry in self._db.catalog]
        return MillstreamError(
            "UNKNOWN_RELATION", f"there is no {name!r}", hint=did_you_mean(name, known), position=position
        )


_EPOCHS = """
SELECT epoch, make_timestamp(committed_at) AS committed_at, rows_in, rows_decoded, rows_dead, rows_used,
       rows_filtered, rows_late, rows_failed, offsets, watermarks, streams, views, timings
FROM ms.epochs ORDER BY epoch
"""

_ARROW = {str: pa.string(), int: pa.int64(), datetime: TIMESTAMP}


def _bad_setting(option: SetOption, hint: str) -> MillstreamError:
    return MillstreamError(
        "BAD_SETTING", f"{option.name} cannot be {option.value!r}", hint=hint, position=option.position
    )


def _result(rows: list[dict[str, Any]], columns: dict[str, type]) -> Result:
    schema = pa.schema([(name, _ARROW[type_]) for name, type_ in columns.items()])
    return Result(pa.Table.from_pylist(rows, schema=schema))


def _emit_words(plan: Any) -> str:
    if isinstance(plan, QueryView | TopView):
        return "on epoch"
    if not isinstance(plan, AggregateView):
        return "each row once"
    return "on epoch" if plan.trigger.is_live else "by trigger"


def _located(error: MillstreamError, query: exp.Query, text: str, source: str) -> MillstreamError:
    """The store's complaint about a column, pointing at it in the user's text."""
    missing = re.search(r'column "([^"]+)" not found', error.message, re.IGNORECASE)
    if missing is None:
        return error
    name = missing.group(1)
    node = next((c for c in query.find_all(exp.Column) if c.name.lower() == name.lower()), None)
    return MillstreamError(
        "UNKNOWN_COLUMN",
        f"there is no column {name!r} here",
        hint="see DESCRIBE for the columns of a view",
        position=position_of(node, text, source) if node is not None else None,
    )


def _loosely(array: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """Literals of SQL come in types of their own: bring them to the column's where nothing is lost."""
    if pa.types.is_timestamp(type_) and pa.types.is_timestamp(array.type):
        return array.cast(pa.timestamp("us", array.type.tz)).cast(type_)
    if pa.types.is_decimal(array.type) and pa.types.is_floating(type_):
        # Arrow's own cast is off in the last bit.
        return pa.chunked_array([pa.array([None if v is None else float(v) for v in array.to_pylist()], type_)])
    return array
