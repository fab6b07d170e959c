"""What was found, shown: tables on the terminal, a JSON file, a page of Markdown. The plot is in `plots`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.outcome import Section
from bench.tables import (
    TextTable,
    absence_lines,
    figure_table,
    grid_table,
    note_lines,
    target_table,
    trace_table,
)


def show(console: Console, sections: Sequence[Section], machine: dict[str, str], took: str) -> None:
    """The figures, then the targets, then the checks."""
    _show_figures(console, sections)
    for section in sections:
        if section.grid is not None:
            _show(console, grid_table(section, section.grid))
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


def _show_figures(console: Console, sections: Sequence[Section]) -> None:
    table = figure_table(sections)
    if not table.rows:
        return
    shown = _columns(table)
    references = [figure.reference for section in sections for figure in section.figures]
    for index, (row, reference) in enumerate(zip(table.rows, references, strict=True)):
        repeated = index > 0 and table.rows[index - 1][0] == row[0]
        last = index == len(table.rows) - 1 or table.rows[index + 1][0] != row[0]
        cells = ("" if repeated else row[0], *row[1:])
        shown.add_row(*cells, style="dim" if reference else None, end_section=last)
    console.print(shown)


def _show_targets(console: Console, sections: Sequence[Section]) -> None:
    table = target_table(sections)
    shown = _columns(table)
    for row in table.rows:
        mark = "[green]✓ met[/]" if row[1] == "met" else "[red]✗ missed[/]"
        shown.add_row(row[0], mark, *row[2:])
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


def write_json(path: Path, sections: Sequence[Section], machine: dict[str, str], about: dict[str, Any]) -> None:
    content = {
        **about,
        "machine": machine,
        "sections": [_section(section) for section in sections],
        "targets": [{**asdict(t), "met": t.met} for section in sections for t in section.targets],
        "correct": all(check.ok for section in sections for check in section.checks),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")


def _section(section: Section) -> dict[str, Any]:
    fields = asdict(section)
    if section.grid is not None:
        fields["grid"] |= section.grid.as_json()
    for trace, shown in zip(section.traces, fields["traces"], strict=True):
        shown["growth"] = trace.growth
    return fields


def write_markdown(path: Path, sections: Sequence[Section], machine: dict[str, str], took: str) -> None:
    """The text for `docs/benchmarks.md`: the tables, what is absent and why, and whether results were right."""
    parts = [", ".join(f"{name} {value}" for name, value in machine.items()) + ".", took + "."]
    for table in (figure_table(sections), target_table(sections)):
        if table.rows:
            parts += [f"### {table.title}", table.markdown()]
    for section in sections:
        tables = [grid_table(section, section.grid)] if section.grid is not None else []
        tables += [trace_table(section)] if section.traces else []
        lines = (absence_lines(section.grid) if section.grid is not None else []) + note_lines(section)
        if tables or lines:
            parts += [f"### {section.title}", *(table.markdown() for table in tables)]
        if lines:
            parts.append("\n".join(f"- {line}" for line in lines))
    checks = [check for section in sections for check in section.checks]
    wrong = [check for check in checks if not check.ok]
    parts.append(f"{len(checks) - len(wrong)} of {len(checks)} checks of results passed.")
    if wrong:
        parts.append("\n".join(f"- wrong: {check.what}: {' '.join(check.detail.split())}" for check in wrong))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
