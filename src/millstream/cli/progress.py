"""How far a database has come, in figures for people.

Owns `Progress` (a snapshot of epoch, rows, watermarks and what still waits) and the one line that
shows it. Reads only; a snapshot costs no Spark job.
"""

from __future__ import annotations

from dataclasses import dataclass

from millstream.cli.show import count
from millstream.engine.define.catalog import StreamEntry
from millstream.engine.surface.database import Database
from millstream.model.time import to_datetime
from millstream.store.protocol import BEGINNING


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """One stream or table."""

    name: str
    source: str
    is_table: bool
    watermark: int | None
    """Microseconds; None before the first event, or without event time."""
    waiting: int | None
    """Rows in the log that no epoch has read; None where the source does not tell."""


@dataclass(frozen=True, slots=True)
class Progress:
    epoch: int
    rows: int
    streams: tuple[StreamProgress, ...]
    building: tuple[tuple[str, str], ...] = ()
    """(view, what it is doing) of views that read history or are rebuilt."""

    @property
    def waiting(self) -> int:
        """Rows that are known to wait."""
        return sum(stream.waiting or 0 for stream in self.streams)

    @property
    def lag(self) -> str:
        """What waits, in words: sources that do not tell may have more."""
        rows = count(self.waiting, "row")
        return f"{rows} or more" if any(stream.waiting is None for stream in self.streams) else rows

    @property
    def is_caught_up(self) -> bool:
        """Whether nothing is known to wait; a source that does not tell may always have more."""
        return all(stream.waiting == 0 for stream in self.streams)


def progress_of(db: Database) -> Progress:
    streams = tuple(_stream(db, entry) for entry in db.catalog.streams())
    counted = db.store.query("SELECT coalesce(sum(rows_in), 0)::BIGINT AS n FROM ms.epochs")
    states = [(view.name, db.history.state(view)) for view in db.catalog.views()]
    building = tuple((name, state) for name, state in states if state != "live")
    return Progress(db.store.last_epoch(), counted.column("n")[0].as_py(), streams, building)


def rows_waiting(db: Database, entry: StreamEntry) -> int | None:
    """Rows of a stream that are in the log but in no epoch."""
    if entry.topic is None:
        return None
    topic = db.log.topic(entry.topic.name)
    done = db.store.progress(entry.name)
    read = done.offsets if done is not None else {}
    starts = entry.source.start()
    return sum(max(0, end - max(read.get(p, 0), starts[p])) for p, end in topic.end_offsets().items())


def _stream(db: Database, entry: StreamEntry) -> StreamProgress:
    done = db.store.progress(entry.name)
    watermark = done.watermark if done is not None and entry.stream.watermark is not None else BEGINNING
    return StreamProgress(
        entry.name,
        entry.options.source,
        entry.is_table,
        None if watermark == BEGINNING else watermark,
        rows_waiting(db, entry),
    )


def progress_line(progress: Progress) -> str:
    """Epoch, rows, for every stream with event time its watermark and lag, and what views are being built."""
    parts = [f"epoch {progress.epoch:,}", f"{progress.rows:,} rows"]
    parts += [f"{s.name} watermark {instant(s.watermark)}" for s in progress.streams if s.watermark is not None]
    parts.append(f"lag {progress.lag}")
    parts += [f"{name} {state}" for name, state in progress.building]
    return " · ".join(parts)


def instant(micros: int | None) -> str:
    """An instant to the millisecond, as short as it can be read."""
    if micros is None:
        return "-"
    text = to_datetime(micros).isoformat(sep=" ", timespec="milliseconds")
    return text.removesuffix(".000")
