"""The state of a database, in figures: `Database.status`.

Reads the catalog, the log and the store. Starts no Spark job and counts no rows of a view.
"""

from __future__ import annotations

from typing import cast

from millstream.api import SinkStatus, Status, StreamStatus, ViewStatus
from millstream.engine.define.catalog import SinkEntry, StreamEntry
from millstream.engine.run.parts import Parts
from millstream.engine.run.running import Running
from millstream.engine.surface.looking import sink_row, source_state
from millstream.model.progress import BEGINNING
from millstream.model.time import to_datetime


def status_of(parts: Parts, running: Running) -> Status:
    failure = running.failure
    totals = parts.store.totals()
    return {
        "directory": str(parts.directory),
        "epoch": parts.store.last_epoch(),
        "committed_at": to_datetime(totals.committed_at) if totals.committed_at is not None else None,
        "running": running.is_running,
        "failure": str(failure) if failure is not None else None,
        "rows_in": totals.rows_in,
        "rows_late": totals.rows_late,
        "rows_dead": totals.rows_dead + totals.rows_failed,
        "streams": [_stream(parts, entry) for entry in parts.catalog.streams()],
        "views": [ViewStatus(name=view.name, state=parts.history.state(view)) for view in parts.catalog.views()],
        "sinks": [_sink(parts, sink) for sink in parts.catalog.sinks.values()],
        "pace": parts.loop.pace.figures(),
    }


def _stream(parts: Parts, entry: StreamEntry) -> StreamStatus:
    progress = parts.store.progress(entry.name)
    watermark = progress.watermark if progress is not None and entry.stream.watermark is not None else BEGINNING
    state = source_state(parts, entry)
    return {
        "name": entry.name,
        "is_table": entry.is_table,
        "source": entry.options.source,
        "topic": entry.topic.name if entry.topic is not None else None,
        "watermark": None if watermark == BEGINNING else to_datetime(watermark),
        "position": sum(progress.offsets.values()) if progress is not None else 0,
        "waiting": _waiting(parts, entry),
        "state": state["state"] or "live",
        "error": state["error"],
    }


def _sink(parts: Parts, entry: SinkEntry) -> SinkStatus:
    row = sink_row(parts, entry)
    del row["guarantee"]
    return cast("SinkStatus", row)


def _waiting(parts: Parts, entry: StreamEntry) -> int | None:
    """Rows of a stream that are in the log but in no epoch."""
    if entry.topic is None:
        return None
    topic = entry.topic
    progress = parts.store.progress(entry.name)
    read = progress.offsets if progress is not None else {}
    try:
        starts = entry.source.start()
    except Exception:
        # The source fails, and its state says so.
        return None
    return sum(max(0, end - max(read.get(p, 0), starts[p])) for p, end in topic.end_offsets().items())


def is_caught_up(parts: Parts) -> bool:
    """Whether no source has unread rows and no view reads history. A pushed source cannot tell."""
    return parts.history.is_done() and all(_is_read(parts, entry) for entry in parts.catalog.streams())


def _is_read(parts: Parts, entry: StreamEntry) -> bool:
    progress = parts.store.progress(entry.name)
    try:
        read = {**entry.source.start(), **(progress.offsets if progress is not None else {})}
        ends = entry.source.end()
    except Exception:
        # A source that fails cannot tell.
        return False
    return entry.options.pushed() is None and all(end <= read.get(p, 0) for p, end in ends.items())
