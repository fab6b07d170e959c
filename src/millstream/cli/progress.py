"""How far a database has come, in words for people.

Owns the one line that shows a `Status`, and the line of an epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.text import Text

from millstream.api import Status, StreamStatus
from millstream.cli.show import count

_OUTCOMES = (("in", "rows_in"), ("used", "rows_used"), ("filtered", "rows_filtered"))


def waiting_rows(status: Status) -> int:
    """Rows that are known to wait."""
    return sum(stream["waiting"] or 0 for stream in status["streams"])


def lag(status: Status) -> str:
    """What waits, in words: sources that do not tell may have more."""
    rows = count(waiting_rows(status), "row")
    return f"{rows} or more" if any(stream["waiting"] is None for stream in status["streams"]) else rows


def building(status: Status) -> list[str]:
    """Views that read history or are rebuilt, and how far they are."""
    return [f"{view['name']} {view['state']}" for view in status["views"] if view["state"] != "live"]


def find_stream(status: Status, name: str) -> StreamStatus | None:
    return next((stream for stream in status["streams"] if stream["name"].lower() == name.lower()), None)


def find_view(status: Status, name: str) -> str | None:
    """The name of a view as it was written when it was created."""
    return next((view["name"] for view in status["views"] if view["name"].lower() == name.lower()), None)


def progress_line(status: Status) -> str:
    """Epoch, rows, for every stream with event time its watermark, the lag, and what views are being built."""
    parts = [f"epoch {status['epoch']:,}", f"{status['rows_in']:,} rows"]
    parts += [
        f"{s['name']} watermark {instant(s['watermark'])}" for s in status["streams"] if s["watermark"] is not None
    ]
    parts.append(f"lag {lag(status)}")
    parts += building(status)
    return " · ".join(parts)


def epoch_line(epochs: Sequence[Mapping[str, Any]]) -> Text:
    """The rows of some consecutive epochs by outcome, late and dead ones in colour.

    A row that two views use counts twice, as in SHOW EPOCHS.
    """
    first, last = epochs[0]["epoch"], epochs[-1]["epoch"]
    name = f"epoch {first:,}" if first == last else f"epochs {first:,} to {last:,}"

    def total(*columns: str) -> int:
        return sum(int(epoch[column]) for epoch in epochs for column in columns)

    line = Text(name, style="bold")
    for word, column in _OUTCOMES:
        line.append(f" · {total(column):,} {word}", style="not bold")
    late, dead = total("rows_late"), total("rows_dead", "rows_failed")
    line.append(f" · {late:,} late", style="bold yellow" if late else "not bold")
    line.append(f" · {dead:,} dead", style="bold red" if dead else "not bold")
    return line


def instant(at: datetime | None) -> str:
    """An instant to the millisecond, as short as it can be read."""
    if at is None:
        return "-"
    text = at.isoformat(sep=" ", timespec="milliseconds")
    return text.removesuffix(".000")
