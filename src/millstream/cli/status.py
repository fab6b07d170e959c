"""`millstream status`: what is in a data directory and how far it is.

Reads only, and needs no Spark: figures come from the store and the log.
"""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from millstream.cli.console import OUT
from millstream.cli.progress import Progress, instant, progress_of
from millstream.cli.session import opened
from millstream.cli.show import count
from millstream.engine.surface.database import Database
from millstream.sql.render import quote_name


def show_status(data: Path) -> None:
    with opened(data, must_exist=True, eager=False) as db:
        progress = progress_of(db)
        tables = [_streams(db, progress), _views(db)]
        parts: list[RenderableType] = [_summary(db, data, progress), *(table for table in tables if table.row_count)]
        OUT.print(Group(*parts))


def _summary(db: Database, data: Path, progress: Progress) -> Text:
    rows = db.store.query(
        "SELECT make_timestamp(max(committed_at)) AS at, coalesce(sum(rows_late), 0)::BIGINT AS late, "
        "coalesce(sum(rows_dead + rows_failed), 0)::BIGINT AS dead FROM ms.epochs"
    ).to_pylist()[0]
    at = f", the last at {rows['at'].isoformat(sep=' ', timespec='seconds')} UTC" if rows["at"] else ""
    return Text.assemble(
        (f"{data}", "bold"),
        f"  {_size(_directory_bytes(data))}\n",
        f"{count(progress.epoch, 'epoch')}{at}\n",
        f"{count(progress.rows, 'row')} read, {rows['late']:,} late, {rows['dead']:,} dead, ",
        f"{progress.lag} waiting",
    )


def _streams(db: Database, progress: Progress) -> Table:
    table = _table("stream", "kind", "source", "watermark", "lag", "late", "dead")
    for stream in progress.streams:
        table.add_row(
            stream.name,
            "table" if stream.is_table else "stream",
            stream.source,
            instant(stream.watermark),
            "?" if stream.waiting is None else f"{stream.waiting:,}",
            f"{_rows(db, f'{stream.name}__late'):,}",
            f"{_rows(db, f'{stream.name}__dead'):,}",
        )
    return table


def _views(db: Database) -> Table:
    table = _table("view", "rows", "state")
    for view in db.catalog.views():
        table.add_row(view.name, f"{_rows(db, view.name):,}", db.history.state(view))
    return table


def _rows(db: Database, relation: str) -> int:
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
