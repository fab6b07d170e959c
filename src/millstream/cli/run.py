"""`millstream run`: a script of definitions, and then the stream.

Owns the order of things: definitions first, then either everything that is there once, with the
views printed, or continuous processing until Ctrl-C, with a line per epoch and, on request, the views.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from millstream.api import Connection, Starts
from millstream.cli.console import ERR, OUT, note
from millstream.cli.formats import Format
from millstream.cli.progress import progress_line
from millstream.cli.script import Step, apply_step, read_steps, show_outcome
from millstream.cli.session import opened, read_text, wait_for_spark
from millstream.cli.show import show_result
from millstream.cli.watch import run_until_stopped
from millstream.engine.surface.starts import read_starts
from millstream.model.errors import MillstreamError, did_you_mean
from millstream.sql.render import quote_name
from millstream.sql.statements import CreateStream, Subscribe

_SHOWN_ROWS = 20


def run_pipeline(
    file: Path, data: Path, *, once: bool, format: Format, start_from: Sequence[str] = (), watch: bool = False
) -> None:
    steps = read_steps(read_text(file), str(file))
    for step in steps:
        if isinstance(step.statement, Subscribe):
            raise MillstreamError(
                "NOT_SUPPORTED",
                "a pipeline cannot wait for changes",
                hint=f"watch them with 'millstream tail {step.statement.name}'",
                position=step.statement.position,
            )
    starts = read_starts(start_from)
    _check_starts(steps, starts)
    with opened(data) as db:
        for step in steps:
            _run_step(db, step, starts, drain=once, format=format)
        wait_for_spark(db)
        if once:
            drain(db)
            for view in db.status()["views"]:
                show_view(db, view["name"], format)
            note(progress_line(db.status()))
        else:
            run_until_stopped(db, watch=watch, format=format)


def _check_starts(steps: Sequence[Step], starts: Starts) -> None:
    created = {step.statement.name.lower() for step in steps if isinstance(step.statement, CreateStream)}
    for name in starts.streams:
        if name not in created:
            raise MillstreamError(
                "UNKNOWN_STREAM",
                f"--from names {name!r}, which the script does not create",
                hint=did_you_mean(name, created),
            )


def _run_step(db: Connection, step: Step, starts: Starts, *, drain: bool, format: Format) -> None:
    if step.needs_spark or drain:
        wait_for_spark(db)
    if drain and step.reads_views:
        db.drain()
    show_outcome(apply_step(db, step, starts), format)


def drain(db: Connection) -> None:
    """Process everything that has arrived, with a line of progress on a terminal."""
    if not ERR.is_terminal:
        db.drain()
        return
    spinner = Spinner("dots")

    def frame() -> Spinner:
        spinner.update(text=f"processing… {progress_line(db.status())}")
        return spinner

    with Live(get_renderable=frame, console=ERR, refresh_per_second=4, transient=True):
        db.drain()


def show_view(db: Connection, name: str, format: Format) -> None:
    """The rows of a view in the order of its columns: for people the first, for programs all."""
    total = db.query(f"SELECT count(*) AS n FROM {quote_name(name)}").rows()[0]["n"]
    columns = db.query(f"SELECT * FROM {quote_name(name)} LIMIT 0").columns
    order = ", ".join(str(number) for number in range(1, len(columns) + 1))
    limit = f" LIMIT {_SHOWN_ROWS}" if format is Format.TABLE else ""
    rows = db.query(f"SELECT * FROM {quote_name(name)} ORDER BY {order}{limit}")
    show_result(rows, format, title=name)
    if total > _SHOWN_ROWS and format is Format.TABLE:
        OUT.print(Text(f"… and {total - _SHOWN_ROWS:,} more", style="dim"))
