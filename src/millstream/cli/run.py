"""`millstream run`: a script of definitions, and then the stream.

Owns the order of things: definitions first, then either everything that is there once, with the
views printed, or continuous processing with a status line until Ctrl-C.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from millstream.cli.console import ERR, OUT, note
from millstream.cli.formats import Format
from millstream.cli.interrupts import stop_on_interrupt
from millstream.cli.progress import progress_line, progress_of
from millstream.cli.script import Create, carry_out, is_unchanged, kind_of, reads_views
from millstream.cli.session import opened, read_text, wait_for_spark
from millstream.cli.show import show_result
from millstream.cli.starts import place_streams, read_starts
from millstream.engine.surface.database import Database
from millstream.engine.surface.result import Result
from millstream.engine.surface.subscription import Subscription
from millstream.model.errors import MillstreamError
from millstream.sql import parse_script
from millstream.sql.render import quote_name
from millstream.sql.statements import CreateView, Explain, Statement, Subscribe

_SHOWN_ROWS = 20
_LOOK_SECONDS = 0.25
_LINE_SECONDS = 2.0


def run_pipeline(file: Path, data: Path, *, once: bool, format: Format, start_from: Sequence[str] = ()) -> None:
    text = read_text(file)
    statements = parse_script(text, str(file))
    for statement in statements:
        if isinstance(statement, Subscribe):
            raise MillstreamError(
                "NOT_SUPPORTED",
                "a pipeline cannot wait for changes",
                hint=f"watch them with 'millstream tail {statement.name}'",
                position=statement.position,
            )
    starts = read_starts(start_from)
    with opened(data) as db:
        for statement in place_streams(db, statements, starts):
            _carry_out(db, statement, text, str(file), drain=once, format=format)
        wait_for_spark(db)
        if once:
            drain(db)
            for view in db.catalog.views():
                show_view(db, view.name, format)
            note(progress_line(progress_of(db)))
        else:
            run_until_stopped(db)


def _carry_out(db: Database, statement: Statement, text: str, source: str, *, drain: bool, format: Format) -> None:
    if isinstance(statement, Create) and is_unchanged(db, statement):
        note(f"{kind_of(statement)} {statement.name} is there already")
        return
    if isinstance(statement, CreateView | Explain) or drain:
        wait_for_spark(db)
    if drain and reads_views(statement):
        db.drain()
    outcome = carry_out(db, statement, text, source)
    if outcome.message:
        note(outcome.message)
    if isinstance(outcome.result, Result):
        show_result(outcome.result, format)
    assert not isinstance(outcome.result, Subscription)


def drain(db: Database) -> None:
    """Process everything that has arrived, with a line of progress on a terminal."""
    if not ERR.is_terminal:
        db.drain()
        return
    spinner = Spinner("dots")

    def frame() -> Spinner:
        spinner.update(text=f"processing… {progress_line(progress_of(db))}")
        return spinner

    with Live(get_renderable=frame, console=ERR, refresh_per_second=4, transient=True):
        db.drain()


def show_view(db: Database, name: str, format: Format) -> None:
    """The rows of a view in the order of its columns: for people the first, for programs all."""
    total = db.query(f"SELECT count(*) AS n FROM {quote_name(name)}").rows()[0]["n"]
    columns = range(1, len(db.store.columns(name)) + 1)
    order = ", ".join(str(number) for number in columns)
    limit = f" LIMIT {_SHOWN_ROWS}" if format is Format.TABLE else ""
    rows = db.query(f"SELECT * FROM {quote_name(name)} ORDER BY {order}{limit}")
    show_result(rows, format, title=name)
    if total > _SHOWN_ROWS and format is Format.TABLE:
        OUT.print(Text(f"… and {total - _SHOWN_ROWS:,} more", style="dim"))


def run_until_stopped(db: Database) -> None:
    """Process continuously and say how far it is, until Ctrl-C or a failure."""
    with stop_on_interrupt() as stop:
        db.start()
        note("running; Ctrl-C stops")
        if ERR.is_terminal:
            _live_line(db, stop)
        else:
            _lines(db, stop)
    db.stop()
    note(f"stopped: {progress_line(progress_of(db))}")


def _live_line(db: Database, stop: threading.Event) -> None:
    spinner = Spinner("dots")
    with Live(spinner, console=ERR, refresh_per_second=8, transient=True):
        before, since = progress_of(db).rows, time.monotonic()
        rate = 0.0
        while not stop.wait(_LOOK_SECONDS) and db.status()["failure"] is None:
            now = progress_of(db)
            elapsed = time.monotonic() - since
            if elapsed >= 1.0:
                rate, before, since = (now.rows - before) / elapsed, now.rows, time.monotonic()
            spinner.update(text=f"{progress_line(now)} · {rate:,.0f} rows/s")


def _lines(db: Database, stop: threading.Event) -> None:
    said = ""
    said_at = 0.0
    while not stop.wait(_LOOK_SECONDS) and db.status()["failure"] is None:
        line = progress_line(progress_of(db))
        if line != said and time.monotonic() - said_at >= _LINE_SECONDS:
            note(line)
            said, said_at = line, time.monotonic()
