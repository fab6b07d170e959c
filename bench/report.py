"""What was found, on the terminal: the figures, then the targets, then the checks."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.outcome import Section
from bench.tables import (
    TextTable,
    absence_lines,
    figure_table,
    grid_tables,
    note_lines,
    target_table,
    trace_table,
)

_STYLES = {"met": "green", "aim reached": "green", "missed": "bold red"}


def show(console: Console, sections: Sequence[Section], machine: dict[str, str], took: str) -> None:
    for section in sections:
        if section.figures:
            _show_figures(console, section)
        if section.grid is not None:
            for table in grid_tables(section, section.grid):
                _show(console, table)
            _say(console, absence_lines(section.grid))
        if section.traces:
            _show(console, trace_table(section))
        _say(console, note_lines(section))
    if any(section.targets for section in sections):
        _show_targets(console, sections)

    checks = Table(title="results, against a one-shot DuckDB query", title_justify="left", title_style="bold")
    for name in ("what", "", "detail"):
        checks.add_column(name, overflow="fold")
    for check in (check for section in sections for check in section.checks):
        checks.add_row(check.what, "[green]✓[/]" if check.ok else "[red]✗ wrong[/]", escape(check.detail))
    console.print(checks)
    console.print("  ".join(f"{name} {value}" for name, value in machine.items()), style="dim", highlight=False)
    console.print(took, style="dim", highlight=False)


def _show_figures(console: Console, section: Section) -> None:
    table = figure_table(section)
    shown = _columns(table)
    for row, figure in zip(table.rows, section.figures, strict=True):
        shown.add_row(*row, style="dim" if figure.reference else None)
    console.print(shown)


def _show_targets(console: Console, sections: Sequence[Section]) -> None:
    table = target_table(sections)
    shown = _columns(table)
    for *cells, verdict in table.rows:
        shown.add_row(*cells, f"[{_STYLES.get(verdict, 'yellow')}]{verdict}[/]")
    console.print(shown)


def _show(console: Console, table: TextTable) -> None:
    shown = _columns(table)
    for row in table.rows:
        shown.add_row(*row)
    console.print(shown)


def _columns(table: TextTable) -> Table:
    shown = Table(title=table.title, title_justify="left", title_style="bold")
    for place, name in enumerate(table.header):
        shown.add_column(name, justify="left" if place < table.text_columns else "right")
    return shown


def _say(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        console.print(line, style="dim", highlight=False, markup=False)
