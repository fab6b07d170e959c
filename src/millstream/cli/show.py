"""Results on the terminal or in a pipe.

Owns the three output formats (table, csv, json lines) and the line of a change. On a terminal a
table has borders and is cut after some rows; in a pipe it is plain, aligned and complete.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from millstream.api import Result
from millstream.cli.console import OUT
from millstream.cli.formats import Format

_ROWS_ON_TERMINAL = 1_000
_CHANGE_COLUMNS = ("epoch", "op", "pane", "pane_index", "final")
_SIGNS = {"insert": ("+", "green"), "upsert": ("~", "yellow"), "retract": ("-", "red"), "delete": ("-", "red")}


def show_result(result: Result, format: Format = Format.TABLE, *, title: str | None = None) -> None:
    """Print all rows of a result."""
    if format is Format.CSV:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(result.columns)
        writer.writerows([[_plain(value, null="") for value in row.values()] for row in result.rows()])
    elif format is Format.JSON:
        for row in result.rows():
            print(json_line(row))
    elif result.columns == ["plan"] or result.columns == ["statement"]:
        # Text of many lines reads badly in a box.
        for row in result.rows():
            OUT.print(Text("\n".join(str(value) for value in row.values())), soft_wrap=True)
    elif OUT.is_terminal:
        _show_boxed(result, title)
    else:
        _show_plain(result, title)


def show_change(change: dict[str, Any], format: Format = Format.TABLE) -> None:
    """Print one change of a view as a line."""
    if format is Format.JSON or (format is Format.TABLE and not OUT.is_terminal):
        print(json_line(change), flush=True)
        return
    if format is Format.CSV:
        csv.writer(sys.stdout, lineterminator="\n").writerow([_plain(value, null="") for value in change.values()])
        sys.stdout.flush()
        return
    sign, style = _SIGNS.get(str(change["op"]), ("?", "white"))
    values = ", ".join(f"{key} = {_plain(value)}" for key, value in change.items() if key not in _CHANGE_COLUMNS)
    final = " final" if change["final"] else ""
    head = f"{change['epoch']:>6} {sign} {change['op']:<7} {change['pane']:<7} {change['pane_index']}{final:<6}  "
    OUT.print(Text.assemble((head, style), values), soft_wrap=True)


def json_line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, default=_json_value, ensure_ascii=False)


def boxed(result: Result, title: str | None) -> Table:
    """The rows of a result as a table for a terminal, cut after some."""
    rows = result.rows()
    table = Table(box=box.ROUNDED, title=title, title_justify="left", title_style="bold", header_style="bold")
    for name in result.columns:
        numeric = any(isinstance(row[name], int | float | Decimal) for row in rows[:50])
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows[:_ROWS_ON_TERMINAL]:
        table.add_row(*(Text("NULL", style="dim") if value is None else Text(_plain(value)) for value in row.values()))
    return table


def _show_boxed(result: Result, title: str | None) -> None:
    OUT.print(boxed(result, title))
    cut = f", the first {_ROWS_ON_TERMINAL:,} shown" if len(result) > _ROWS_ON_TERMINAL else ""
    OUT.print(Text(f"{count(len(result), 'row')}{cut}", style="dim"))


def _show_plain(result: Result, title: str | None) -> None:
    names = result.columns
    rows = [[_plain(value) for value in row.values()] for row in result.rows()]
    widths = [max(len(name), *(len(row[n]) for row in rows)) if rows else len(name) for n, name in enumerate(names)]
    if title:
        print(title)
    print(_aligned(names, widths))
    print("-+-".join("-" * width for width in widths))
    for row in rows:
        print(_aligned(row, widths))
    print(f"({count(len(rows), 'row')})")


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _plain(value: Any, null: str = "NULL") -> str:
    match value:
        case None:
            return null
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat(sep=" ")
        case bytes():
            return value.hex()
        case list() | dict():
            return json.dumps(value, default=_json_value, ensure_ascii=False)
        case _:
            return str(value).replace("\n", "\\n")


def _json_value(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat(sep=" ")
        case date():
            return value.isoformat()
        case Decimal():
            # Always text, or one column would have numbers and texts.
            return str(value)
        case bytes():
            return value.hex()
        case _:
            return str(value)


def count(number: int, noun: str) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
