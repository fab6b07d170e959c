"""`millstream status`: what is in a data directory and how far it is.

Reads only, and needs no Spark: figures come from the store and the log.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from millstream.api import Connection, Status
from millstream.cli.console import OUT
from millstream.cli.formats import StatusFormat
from millstream.cli.progress import instant, lag
from millstream.cli.session import opened
from millstream.cli.show import count, json_line
from millstream.sql.render import quote_name


def show_status(data: Path, format: StatusFormat = StatusFormat.TABLE) -> None:
    with opened(data, must_exist=True, eager=False) as db:
        status = db.status()
        if format is StatusFormat.JSON:
            print(json_line(_document(db, data, status)))
            return
        tables = [_streams(db, status), _views(db, status), _sinks(status)]
        parts: list[RenderableType] = [_summary(data, status), *(table for table in tables if table.row_count)]
        OUT.print(Group(*parts))


def _document(db: Connection, data: Path, status: Status) -> dict[str, Any]:
    """All that the tables show, under the names of `Status`."""
    streams = [{**stream, **_letters(db, stream["name"])} for stream in status["streams"]]
    views = [{**view, "rows": _rows(db, view["name"])} for view in status["views"]]
    return {**status, "bytes": _directory_bytes(data), "streams": streams, "views": views}


def _summary(data: Path, status: Status) -> Text:
    at = status["committed_at"]
    last = f", the last at {at.isoformat(sep=' ', timespec='seconds')} UTC" if at is not None else ""
    return Text.assemble(
        (f"{data}", "bold"),
        f"  {_size(_directory_bytes(data))}\n",
        f"{count(status['epoch'], 'epoch')}{last}\n",
        f"{count(status['rows_in'], 'row')} read, {status['rows_late']:,} late, {status['rows_dead']:,} dead, ",
        f"{lag(status)} waiting",
    )


def _streams(db: Connection, status: Status) -> Table:
    table = _table("stream", "kind", "source", "watermark", "lag", "late", "dead", "state")
    for stream in status["streams"]:
        letters = _letters(db, stream["name"])
        table.add_row(
            stream["name"],
            "table" if stream["is_table"] else "stream",
            stream["source"],
            instant(stream["watermark"]),
            "?" if stream["waiting"] is None else f"{stream['waiting']:,}",
            _alarming(letters["late"], "yellow"),
            _alarming(letters["dead"], "red"),
            Text(stream["state"]) if stream["error"] is None else Text(_first_line(stream["error"]), style="bold red"),
        )
    return table


def _first_line(error: str) -> str:
    return f"failing: {error.splitlines()[0]}"


def _alarming(number: int, colour: str) -> Text:
    return Text(f"{number:,}", style=f"bold {colour}" if number else "")


def _views(db: Connection, status: Status) -> Table:
    table = _table("view", "rows", "state")
    for view in status["views"]:
        table.add_row(view["name"], f"{_rows(db, view['name']):,}", view["state"])
    return table


def _sinks(status: Status) -> Table:
    table = _table("sink", "view", "connector", "state", "lag", "error")
    for sink in status["sinks"]:
        error = sink["error"] or "-"
        table.add_row(sink["name"], sink["view"], sink["connector"], sink["state"], f"{sink['lag']:,}", error)
    return table


def _letters(db: Connection, stream: str) -> dict[str, int]:
    return {kind: _rows(db, f"{stream}__{kind}") for kind in ("late", "dead")}


def _rows(db: Connection, relation: str) -> int:
    return int(db.query(f"SELECT count(*) AS n FROM {quote_name(relation)}").rows()[0]["n"])


def _table(*names: str) -> Table:
    table = Table(box=box.SIMPLE if OUT.is_terminal else None, header_style="bold", pad_edge=False)
    for name in names:
        right = name in ("lag", "rows", "late", "dead")
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    return table


def _directory_bytes(directory: Path) -> int:
    total = 0
    for path in directory.rglob("*"):
        try:
            if path.is_file() and not path.is_symlink():
                total += path.stat().st_size
        except OSError:
            continue  # compaction may take a file away while we look
    return total


def _size(number: int) -> str:
    size = float(number)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} GiB"
