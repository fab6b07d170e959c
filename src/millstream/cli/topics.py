"""`millstream produce` and `millstream tail`: lines in, rows out.

Owns how a name on the command line is found: a view, else a stream or table, else a stream that
reads the topic of that name, else the topic itself.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO

import pyarrow as pa
from rich.live import Live
from rich.text import Text

from millstream.cli.console import ERR, note
from millstream.cli.formats import Format
from millstream.cli.interrupts import stop_on_interrupt
from millstream.cli.session import opened, wait_for_spark
from millstream.cli.show import count, json_line, show_change
from millstream.engine.define.catalog import StreamEntry, ViewEntry
from millstream.engine.surface.database import Database
from millstream.log import Topic
from millstream.model.errors import MillstreamError, did_you_mean
from millstream.model.time import to_datetime

_BATCH_LINES = 5_000
_BATCH_SECONDS = 0.2
_LOOK_SECONDS = 0.2


# -- produce -------------------------------------------------------------------------------------


def produce(name: str, data: Path, file: Path | None, *, create: bool) -> None:
    """Append lines of a file or of stdin; each batch is durable before the next is read."""
    with opened(data, must_exist=not create, eager=False) as db:
        entry = _stream_of(db, name)
        topic = None if entry is not None else _raw_topic(db, name, create=create)
        target = entry.name if entry is not None else name
        total, started = 0, time.monotonic()
        with Live(console=ERR, refresh_per_second=8, transient=True) as live:
            try:
                for lines in _lines(file):
                    if entry is not None:
                        total += db.insert_lines(entry.name, lines)
                    elif topic is not None:
                        total += topic.append(pa.table({"_raw": pa.array(lines, pa.binary())})).rows
                    rate = total / max(time.monotonic() - started, 1e-6)
                    if ERR.is_terminal:
                        live.update(Text(f"{count(total, 'row')} into {target} · {rate:,.0f} rows/s"))
            except KeyboardInterrupt:
                pass  # what was read is durable; the count says how much
        note(f"{count(total, 'row')} into {target}")


def _lines(file: Path | None) -> Iterator[list[bytes]]:
    """Lines without their ends, empty ones left out, in batches."""
    if file is None:
        yield from _as_they_come(sys.stdin.buffer)
        return
    try:
        with file.open("rb") as opened_file:
            lines = _clean(opened_file)
            while batch := list(islice(lines, _BATCH_LINES)):
                yield batch
    except OSError as error:
        raise MillstreamError("FILE_NOT_READABLE", f"cannot read {file}: {error.strerror}") from None


def _as_they_come(stream: IO[bytes]) -> Iterator[list[bytes]]:
    """A slow producer's lines must not wait for a full batch."""
    pending: list[bytes] = []
    since = time.monotonic()
    while chunk := stream.readlines(1):
        pending += _clean(chunk)
        if len(pending) >= _BATCH_LINES or time.monotonic() - since >= _BATCH_SECONDS or stream.isatty():
            if pending:
                yield pending
            pending, since = [], time.monotonic()
    if pending:
        yield pending


def _clean(lines: Iterable[bytes]) -> Iterator[bytes]:
    for line in lines:
        bare = line.rstrip(b"\r\n")
        if bare.strip():
            yield bare


def _stream_of(db: Database, name: str) -> StreamEntry | None:
    entry = db.catalog.find(name)
    if isinstance(entry, StreamEntry):
        return entry
    if isinstance(entry, ViewEntry):
        raise MillstreamError(
            "NOT_INSERTABLE", f"{entry.name} is a view: rows cannot be inserted", hint="name the stream it reads"
        )
    for stream in db.catalog.streams():
        if stream.topic is not None and stream.topic.name == name:
            return stream
    return None


def _raw_topic(db: Database, name: str, *, create: bool) -> Topic:
    if create:
        return db.log.create_topic(name)
    if name in db.log.topics():
        return db.log.topic(name)
    known = [entry.name.lower() for entry in db.catalog.streams()]
    raise MillstreamError(
        "UNKNOWN_TOPIC",
        f"there is no stream, table or topic {name!r}",
        hint=did_you_mean(name, known) or "create a stream first, or make a topic with --create",
    )


# -- tail ----------------------------------------------------------------------------------------


def tail(name: str, data: Path, *, from_epoch: int, last: int | None, once: bool, format: Format) -> None:
    with opened(data, must_exist=True, eager=False) as db:
        entry = db.catalog.find(name)
        if isinstance(entry, ViewEntry):
            _tail_view(db, entry.name, from_epoch, once=once, format=format)
            return
        stream = _stream_of(db, name)
        if stream is not None and stream.topic is None:
            raise MillstreamError(
                "NOT_A_LOG",
                f"{stream.name} reads from {stream.options.source!r}: its rows are not in the log",
                hint="tail a view over it",
            )
        if stream is not None and stream.topic is not None:
            topic = db.log.topic(stream.topic.name)
        elif name in db.log.topics():
            topic = db.log.topic(name)
        else:
            known = [entry.name.lower() for entry in db.catalog]
            raise MillstreamError(
                "UNKNOWN_TOPIC", f"there is no view, stream or topic {name!r}", hint=did_you_mean(name, known)
            )
        _tail_topic(topic, last, once=once)


def _tail_view(db: Database, view: str, from_epoch: int, *, once: bool, format: Format) -> None:
    wait_for_spark(db)
    if once:
        db.drain()
        for change in db.changes(view, max(from_epoch - 1, 0)):
            show_change(change, format)
        return
    db.start()
    follow(db, view, from_epoch, format)
    db.stop()


def follow(db: Database, view: str, from_epoch: int, format: Format) -> None:
    """Print the changes of a view as they come, until Ctrl-C."""
    changes = db.subscribe(view, from_epoch)
    with stop_on_interrupt(changes.end):
        for change in changes:
            show_change(change, format)


def _tail_topic(topic: Topic, last: int | None, *, once: bool) -> None:
    offsets = topic.start_offsets()
    if last is not None:
        ends = topic.end_offsets()
        offsets = {p: max(start, ends[p] - last) for p, start in offsets.items()}
    with stop_on_interrupt() as stop:
        while True:
            for partition, start in offsets.items():
                end = topic.end_offsets()[partition]
                for batch in topic.read(partition, start, end):
                    _print_rows(batch, partition)
                offsets[partition] = max(start, end)
            if once or stop.wait(_LOOK_SECONDS):
                return


def _print_rows(batch: pa.RecordBatch, partition: int) -> None:
    for row in batch.to_pylist():
        offset, landed_at = row.pop("_offset"), row.pop("_landed_at")
        place = {"partition": partition, "offset": offset, "landed_at": _instant(landed_at)}
        if "_raw" in row:
            raw = row["_raw"]
            row = {"raw": raw.decode(errors="replace") if isinstance(raw, bytes) else raw}
        print(json_line({**place, **row}), flush=True)


def _instant(value: object) -> str:
    if isinstance(value, int):
        return to_datetime(value).isoformat(sep=" ")
    return str(value)
