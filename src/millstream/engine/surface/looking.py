"""SHOW, DESCRIBE and EXPLAIN: what exists, and how it runs.

What always holds: looking changes nothing, and starts Spark only where a plan has to be made.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa

from millstream.engine.define.catalog import SUCCESSOR, SinkEntry, StreamEntry, ViewEntry
from millstream.engine.define.tables import column_notes
from millstream.engine.run.health import stream_error
from millstream.engine.run.parts import Parts
from millstream.engine.surface.notes import completeness_words, event_time_words, slack_words
from millstream.engine.surface.result import Result
from millstream.engine.surface.selecting import Selecting
from millstream.model.errors import MillstreamError, did_you_mean
from millstream.model.progress import BEGINNING
from millstream.model.schema import TIMESTAMP, sql_type
from millstream.model.time import to_datetime
from millstream.plan.explain import explain_plan, some
from millstream.plan.identities import identity
from millstream.plan.nodes import AggregateView, QueryView, Stream, TopView, View
from millstream.plan.windows import Window
from millstream.sql import render
from millstream.sql.statements import CreateView, Describe, Explain, Select, Show, ShowCreate
from millstream.store.protocol import Store


def sink_row(parts: Parts, entry: SinkEntry) -> dict[str, Any]:
    """A sink and how far it is; the lag is in epochs."""
    return {
        "name": entry.name,
        "view": entry.view,
        "connector": entry.options.connector,
        "guarantee": entry.connector.guarantee,
        "state": "failing" if entry.failure is not None else "live",
        "epoch": max(entry.delivered.epoch, 0),
        "lag": parts.store.last_epoch() - max(entry.reached, 0),
        "error": str(entry.failure) if entry.failure is not None else None,
    }


def source_state(parts: Parts, entry: StreamEntry) -> dict[str, str | None]:
    """Whether a source brings its rows, and why it does not."""
    error = stream_error(parts.loop.health, entry)
    return {"state": "live", "error": None} if error is None else {"state": "failing", "error": str(error)}


class Looking:
    """The statements that describe a database."""

    def __init__(self, parts: Parts, selecting: Selecting) -> None:
        self._parts = parts
        self._selecting = selecting

    def show(self, show: Show) -> Result:
        catalog = self._parts.catalog
        match show.what:
            case "streams":
                rows = [self._stream_row(e) for e in catalog.streams() if not e.is_table]
                progress = {"watermark": datetime, "slack": str, "position": int}
                return _result(rows, {"name": str, "source": str, **progress, "state": str, "error": str})
            case "tables":
                tables = [e for e in catalog.streams() if e.is_table]
                rows = [{"name": e.name, "primary_key": ", ".join(e.stream.primary_key)} for e in tables]
                return _result(rows, {"name": str, "primary_key": str})
            case "views":
                rows = [
                    {
                        "name": v.name,
                        "stream": ", ".join(sorted(self._parts.definitions.reads(v))),
                        "emit": _emit_words(plan.view) if plan is not None else None,
                        "state": self._parts.history.state(v),
                        "statement": render(v.statement),
                    }
                    for v in catalog.views()
                    for plan in [self._parts.definitions.planned(v)]
                ]
                return _result(rows, {"name": str, "stream": str, "emit": str, "state": str, "statement": str})
            case "sinks":
                words = dict.fromkeys(("name", "view", "connector", "guarantee", "state"), str)
                rows = [sink_row(self._parts, sink) for sink in catalog.sinks.values()]
                return _result(rows, {**words, "epoch": int, "lag": int, "error": str})
            case "functions":
                columns = ("name", "arguments", "returns", "source", "status")
                return _result(self._parts.functions.rows(), dict.fromkeys(columns, str))
            case "epochs":
                return read_epochs(self._parts.store, 0)

    def _stream_row(self, entry: StreamEntry) -> dict[str, Any]:
        progress = self._parts.store.progress(entry.name)
        watermark = progress.watermark if progress else BEGINNING
        return {
            "name": entry.name,
            "source": entry.options.source,
            "watermark": None if watermark == BEGINNING else to_datetime(watermark),
            "slack": slack_words(entry.stream, progress),
            "position": sum(progress.offsets.values()) if progress else 0,
            **source_state(self._parts, entry),
        }

    def show_create(self, show: ShowCreate) -> Result:
        catalog, name = self._parts.catalog, show.name
        entry = catalog.find(name) or self._parts.functions.find(name) or catalog.sinks.get(name.lower())
        if entry is None:
            raise self._unknown(show.name, show.position)
        return _result([{"statement": render(entry.statement)}], {"statement": str})

    def describe(self, describe: Describe) -> Result:
        parts = self._parts
        entry = parts.catalog.find(describe.name)
        if isinstance(entry, StreamEntry) and not entry.is_table:
            stream = entry.stream
            rows = [
                {
                    "column": c.name,
                    "type": sql_type(c.type),
                    "note": event_time_words(stream, parts.store.progress(entry.name))
                    if c.name == stream.event_time
                    else None,
                }
                for c in stream.schema.columns
            ]
            return _result(rows, {"column": str, "type": str, "note": str})
        name = entry.name if entry is not None else parts.catalog.readable().get(describe.name.lower())
        if name is None:
            raise self._unknown(describe.name, describe.position)
        keys: set[str] = set()
        others: dict[str, str] = {}
        if isinstance(entry, StreamEntry):
            keys, others = set(entry.stream.primary_key), column_notes(entry.stream)
        elif isinstance(entry, ViewEntry):
            keys = set(identity(parts.definitions.plan(entry).view))
        rows = [
            {
                "column": field.name,
                "type": sql_type(field.type),
                "note": "key" if field.name in keys else others.get(field.name),
            }
            for field in parts.store.columns(name)
        ]
        if isinstance(entry, ViewEntry):
            rows += self._completeness(entry)
        return _result(rows, {"column": str, "type": str, "note": str})

    def _completeness(self, entry: ViewEntry) -> list[dict[str, Any]]:
        """A line about the windows of a view, where the watermark closes them."""
        store, parts = self._parts.store, self._parts.definitions.plan(entry).on_spark
        windowed = [
            part
            for part in parts
            if isinstance(part.window, Window) and not part.window.on_clock and part.windows_close
        ]
        if not windowed:
            return []
        words = completeness_words([store.completeness(part) for part in windowed])
        return [{"column": "(completeness)", "type": None, "note": words}]

    def explain(self, explain: Explain, text: str, source: str) -> Result:
        parts = self._parts
        match explain.target:
            case str(name):
                plan = parts.definitions.plan(parts.catalog.view(name, explain.position))
            case CreateView() as create:
                plan = parts.definitions.plan_statement(create)
            case Select(query):
                self._selecting.describe(query, text, source)
                lines = [
                    "query",
                    "  in the store, over one committed epoch",
                    f"    {query.sql(dialect='spark')}",
                ]
                return _result([{"plan": line} for line in lines], {"plan": str})
        streams = {name: parts.catalog.stream(name).stream for name in plan.streams}
        slacks = {name: slack_words(stream, parts.store.progress(name)) for name, stream in streams.items()}
        kernels = {part.name: self._kernel_words(part, streams[part.stream]) for part in plan.on_spark}
        kept_with: dict[str, list[str]] = {}
        if isinstance(explain.target, str):
            names = {part.name: parts.store.kept_with(part.name) for part in plan.on_spark}
            kept_with = {part: [n for n in others if not n.endswith(SUCCESSOR)] for part, others in names.items()}
        # What was only explained is not kept.
        parts.definitions.tidy_forms()
        lines = explain_plan(plan, streams, slacks, kernels, kept_with)
        return _result([{"plan": line} for line in lines], {"plan": str})

    def _kernel_words(self, part: View, stream: Stream) -> list[str]:
        """What computes the delta of a part, why, and with what other parts."""
        parts = self._parts
        partners = parts.compute.sharing(part, stream, parts.loop.plans_of(parts.catalog.stream(stream.name)))
        if isinstance(partners, str):
            return [f"kernel: Spark SQL, because {partners}"]
        return ["kernel: native", *([f"  shares its aggregation with {some(partners)}"] if partners else [])]

    def _unknown(self, name: str, position: Any) -> MillstreamError:
        known = [entry.name.lower() for entry in self._parts.catalog]
        return MillstreamError(
            "UNKNOWN_RELATION", f"there is no {name!r}", hint=did_you_mean(name, known), position=position
        )


def read_epochs(store: Store, since: int) -> Result:
    """The records of the epochs after one."""
    return Result(store.epochs(since))


_ARROW = {str: pa.string(), int: pa.int64(), datetime: TIMESTAMP}


def _result(rows: list[dict[str, Any]], columns: dict[str, type]) -> Result:
    schema = pa.schema([(name, _ARROW[type_]) for name, type_ in columns.items()])
    return Result(pa.Table.from_pylist(rows, schema=schema))


def _emit_words(plan: Any) -> str:
    if isinstance(plan, QueryView | TopView):
        return "on epoch"
    if not isinstance(plan, AggregateView):
        return "each row once"
    return "on epoch" if plan.trigger.is_live else "by trigger"
