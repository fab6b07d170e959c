"""Continuous processing as `millstream run` shows it.

Owns the line of each epoch on stderr and the views of `--watch`. What always holds: where epochs come faster
than a reader can follow, several share a line, so that no row is left out of the counts. A failure is shown when it
begins and when it is over, and ends nothing: what fails is tried again.
"""

from __future__ import annotations

import threading
import time

from rich.console import Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from millstream.api import Connection, Result
from millstream.cli.console import ERR, OUT, note
from millstream.cli.formats import Format
from millstream.cli.interrupts import stop_on_interrupt
from millstream.cli.progress import epoch_line, progress_line
from millstream.cli.show import boxed, show_result
from millstream.sql.render import quote_name

_LOOK_SECONDS = 0.25
_EPOCHS_PER_LOOK = 4
"""More epochs between two looks share a line."""
_WATCHED_ROWS = 10
_WATCH_SECONDS = 1.0


def run_until_stopped(db: Connection, *, watch: bool, format: Format) -> None:
    """Process continuously, show each epoch, until Ctrl-C."""
    with stop_on_interrupt() as stop:
        db.start()
        note("running; Ctrl-C stops")
        epochs = EpochLines(db)
        views = ViewWatch(db, format) if watch else None
        if ERR.is_terminal:
            _show_live(db, stop, epochs, views)
        else:
            _show_lines(db, stop, epochs, views)
    db.stop()
    epochs.look()
    note(f"stopped: {progress_line(db.status())}")


def _show_live(db: Connection, stop: threading.Event, epochs: EpochLines, views: ViewWatch | None) -> None:
    spinner = Spinner("dots", text=progress_line(db.status()))
    with Live(spinner, console=ERR, refresh_per_second=8, transient=True) as live:
        while not stop.wait(_LOOK_SECONDS):
            epochs.look()
            spinner.update(text=progress_line(db.status()))
            if views is not None and views.is_due():
                live.update(Group(*views.tables(), spinner))


def _show_lines(db: Connection, stop: threading.Event, epochs: EpochLines, views: ViewWatch | None) -> None:
    while not stop.wait(_LOOK_SECONDS):
        epochs.look()
        if views is not None and views.is_due():
            views.show()
    if views is not None:
        views.show()


class EpochLines:
    """The epochs that were not shown yet."""

    def __init__(self, db: Connection) -> None:
        self._db = db
        self._shown = db.status()["epoch"]
        self._failing: dict[str, str] = {}

    def look(self) -> None:
        """Print what has been committed since the last look, and what has begun or ceased to fail."""
        self._look_at_failures()
        epochs = self._db.epochs(self._shown).rows()
        if not epochs:
            return
        groups = [[epoch] for epoch in epochs] if len(epochs) <= _EPOCHS_PER_LOOK else [epochs]
        for group in groups:
            ERR.print(epoch_line(group), soft_wrap=True)
        self._shown = epochs[-1]["epoch"]

    def _look_at_failures(self) -> None:
        status = self._db.status()
        failing = {"processing": status["failure"]} if status["failure"] is not None else {}
        for kind, each in [("stream", s) for s in status["streams"]] + [("sink", s) for s in status["sinks"]]:
            if each["error"] is not None:
                failing[f"{kind} {each['name']}"] = each["error"]
        for name, error in failing.items():
            if self._failing.get(name) != error:
                note(f"{name} fails and is tried again: {error}")
        for name in self._failing.keys() - failing.keys():
            note(f"{name} goes on")
        self._failing = failing


class ViewWatch:
    """The views, as of the last time that they were due."""

    def __init__(self, db: Connection, format: Format) -> None:
        self._db = db
        self._format = format
        self._at = 0.0
        self._epoch = -1
        self._shown: dict[str, list[dict[str, object]]] = {}

    def is_due(self) -> bool:
        """Whether there are new epochs, and time enough has passed."""
        return time.monotonic() - self._at >= _WATCH_SECONDS and self._db.status()["epoch"] > self._epoch

    def tables(self) -> list[RenderableType]:
        """A table per view, cut to a few rows, for a terminal."""
        drawn: list[RenderableType] = []
        for name, (rows, total) in self._read().items():
            table: Table = boxed(rows, name)
            drawn.append(table)
            if total > len(rows):
                drawn.append(Text(f"… and {total - len(rows):,} more", style="dim"))
        return drawn

    def show(self) -> None:
        """Print the views that changed since they were last printed."""
        for name, (result, _) in self._read().items():
            rows = result.rows()
            if self._shown.get(name) != rows:
                self._shown[name] = rows
                show_result(result, self._format, title=name)
        OUT.file.flush()

    def _read(self) -> dict[str, tuple[Result, int]]:
        self._at = time.monotonic()
        status = self._db.status()
        self._epoch = status["epoch"]
        found: dict[str, tuple[Result, int]] = {}
        for view in status["views"]:
            relation = quote_name(view["name"])
            total = self._db.query(f"SELECT count(*) AS n FROM {relation}").rows()[0]["n"]
            # The last rows by all columns: for windows, the newest.
            columns = len(self._db.query(f"SELECT * FROM {relation} LIMIT 0").columns)
            order = ", ".join(f"{number} DESC" for number in range(1, columns + 1))
            found[view["name"]] = (
                self._db.query(f"SELECT * FROM {relation} ORDER BY {order} LIMIT {_WATCHED_ROWS}"),
                total,
            )
        return found
