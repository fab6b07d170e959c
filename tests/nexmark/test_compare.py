"""The comparison that all the others rest on: it must find what is wrong."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from .compare import difference

AT = datetime(2015, 7, 15)
ROWS: list[dict[str, object]] = [
    {"id": 1, "name": "a", "share": 0.5, "at": AT},
    {"id": 1, "name": "a", "share": 0.5, "at": AT},
    {"id": 2, "name": None, "share": 7420517.5, "at": AT},
    {"id": 3, "name": "c", "share": None, "at": None},
]
FIRST, *REST = ROWS


def relation(rows: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(rows)


def test_the_same_rows_in_another_order() -> None:
    assert difference(relation(ROWS[::-1]), relation(ROWS)) is None


def test_a_fraction_may_be_rounded_in_another_way() -> None:
    rounded = relation([*ROWS[:2], {**ROWS[2], "share": 7420517.5 * (1 + 1e-12)}, ROWS[3]])
    assert difference(rounded, relation(ROWS)) is None
    decimals = pa.table({"x": pa.array([Decimal("0.908"), Decimal("1.816")], pa.decimal128(20, 3))})
    assert difference(decimals, pa.table({"x": [1.816, 0.908]})) is None


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(REST, id="a row of several is missing"),
        pytest.param([*ROWS, FIRST], id="a row is there twice"),
        pytest.param([{**FIRST, "id": 2}, *REST], id="another number"),
        pytest.param([{**FIRST, "name": "b"}, *REST], id="another text"),
        pytest.param([{**FIRST, "name": None}, *REST], id="null instead of a text"),
        pytest.param([{**FIRST, "share": 0.50001}, *REST], id="another fraction"),
        pytest.param([{**FIRST, "share": None}, *REST], id="null instead of a fraction"),
        pytest.param([*ROWS[:3], {**ROWS[3], "share": 0.0}], id="a fraction instead of null"),
        pytest.param([{**FIRST, "at": AT.replace(microsecond=1)}, *REST], id="another instant"),
        pytest.param([{"id": row["id"], "name": row["name"], "at": row["at"]} for row in ROWS], id="other columns"),
    ],
)
def test_what_is_wrong_is_found(wrong: list[dict[str, object]]) -> None:
    assert difference(relation(wrong), relation(ROWS))
    assert difference(relation(ROWS), relation(wrong))


def test_nothing_is_not_something() -> None:
    nothing = relation(ROWS).slice(0, 0)
    assert difference(nothing, nothing) is None
    assert difference(nothing, relation(ROWS))
