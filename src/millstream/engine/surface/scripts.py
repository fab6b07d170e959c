"""Running a script again: `Database.apply`.

Owns the rule that makes a script repeatable. A CREATE whose object exists with the same definition is skipped,
with another definition it is refused. Definitions are compared by their canonical text.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace

from millstream.api import Done, Starts
from millstream.engine.define.catalog import Entry, StreamEntry, ViewEntry
from millstream.engine.define.definitions import as_said
from millstream.engine.run.parts import Parts
from millstream.model.errors import MillstreamError
from millstream.sources import SOURCES
from millstream.sql import render
from millstream.sql.statements import CreateSink, CreateStream, CreateTable, CreateView, Statement

_CREATES = {
    CreateStream: "CREATE STREAM",
    CreateTable: "CREATE TABLE",
    CreateView: "CREATE MATERIALIZED VIEW",
}
Create = CreateStream | CreateTable | CreateView


def kept(parts: Parts, statement: Statement) -> Done | None:
    """The outcome of a CREATE that asks for what exists already; another definition is refused."""
    if isinstance(statement, CreateSink):
        return _kept_sink(parts, statement)
    if not isinstance(statement, CreateStream | CreateTable | CreateView):
        return None
    entry = parts.catalog.find(statement.name)
    if entry is None:
        return None
    if _text(statement) == _existing_text(entry, statement):
        return Done(_CREATES[type(statement)], "kept", entry.name)
    if not statement.or_replace and not statement.if_not_exists:
        raise _differs(entry.name, entry.statement, statement)
    return None


def _kept_sink(parts: Parts, create: CreateSink) -> Done | None:
    sink = parts.catalog.sinks.get(create.name.lower())
    if sink is None:
        return None
    view = sink.view if sink.view.lower() == create.view.lower() else create.view
    if replace(create, name=sink.name, view=view, if_not_exists=False) == sink.statement:
        return Done("CREATE SINK", "kept", sink.name)
    if create.if_not_exists:
        return None
    raise _differs(sink.name, sink.statement, create)


def place_stream(parts: Parts, create: CreateStream, starts: Starts) -> tuple[CreateStream, Sequence[str]]:
    """A stream with its start among its options, and notices. An unread stream of that name is moved there."""
    start = starts.of(create.name)
    if start is None:
        return create, ()
    options = {name.lower(): value for name, value in create.options}
    source = options.get("source", "log")
    connector = SOURCES.get(source)
    if connector is None or not connector.has_start:
        if create.name.lower() in starts.streams:
            raise MillstreamError(
                "NOT_SUPPORTED",
                f"--from: {create.name} reads from {source!r}, which begins where its own options say",
                position=create.position,
            )
        return create, (f"stream {create.name} begins as its source {source!r} says",)
    entry = parts.catalog.find(create.name)
    if isinstance(entry, StreamEntry):
        if parts.store.progress(entry.name) is not None:
            raise MillstreamError(
                "ALREADY_READ",
                f"{entry.name} has been read already: it goes on where it is",
                detail="--from says where streams begin of which nothing has been read",
                hint="leave --from out, use a fresh data directory (--data), or read what the log retains again with "
                "ALTER MATERIALIZED VIEW … REBUILD",
                position=create.position,
            )
        with parts.loop.lock:
            parts.definitions.begin_at(entry, start)
    others = tuple(option for option in create.options if option[0].lower() not in ("start", "start_offsets"))
    return replace(create, options=(*others, ("start", start))), ()


def _text(create: Create | CreateSink) -> str:
    if isinstance(create, CreateSink):
        return render(replace(create, if_not_exists=False))
    return render(replace(create, or_replace=False, if_not_exists=False))


def _existing_text(entry: Entry, create: Create) -> str:
    if isinstance(entry, StreamEntry) and not isinstance(create, CreateView):
        return _text(as_said(entry, create))
    if isinstance(entry, ViewEntry) and entry.successor is not None:
        return _text(entry.successor.statement)
    return _text(entry.statement)


def _differs(name: str, known: Create | CreateSink, create: Create | CreateSink) -> MillstreamError:
    old, new = _text(known).splitlines(), _text(create).splitlines()
    changed = [
        line for line in difflib.unified_diff(old, new, n=0, lineterm="") if not line.startswith(("---", "+++", "@@"))
    ]
    return MillstreamError(
        "DEFINITION_DIFFERS",
        f"{name} exists with another definition",
        detail="what it is (-) and what the script says (+)\n" + "\n".join(f"  {line}" for line in changed),
        hint="drop it first, write CREATE OR REPLACE, or use another data directory",
        position=create.position,
    )
