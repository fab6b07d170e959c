"""One value means the same at every entrance: the same row, or nowhere a row.

The entrances: lines of the log, files of JSON and of CSV, rows of a program as dicts, Arrow and pandas, and literals
of SQL. What does not fit is a dead letter where rows cannot be refused, and an error where they can.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import millstream as ms
from tests.property.spellings import FLAT, NESTED, Spelling, spellings

pytestmark = pytest.mark.spark

_STREAMS = ("lines", "json", "csv", "plain")
Directories = Callable[[], AbstractContextManager[Path]]
Seen = dict[int, Any]
"""By the number of a spelling, the value that its column got."""

_KNOWN = [
    Spelling("i", "I", "1"),
    Spelling("i", "i", "1.0"),
    Spelling("i", "i", "9223372036854775808"),
    Spelling("i", "i", '"1"'),
    Spelling("t", "t", "200"),
    Spelling("x", "X", "9007199254740993"),
    Spelling("x", "x", "1e400"),
    Spelling("x", "x", '"NaN"'),
    Spelling("f", "f", "3.5e38"),
    Spelling("d", "d", "1.0005"),
    Spelling("d", "d", '"1.0005"'),
    Spelling("d", "d", "999999.9995"),
    Spelling("b", "b", '"true"'),
    Spelling("s", "s", "5"),
    Spelling("s", "s", '{"a":[1]}'),
    Spelling("day", "Day", '"2025-1-2"'),
    Spelling("day", "day", '"2025-01-02T00:00:00"'),
    Spelling("ts", "TS", '"2025-01-02T03:04:05.1234567+01:00"'),
    Spelling("ts", "ts", "1735689600"),
    Spelling("ts", "ts", '"2025"'),
    Spelling("raw", "raw", '"YWJj"'),
    Spelling("raw", "raw", '"YWJ"'),
    Spelling("r", "R", '{"PRICE":1.0005,"At":"2025-01-02"}'),
    Spelling("m", "m", '{"K":1,"k":2}'),
    Spelling("a", "a", "[1.0,1.5]"),
]


@settings(max_examples=4)
@given(cases=st.lists(spellings(), min_size=60, max_size=60))
@example(cases=_KNOWN)
def test_one_value_means_the_same_at_every_entrance(fresh_directory: Directories, cases: list[Spelling]) -> None:
    with fresh_directory() as directory, ms.connect(directory / "db") as db:
        inbox = directory / "in"
        inbox.mkdir()
        flat = ", ".join(f"{name} {type_}" for name, type_ in FLAT.items())
        every = ", ".join([flat, *(f"{name} {type_}" for name, type_ in NESTED.items())])
        files = f"source = 'files', path = '{inbox}'"
        db.sql(
            f"CREATE STREAM lines (n BIGINT, {every}); CREATE STREAM plain (n BIGINT, how STRING, {every}); "
            f"CREATE STREAM json (n BIGINT, {every}) WITH ({files}, format = 'json', pattern = '*.json'); "
            f"CREATE STREAM csv (n BIGINT, {flat}) WITH ({files}, format = 'csv', pattern = '*.csv');"
            + " ".join(
                f"CREATE MATERIALIZED VIEW v_{s} AS SELECT * FROM {s};" for s in ("lines", "plain", "json", "csv")
            )
        )
        lines = [case.line(number) for number, case in enumerate(cases)]
        db.insert_lines("lines", lines)
        (inbox / "a.json").write_text("\n".join(lines))
        (inbox / "a.csv").write_text("\n".join(_csv(cases)))
        for number, case in enumerate(cases):
            for how, insert in _INSERTS.items():
                with suppress(ms.MillstreamError):
                    insert(db, number, how, case)
        db.drain()
        found = {name: _seen(db, name, cases) for name in _STREAMS[:3]}
        found |= {how: _seen(db, "plain", cases, f" WHERE how = '{how}'") for how in _INSERTS}
    differing = []
    for number, case in enumerate(cases):
        outcomes = {how: repr(seen.get(number, "no row")) for how, seen in found.items() if _can_say(how, case)}
        if len(set(outcomes.values())) != 1:
            differing.append((case, outcomes))
    assert not differing, "\n".join(map(str, differing))


def _csv(cases: list[Spelling]) -> list[str]:
    rows = [(number, case, case.csv()) for number, case in enumerate(cases)]
    return [
        ",".join([str(number), *(field if name == case.column else "" for name in FLAT)])
        for number, case, field in rows
        if field is not None
    ]


def _can_say(how: str, case: Spelling) -> bool:
    match how:
        case "csv":
            return case.csv() is not None
        case "values":
            return case.sql() is not None and ("e" not in case.token.lower() or _is_double(case))
        # Not what is beyond the types of Arrow.
        case "arrow":
            return _arrow(case) is not None
        # A program that gives a number for a text is told.
        case "dict" | "pandas" if case.column == "s":
            return not case.is_number and case.token not in ("true", "false")
        # In a data frame, NaN is what is missing.
        case "pandas":
            return case.token != "NaN"
        case "floats":
            return case.column != "s" and case.is_number and math.isfinite(float(case.token)) and _is_double(case)
    return True


def _is_double(case: Spelling) -> bool:
    """Whether a number is the same if it is a DOUBLE on its way, as one with an exponent is in SQL."""
    if not case.is_number or case.column == "x":
        return True
    return math.isfinite(float(case.token)) and Decimal(repr(float(case.token))) == Decimal(case.token)


def _insert_dict(db: ms.Database, number: int, how: str, case: Spelling) -> None:
    db.insert("plain", [{"n": number, "how": how, case.key: case.value()}])


def _insert_floats(db: ms.Database, number: int, how: str, case: Spelling) -> None:
    value = case.value()
    if isinstance(value, int | Decimal):
        db.insert("plain", [{"n": number, "how": how, case.key: float(value) if isinstance(value, Decimal) else value}])


def _arrow(case: Spelling) -> pa.Array | None:
    try:
        return pa.array([case.value()])
    except (pa.ArrowException, OverflowError):
        return None


def _insert_arrow(db: ms.Database, number: int, how: str, case: Spelling) -> None:
    if (column := _arrow(case)) is not None:
        db.insert("plain", pa.table({"n": [number], "how": [how], case.key: column}))


def _insert_pandas(db: ms.Database, number: int, how: str, case: Spelling) -> None:
    held = pd.Series([case.value()], dtype=object)
    db.insert("plain", pd.DataFrame({"n": [number], "how": [how], case.key: held}))


def _insert_values(db: ms.Database, number: int, how: str, case: Spelling) -> None:
    if (literal := case.sql()) is not None:
        db.sql(f"INSERT INTO plain (n, how, {case.column}) VALUES ({number}, '{how}', {literal})")


_INSERTS = {
    "dict": _insert_dict,
    "floats": _insert_floats,
    "arrow": _insert_arrow,
    "pandas": _insert_pandas,
    "values": _insert_values,
}


def _seen(db: ms.Database, stream: str, cases: list[Spelling], where: str = "") -> Seen:
    rows = db.query(f"SELECT * FROM v_{stream}{where}").rows()
    return {row["n"]: _canonical(row[cases[row["n"]].column]) for row in rows}


def _canonical(value: Any) -> Any:
    """A value as it is compared: zero has no sign, and the order of a map's entries does not count."""
    match value:
        case float():
            return value + 0.0
        case dict():
            return {key: _canonical(item) for key, item in sorted(value.items())}
        case list():
            return [_canonical(item) for item in value]
    return value
