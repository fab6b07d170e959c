#!/usr/bin/env python
"""Prints docs/functions.md from the allowlist in the code.

    .venv/bin/python scripts/list_functions.py > docs/functions.md

A test fails when the page is stale.
"""

from __future__ import annotations

from collections.abc import Mapping

from millstream.sql.allowlist import AGGREGATE_EXAMPLES, CLOCKS, NOTES, ROW_FUNCTIONS, SCALARS, WINDOWED

_HEAD = """\
# Functions

*Printed by `scripts/list_functions.py` from `src/millstream/sql/allowlist.py`; do not edit.*

A query may call these functions and no others. Each is pure, and means the same in Spark SQL and in the store, up to
the notes. In a view, what is computed per row runs on Spark; expressions over aggregates, `HAVING` and every `SELECT`
run in the store. The tests run each example.
"""

_SECTIONS: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    ("Scalar functions", "In views and in `SELECT`; `explode` in `SELECT` only.", SCALARS),
    (
        "Aggregates",
        "In views and in `SELECT`. Their results in a view, exactness and ties included, are in "
        "[streamsql.md](streamsql.md#aggregates); the notes here are about `SELECT`.",
        AGGREGATE_EXAMPLES,
    ),
    ("Row functions", "In `SELECT`, in `FROM` and `LATERAL VIEW` only.", ROW_FUNCTIONS),
    ("Window functions", "In `SELECT` only.", WINDOWED),
    ("Functions of the clock", "In `SELECT` only: a view must give the same answer for the same input.", CLOCKS),
)


def page() -> str:
    """The whole page."""
    return _HEAD + "".join(_section(*section) for section in _SECTIONS)


def _section(title: str, text: str, functions: Mapping[str, str]) -> str:
    rows = [f"| `{name}` | {_code(example)} | {_cell(NOTES.get(name, ''))} |" for name, example in functions.items()]
    return "\n".join(["", f"## {title}", "", text, "", "| function | example | note |", "|---|---|---|", *rows, ""])


def _code(text: str) -> str:
    return f"`{_cell(text)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
