"""`millstream run --from`: where the streams of a script begin to read.

Owns what the option means for each stream; the stream's own option `start` does the rest. What
always holds: a stream that has been read goes on where it is, and asking for something else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from millstream.cli.console import note
from millstream.engine.define.catalog import StreamEntry
from millstream.engine.surface.database import Database
from millstream.model.errors import MillstreamError, did_you_mean
from millstream.sources import SOURCES, read_start
from millstream.sql.statements import CreateStream, Statement

# An instant begins with a digit, a stream does not.
_OF_STREAM = re.compile(r"([^\W\d]\w*)\s*:\s*(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Starts:
    """A start for all streams, and starts of some."""

    everywhere: str | None
    streams: dict[str, str]
    """By name, in lower case."""

    def of(self, name: str) -> str | None:
        return self.streams.get(name.lower(), self.everywhere)


def read_starts(values: Iterable[str]) -> Starts:
    """`latest`, `2024-01-01 00:00:00`, `bids:0=100,1=250`; each may be given once."""
    everywhere: str | None = None
    streams: dict[str, str] = {}
    for value in values:
        named = _OF_STREAM.fullmatch(value.strip())
        text = named.group(2).strip() if named else value.strip()
        try:
            start = read_start(text)
        except ValueError as error:
            raise MillstreamError("BAD_START", f"--from {value!r} is no place to begin", hint=str(error)) from None
        if named is None and start.offsets is not None:
            raise MillstreamError(
                "BAD_START", f"--from {value!r} names no stream", hint=f"write --from 'stream:{value.strip()}'"
            )
        key = named.group(1).lower() if named else None
        if (key in streams) if key is not None else (everywhere is not None):
            raise MillstreamError("BAD_START", f"--from is given twice for {key or 'all streams'}")
        if key is None:
            everywhere = text
        else:
            streams[key] = text
    return Starts(everywhere, streams)


def place_streams(db: Database, statements: Sequence[Statement], starts: Starts) -> tuple[Statement, ...]:
    """The statements of a script with the starts in them; streams that are there and were not read are moved."""
    known = {statement.name.lower() for statement in statements if isinstance(statement, CreateStream)}
    for name in starts.streams:
        if name not in known:
            raise MillstreamError(
                "UNKNOWN_STREAM",
                f"--from names {name!r}, which the script does not create",
                hint=did_you_mean(name, known),
            )
    return tuple(_placed(db, s, starts) if isinstance(s, CreateStream) else s for s in statements)


def _placed(db: Database, create: CreateStream, starts: Starts) -> CreateStream:
    start = starts.of(create.name)
    if start is None:
        return create
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
        note(f"stream {create.name} begins as its source {source!r} says")
        return create
    entry = db.catalog.find(create.name)
    if isinstance(entry, StreamEntry):
        if db.store.progress(entry.name) is not None:
            raise MillstreamError(
                "ALREADY_READ",
                f"{entry.name} has been read already: it goes on where it is",
                detail="--from says where streams begin of which nothing has been read",
                hint="leave --from out, use a fresh data directory (--data), or read what the log retains again with "
                "ALTER MATERIALIZED VIEW … REBUILD",
                position=create.position,
            )
        with db.loop.lock:
            db.definitions.begin_at(entry, start)
    others = tuple(option for option in create.options if option[0].lower() not in ("start", "start_offsets"))
    return replace(create, options=(*others, ("start", start)))
