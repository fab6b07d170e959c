#!/usr/bin/env python
"""Prints docs/functions.md from the allowlist in the code.

    .venv/bin/python scripts/list_functions.py > docs/functions.md

A test fails when the page is stale.
"""

from __future__ import annotations

from collections.abc import Mapping

from millstream.sql.allowlist import AGGREGATE_EXAMPLES, CLOCKS, NOTES, ROW_FUNCTIONS, SCALARS, WINDOWED
from millstream.sql.signatures import KINDS, OPERATORS, REFUSED, SIGNATURES

_HEAD = """\
# Functions

*Printed by `scripts/list_functions.py` from `src/millstream/sql/allowlist.py`; do not edit.*

A query may call these functions and no others. Each is pure, and means the same in Spark SQL and in the store, up to
the notes. In a view, what is computed per row runs on Spark; expressions over aggregates, `HAVING` and every `SELECT`
run in the store.

A test computes every form below on Spark and in the store, for every type that its arguments may have and over the
edges of each type (NULL, NaN, infinities, both zeros, extremes, empty and non-ASCII texts, the ends of the calendar),
and requires equal values, equal NULLs and equal failures. Reals may differ in the last digit; integers may be wider in
the store. Words in braces are kinds of arguments:

KINDS

Some forms are computed by Spark only. The store has no like of them and refuses them (`ARGUMENT_NOT_ALLOWED`) before it
computes anything:

REFUSED
"""

_SECTIONS: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    ("Operators", "In views and in `SELECT`.", dict.fromkeys(OPERATORS, "")),
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
    kinds = "\n".join(
        ["| kind | types |", "|---|---|", *(f"| {name} | {_types(types)} |" for name, types in KINDS.items())]
    )
    refused = ", ".join(_code(form) for form in REFUSED) + "."
    head = _HEAD.replace("KINDS", kinds).replace("REFUSED", refused)
    return head + "".join(_section(*section) for section in _SECTIONS)


def _types(types: tuple[str, ...]) -> str:
    named = {"COUNT": "INT", "JSON": "STRING"}
    return ", ".join(f"`{named.get(type_, type_)}`" for type_ in types)


def _section(title: str, text: str, functions: Mapping[str, str]) -> str:
    known = {**OPERATORS, **SIGNATURES}
    with_forms = any(name in known for name in functions) and title in ("Operators", "Scalar functions")
    rows = []
    for name, example in functions.items():
        calls = known.get(name, (example,)) if with_forms else (example,)
        rows.append(f"| `{_cell(name)}` | {'<br>'.join(map(_code, calls))} | {_cell(NOTES.get(name, ''))} |")
    column = "forms" if with_forms else "example"
    return "\n".join(["", f"## {title}", "", text, "", f"| function | {column} | note |", "|---|---|---|", *rows, ""])


def _code(text: str) -> str:
    return f"`{_cell(text)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
