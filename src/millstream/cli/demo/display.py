"""The demo on the terminal: one screen that updates in place, or plain lines in a pipe.

Owns how a `Frame` looks; reads no database. The same frame always gives the same picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from millstream.cli.demo.proof import Comparison
from millstream.cli.demo.watch import Correction

Row = dict[str, Any]
_BAR = 8  # what 80 columns leave
_LANGUAGES = ("en", "es", "pt", "ja", "de", "hi")


@dataclass(frozen=True, slots=True)
class Frame:
    """Everything one picture shows."""

    elapsed: float
    total: float | None
    epoch: int
    posts: int
    rate: float
    watermark: datetime | None
    latency_ms: float | None
    window: tuple[datetime, datetime] | None
    trending: Sequence[Row]
    authors: Sequence[Row]
    minutes: Sequence[Row]
    corrections: Sequence[Correction]
    retracted: int
    late_corrections: int


@dataclass(frozen=True, slots=True)
class Summary:
    """What the demo did, in figures."""

    posts: int
    epochs: int
    rows_per_second: float
    median_ms: float | None
    p99_ms: float | None
    retracted: int
    late_corrections: int
    late: int


def picture(frame: Frame) -> RenderableType:
    """The whole screen: 20 lines, 80 columns or more."""
    top = Table.grid(expand=True, padding=(0, 1, 0, 0))
    top.add_column(ratio=11)
    top.add_column(ratio=9)
    top.add_row(_trending(frame), _authors(frame))
    bottom = Table.grid(expand=True, padding=(0, 1, 0, 0))
    bottom.add_column(ratio=11)
    bottom.add_column(ratio=9)
    bottom.add_row(_minutes(frame), _corrections(frame))
    return Group(_header(frame), top, bottom)


def line(frame: Frame) -> str:
    """The same in one line."""
    leader = f" · leading {frame.trending[0]['topic']} ({frame.trending[0]['posts']:,})" if frame.trending else ""
    watermark = frame.watermark.strftime("%H:%M:%S") if frame.watermark else "-"
    return (
        f"{frame.elapsed:5.1f} s · epoch {frame.epoch} · {frame.posts:,} posts · {frame.rate:,.0f} posts/s · "
        f"watermark {watermark} · latency {_ms(frame.latency_ms)} · {frame.retracted:,} retractions{leader}"
    )


def _header(frame: Frame) -> Text:
    goal = f"of {frame.total:.0f} s" if frame.total is not None else "s, until Ctrl-C"
    watermark = frame.watermark.strftime("%H:%M:%S") if frame.watermark else "-"
    return Text.assemble(
        (" millstream demo ", "bold reverse"),
        f"  {frame.elapsed:.0f} {goal}",
        ("   a social feed, ten times as fast as life\n", "dim"),
        (" epoch ", "dim"),
        (f"{frame.epoch:,}", "bold"),
        ("  posts ", "dim"),
        (f"{frame.posts:,}", "bold"),
        ("  per second ", "dim"),
        (f"{frame.rate:,.0f}", "bold"),
        ("  watermark ", "dim"),
        (watermark, "bold"),
        ("  latency ", "dim"),
        (_ms(frame.latency_ms), "bold"),
        overflow="ellipsis",
        no_wrap=True,
    )


def _trending(frame: Frame) -> Panel:
    table = _grid(("", "left"), ("posts", "right"), ("likes", "right"), ("", "left"))
    top = max((row["posts"] for row in frame.trending), default=1)
    for row in frame.trending:
        bar = "━" * max(1, round(_BAR * row["posts"] / top))
        table.add_row(Text(row["topic"], style="bold"), f"{row['posts']:,}", f"{row['likes']:,}", Text(bar, "magenta"))
    when = f" {frame.window[0]:%H:%M:%S} to {frame.window[1]:%H:%M:%S}, early" if frame.window else ""
    return _panel(table, f"trending{when}", 10)


def _authors(frame: Frame) -> Panel:
    table = _grid(("", "left"), ("posts", "right"), ("likes", "right"))
    for row in frame.authors:
        table.add_row(Text(row["author"], style="bold"), f"{row['posts']:,}", f"{row['likes']:,}")
    return _panel(table, "authors by likes, live", 10)


def _minutes(frame: Frame) -> Panel:
    table = _grid(("minute", "left"), *((language, "right") for language in _LANGUAGES))
    by_minute: dict[datetime, dict[str, int]] = {}
    for row in frame.minutes:
        by_minute.setdefault(row["window_start"], {})[row["language"]] = row["posts"]
    for minute, counts in sorted(by_minute.items())[-5:]:
        table.add_row(f"{minute:%H:%M}", *(f"{counts.get(language, 0):,}" for language in _LANGUAGES))
    if not by_minute:
        table.add_row(Text("no minute is complete yet", style="dim"))
    return _panel(table, "posts per minute, when complete", 8)


def _corrections(frame: Frame) -> Panel:
    table = _grid(("", "left"), ("", "left"), ("", "right"))
    for correction in reversed(frame.corrections):
        table.add_row(
            Text(f"{correction.window_start:%M:%S}", style="dim"),
            Text(correction.topic),
            Text.assemble((f"{correction.before:,}", "red strike"), " → ", (f"{correction.after:,}", "green")),
        )
    title = f"taken back: {frame.retracted:,}, late: {frame.late_corrections:,}"
    return _panel(table, title, 8)


def _grid(*columns: tuple[str, Any]) -> Table:
    table = Table(box=None, expand=True, pad_edge=False, header_style="dim", show_header=any(c[0] for c in columns))
    for name, justify in columns:
        table.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis")
    return table


def _panel(table: Table, title: str, height: int) -> Panel:
    return Panel(
        table,
        title=Text(title, style="bold cyan"),
        title_align="left",
        height=height,
        box=box.ROUNDED,
        border_style="dim",
    )


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} ms"


def report(comparisons: Sequence[Comparison], summary: Summary) -> RenderableType:
    """The comparison and the figures, the same on a terminal and in a pipe."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("view", no_wrap=True)
    table.add_column("compared", no_wrap=True)
    for name in ("rows", "batch rows", "late posts left out"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("equal")
    for comparison in comparisons:
        verdict = Text("yes", "bold green")
        if not comparison.is_equal:
            verdict = Text(f"no ({comparison.different:,} differ)", "bold red")
        elif comparison.expected == 0:
            verdict = Text("nothing to compare yet", "dim")
        table.add_row(
            comparison.view,
            comparison.what,
            f"{comparison.rows:,}",
            f"{comparison.expected:,}",
            f"{comparison.late:,}",
            verdict,
        )
    figures = Text(
        f"{summary.posts:,} posts in {summary.epochs:,} epochs, {summary.rows_per_second:,.0f} rows/s; "
        f"insert to visible: median {_ms(summary.median_ms)}, p99 {_ms(summary.p99_ms)}\n"
        f"{summary.retracted:,} values of trending taken back, {summary.late_corrections:,} of them for late posts"
    )
    return Group(Text("every view against the batch query over the same posts:", style="bold"), table, figures)
