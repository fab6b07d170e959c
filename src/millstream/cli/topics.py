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

from millstream.api import Connection, Status, StreamStatus, Topics
from millstream.cli.console import ERR, note
from millstream.cli.formats import Format
from millstream.cli.interrupts import stop_on_interrupt
from millstream.cli.progress import find_stream, find_view
from millstream.cli.script import catch_up
from millstream.cli.session import opened, wait_for_spark
from millstream.cli.show import count, json_line, show_change
from millstream.model.errors import MillstreamError, did_you_mean
from millstream.model.time import to_datetime
from millstream.sql.statements import Subscribe

_BATCH_LINES = 5_000
_BATCH_SECONDS = 0.2
_LOOK_SECONDS = 0.2


# -- produce -------------------------------------------------------------------------------------


def produce(name: str, data: Path, file: Path | None, *, create: bool) -> None:
    """Append lines of a file or of stdin; each batch is durable before the next is read."""
    with opened(data, must_exist=not create, eager=False) as db:
        stream = _stream_of(db.status(), name)
        if stream is None:
            _check_topic(db, name, create=create)
        target = stream["name"] if stream is not None else name
        total, started = 0, time.monotonic()
        with Live(console=ERR, refresh_per_second=8, transient=True) as live:
            try:
                for lines in _lines(file):
                    total += db.insert_lines(target, lines) if stream is not None else db.topics.append(name, lines)
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


def _stream_of(status: Status, name: str) -> StreamStatus | None:
    """The stream or table of a name, or the one that reads the topic of that name."""
    if (view := find_view(status, name)) is not None:
        raise MillstreamError(
            "NOT_INSERTABLE", f"{view} is a view: rows cannot be inserted", hint="name the stream it reads"
        )
    by_topic = (stream for stream in status["streams"] if stream["topic"] == name)
    return find_stream(status, name) or next(by_topic, None)


def _check_topic(db: Connection, name: str, *, create: bool) -> None:
    if create:
        db.topics.create(name)
    elif name not in db.topics.names():
        known = [stream["name"].lower() for stream in db.status()["streams"]]
        raise MillstreamError(
            "UNKNOWN_TOPIC",
            f"there is no stream, table or topic {name!r}",
            hint=did_you_mean(name, known) or "create a stream first, or make a topic with --create",
        )


# -- tail ----------------------------------------------------------------------------------------


def tail(name: str, data: Path, *, from_epoch: int, last: int | None, once: bool, format: Format) -> None:
    with opened(data, must_exist=True, eager=False) as db:
        status = db.status()
        view = find_view(status, name)
        if view is not None:
            _tail_view(db, view, from_epoch, once=once, format=format)
            return
        stream = _stream_of(status, name)
        if stream is not None and stream["topic"] is None:
            raise MillstreamError(
                "NOT_A_LOG",
                f"{stream['name']} reads from {stream['source']!r}: its rows are not in the log",
                hint="tail a view over it",
            )
        topic = name if stream is None or stream["topic"] is None else stream["topic"]
        if topic not in db.topics.names():
            relations = [relation["name"].lower() for relation in (*status["streams"], *status["views"])]
            raise MillstreamError(
                "UNKNOWN_TOPIC", f"there is no view, stream or topic {name!r}", hint=did_you_mean(name, relations)
            )
        _tail_topic(db.topics, topic, last, once=once)


def _tail_view(db: Connection, view: str, from_epoch: int, *, once: bool, format: Format) -> None:
    if once:
        catch_up(db)
        for change in db.changes(view, max(from_epoch - 1, 0)):
            show_change(change, format)
        return
    wait_for_spark(db)
    db.start()
    follow(db, view, from_epoch, format)
    db.stop()


def known_view(db: Connection, subscribe: Subscribe) -> str:
    """The view that a SUBSCRIBE names."""
    status = db.status()
    view = find_view(status, subscribe.name)
    if view is None:
        raise MillstreamError(
            "UNKNOWN_VIEW",
            f"there is no view {subscribe.name!r}",
            hint=did_you_mean(subscribe.name, (known["name"].lower() for known in status["views"])),
            position=subscribe.position,
        )
    return view


def follow(db: Connection, view: str, from_epoch: int, format: Format) -> None:
    """Print the changes of a view as they come, until Ctrl-C."""
    changes = db.subscribe(view, from_epoch)
    with stop_on_interrupt(changes.end):
        for change in changes:
            show_change(change, format)


def _tail_topic(topics: Topics, name: str, last: int | None, *, once: bool) -> None:
    there = topics.offsets(name)
    places = dict(there.start)
    if last is not None:
        places = {p: max(start, there.end[p] - last) for p, start in places.items()}
    with stop_on_interrupt() as stop:
        while True:
            ends = topics.offsets(name).end
            for partition, start in places.items():
                for batch in topics.read(name, partition, start, ends[partition]):
                    _print_rows(batch, partition)
                places[partition] = max(start, ends[partition])
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
