"""The course of the demo: open, feed, watch, stop, prove."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

from rich.live import Live
from rich.text import Text

from millstream.api import Connection
from millstream.cli.console import ERR, OUT, note
from millstream.cli.demo.display import Frame, Summary, line, picture, report
from millstream.cli.demo.feed import Feed, Posts
from millstream.cli.demo.proof import prove
from millstream.cli.demo.watch import ChangeWatch, LatencyWatch
from millstream.cli.interrupts import stop_on_interrupt
from millstream.cli.progress import find_stream
from millstream.cli.session import opened, wait_for_spark
from millstream.model.errors import MillstreamError

_FRAME_SECONDS = 0.25
_LINE_SECONDS = 2.0
_EARLY_SECONDS = 1.0
_RECENT_BATCHES = 60
_WARM_UP_BATCHES = 3


def run_demo(*, seconds: float | None, seed: int, rate: int, data: Path | None) -> bool:
    """Run for some seconds, or until Ctrl-C; whether every comparison was equal."""
    if data is not None and data.exists() and any(data.iterdir()):
        raise MillstreamError(
            "DATA_DIR_NOT_EMPTY", f"{data} is not empty", hint="the demo begins from nothing: name a new directory"
        )
    scratch = Path(tempfile.mkdtemp(prefix="millstream-demo-"))
    proved = False
    try:
        with opened(data or scratch / "data") as db:
            proved = _Demo(db, Posts(seed, rate), scratch / "posts.arrow", seconds).run()
    finally:
        if proved or data is not None:
            shutil.rmtree(scratch, ignore_errors=True)
        else:
            note(f"the data stays in {scratch} for a closer look")
    if data is not None:
        note(f"look around: millstream sql --data {data}")
    return proved


class _Demo:
    def __init__(self, db: Connection, posts: Posts, kept: Path, seconds: float | None) -> None:
        self._db = db
        self._seconds = seconds
        self._feed = Feed(posts, lambda rows: db.insert("posts", rows), kept)
        self._latency = LatencyWatch(db, self._feed)
        self._began = time.perf_counter()
        self._warm_up_posts = 0
        self._marks: list[tuple[float, int]] = []

    def run(self) -> bool:
        self._prepare()
        self._changes = ChangeWatch(self._db.subscribe("trending"))
        with stop_on_interrupt() as stop:
            self._began = time.perf_counter()
            self._db.start()
            self._changes.start()
            self._latency.start()
            self._feed.start()
            try:
                self._watch(stop)
            finally:
                self._feed.stop()
        if self._feed.failure is not None:
            raise self._feed.failure
        return self._finish()

    def _prepare(self) -> None:
        wait_for_spark(self._db)
        self._db.sql(files("millstream.cli.demo").joinpath("pipeline.sql").read_text("utf-8"), source="pipeline.sql")
        # The first epoch sets the watermark, and the first few pay for what Spark does once.
        for _ in range(_WARM_UP_BATCHES):
            self._feed.send()
            self._db.drain()
        self._feed.pending.clear()
        self._warm_up_posts = self._feed.sent

    def _watch(self, stop: threading.Event) -> None:
        until = None if self._seconds is None else self._began + self._seconds
        if not OUT.is_terminal:
            self._watch_lines(stop, until)
            return
        with Live(console=OUT, auto_refresh=False, vertical_overflow="crop") as live:
            while self._goes_on(stop, until):
                live.update(picture(self._frame()), refresh=True)
                stop.wait(_FRAME_SECONDS)
            live.update(picture(self._frame()), refresh=True)

    def _watch_lines(self, stop: threading.Event, until: float | None) -> None:
        while self._goes_on(stop, until):
            print(line(self._frame()), flush=True)
            wait = _LINE_SECONDS if until is None else min(_LINE_SECONDS, until - time.perf_counter())
            stop.wait(max(wait, 0.01))

    def _goes_on(self, stop: threading.Event, until: float | None) -> bool:
        if stop.is_set() or (until is not None and time.perf_counter() >= until):
            return False
        return self._feed.failure is None and self._db.status()["failure"] is None

    def _frame(self) -> Frame:
        db = self._db
        now = time.perf_counter() - self._began
        status = db.status()
        stream = find_stream(status, "posts")
        read = stream["position"] if stream is not None else 0
        watermark = stream["watermark"] if stream is not None else None
        self._marks = [(at, rows) for at, rows in self._marks if now - at < 3] + [(now, read)]
        first_at, first_rows = self._marks[0]
        trending: list[dict[str, Any]] = []
        if watermark is not None:
            # The window that completes next: its early values are still being refined.
            trending = db.query(
                "SELECT * FROM trending WHERE window_end = (SELECT min(window_end) FROM trending "
                f"WHERE window_end > TIMESTAMP '{watermark}') ORDER BY posts DESC, topic LIMIT 7"
            ).rows()
        return Frame(
            elapsed=now,
            total=self._seconds,
            epoch=status["epoch"],
            posts=read,
            rate=(read - first_rows) / (now - first_at) if now > first_at else 0.0,
            watermark=watermark,
            latency_ms=self._latency.milliseconds(50, _RECENT_BATCHES),
            window=(trending[0]["window_start"], trending[0]["window_end"]) if trending else None,
            trending=trending,
            authors=db.query("SELECT author, posts, likes FROM authors ORDER BY likes DESC, author LIMIT 7").rows(),
            minutes=db.query("SELECT * FROM posts_per_minute ORDER BY window_start DESC LIMIT 30").rows(),
            corrections=tuple(self._changes.last),
            retracted=self._changes.retracted,
            late_corrections=self._changes.late,
        )

    def _finish(self) -> bool:
        """Let everything arrive, then compare."""
        db = self._db
        if ERR.is_terminal:
            with ERR.status("comparing every view with the batch query…"):
                comparisons = self._settle_and_prove()
        else:
            comparisons = self._settle_and_prove()
        taken = self._latency.seen_at - self._began
        late = db.query("SELECT count(DISTINCT id) AS n FROM posts__late").rows()[0]["n"]
        summary = Summary(
            posts=self._feed.sent,
            epochs=db.status()["epoch"],
            rows_per_second=(self._feed.sent - self._warm_up_posts) / taken if taken > 0 else 0.0,
            median_ms=self._latency.milliseconds(50),
            p99_ms=self._latency.milliseconds(99),
            retracted=self._changes.retracted,
            late_corrections=self._changes.late,
            late=late,
        )
        OUT.print(report(comparisons, summary), soft_wrap=not OUT.is_terminal)
        equal = all(comparison.is_equal for comparison in comparisons)
        OUT.print(Text("proved: all equal" if equal else "NOT EQUAL", style="bold green" if equal else "bold red"))
        return equal

    def _settle_and_prove(self) -> Any:
        db = self._db
        db.stop()
        db.drain()
        self._latency.stop()
        # The last early values are due a moment later.
        time.sleep(_EARLY_SECONDS + 0.1)
        db.drain()
        self._changes.stop()
        return prove(db, self._feed.rows())
