"""`millstream datagen`: synthetic input, as files.

Owns what the command shows: progress on the way, and at the end what was written. How events come
about is the generator's business.
"""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from millstream.cli.console import ERR, note
from millstream.cli.progress import instant
from millstream.cli.show import count
from millstream.model.errors import MillstreamError
from millstream.model.time import MICROS, parse_duration, to_datetime, to_micros
from millstream.nexmark.files import write_files
from millstream.nexmark.formats import FileFormat
from millstream.nexmark.generator import Nexmark
from millstream.nexmark.settings import Settings


def nexmark(
    events: int, out: Path, *, seed: int, rate: int, start: str | None, disorder: str, format: FileFormat, files: int
) -> None:
    """Write the first events of a Nexmark run below a directory."""
    started = {} if start is None else {"start_at": _instant(start)}
    settings = Settings(seed=seed, rate=rate, disorder=parse_duration(disorder), **started)
    began = time.perf_counter()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=ERR, transient=True, disable=not ERR.is_terminal) as progress:
        task = progress.add_task("events", total=max(events, 0))
        rows = write_files(
            Nexmark(settings),
            events,
            out,
            format=format,
            files=files,
            written=lambda more: progress.advance(task, more),
        )
    seconds = time.perf_counter() - began
    ends_at = settings.start_at + events * MICROS // rate
    note(f"{', '.join(count(number, kind) for kind, number in rows.items())} in {out}")
    began_at, ended_at = instant(to_datetime(settings.start_at)), instant(to_datetime(ends_at))
    note(f"event time {began_at} to {ended_at} · {events / seconds:,.0f} events/s")


def _instant(text: str) -> int:
    try:
        return to_micros(datetime.fromisoformat(text))
    except ValueError:
        raise MillstreamError(
            "BAD_OPTION", f"{text!r} is not an instant", hint="write it as in '2015-07-15 00:00:00'; it is in UTC"
        ) from None
