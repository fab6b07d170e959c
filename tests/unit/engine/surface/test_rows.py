"""Rows as programs hand them in, and what is refused before anything is written."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from millstream.engine.surface.result import Result
from millstream.engine.surface.rows import to_table
from millstream.model.errors import MillstreamError
from millstream.model.schema import TIMESTAMP, Column, Schema

SCHEMA = Schema(
    (
        Column("k", pa.string()),
        Column("n", pa.int64()),
        Column("x", pa.float64()),
        Column("d", pa.decimal128(10, 2)),
        Column("day", pa.date32()),
        Column("ts", TIMESTAMP),
    )
)
NOON = datetime(2025, 1, 1, 12)


def one(**row: Any) -> dict[str, Any]:
    (result,) = to_table([row], SCHEMA, "s").to_pylist()
    return {name: result[name] for name in row if name in result}


@pytest.mark.parametrize(
    "value",
    [
        NOON,
        NOON.replace(tzinfo=UTC),
        datetime(2025, 1, 1, 14, tzinfo=timezone(timedelta(hours=2))),
        "2025-01-01 12:00:00",
        "2025-01-01T12:00:00Z",
        1_735_732_800,
        1_735_732_800.0,
        pd.Timestamp("2025-01-01 12:00"),
    ],
)
def test_instants_in_every_spelling(value: Any) -> None:
    assert one(ts=value) == {"ts": NOON}


def test_what_is_missing_is_null_and_names_are_found_in_any_case() -> None:
    assert to_table([{"K": "a"}], SCHEMA, "s").to_pylist() == [
        {"k": "a", "n": None, "x": None, "d": None, "day": None, "ts": None}
    ]


def test_names_are_found_in_any_case_in_every_row() -> None:
    rows = [{"k": "a"}, {"K": "b"}, {"k": "c", "N": 1}]
    assert to_table(rows, SCHEMA, "s").select(["k", "n"]).to_pylist() == [
        {"k": "a", "n": None},
        {"k": "b", "n": None},
        {"k": "c", "n": 1},
    ]
    with pytest.raises(MillstreamError, match="given twice"):
        to_table([{"k": "a"}, {"k": "b", "K": "c"}], SCHEMA, "s")


def test_a_decimal_is_what_is_written() -> None:
    assert one(d=1.1) == {"d": Decimal("1.10")}
    assert one(d="2.5") == {"d": Decimal("2.50")}
    assert one(d=Decimal("1.005")) == {"d": Decimal("1.01")}
    assert one(d="-1.005") == {"d": Decimal("-1.01")}
    assert one(d=0.1 + 0.2) == {"d": Decimal("0.30")}
    assert one(day="2025-01-01") == {"day": date(2025, 1, 1)}


def test_a_whole_number_is_the_nearest_floating_one() -> None:
    assert one(x=2**53 + 1) == {"x": float(2**53)}


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ({"n": "1"}, "n"),
        ({"n": 1.5}, "n"),
        ({"n": True}, "n"),
        ({"n": 2**63}, "n"),
        ({"x": "a"}, "x"),
        ({"d": "abc"}, "d"),
        ({"d": "99999999.995"}, "d"),
        ({"d": True}, "d"),
        ({"ts": "yesterday"}, "ts"),
        ({"ts": True}, "ts"),
        ({"k": 5}, "k"),
        ({"k": np.int64(5)}, "k"),
    ],
)
def test_one_row_that_does_not_fit_refuses_all_and_is_named(row: dict[str, Any], column: str) -> None:
    with pytest.raises(MillstreamError) as caught:
        to_table([{"k": "good"}, row], SCHEMA, "s")
    assert caught.value.code == "TYPE_MISMATCH"
    assert caught.value.message.startswith(f"row 1: column {column} ")


@pytest.mark.parametrize("rows", [{"k": "a"}, 5, "k", [5]])
def test_what_are_no_rows(rows: Any) -> None:
    with pytest.raises(MillstreamError, match="row") as caught:
        to_table(rows, SCHEMA, "s")
    assert caught.value.code == "BAD_ROWS"


def test_an_unknown_column_comes_with_a_guess() -> None:
    with pytest.raises(MillstreamError) as caught:
        to_table([{"dya": "2025-01-01"}], SCHEMA, "s")
    assert caught.value.code == "UNKNOWN_COLUMN"
    assert caught.value.hint == "did you mean 'day'?"


def test_frames_and_tables() -> None:
    frame = pd.DataFrame({"n": [1, 2], "ts": pd.to_datetime(["2025-01-01 12:00:00.000000001", "NaT"])})
    expected = [{"n": 1, "ts": NOON}, {"n": 2, "ts": None}]
    assert to_table(frame, SCHEMA, "s").select(["n", "ts"]).to_pylist() == expected
    zoned = pa.table({"n": [1], "ts": pa.array([NOON], pa.timestamp("ms", "UTC"))})
    assert to_table(zoned, SCHEMA, "s").select(["n", "ts"]).to_pylist() == expected[:1]
    with pytest.raises(MillstreamError) as caught:
        to_table(pa.table({"n": ["a"]}), SCHEMA, "s")
    assert caught.value.code == "TYPE_MISMATCH"


def test_wide_sums_are_integers_in_python() -> None:
    table = pa.table({"s": pa.array([Decimal(5), None], pa.decimal128(38, 0))})
    assert Result(table).rows() == [{"s": 5}, {"s": None}]
    assert type(Result(table).rows()[0]["s"]) is int
    assert Result(table.slice(0, 1)).to_pandas()["s"].dtype == "int64"
    wide = pa.table({"s": pa.array([Decimal(2**70)], pa.decimal128(38, 0))})
    assert Result(wide).rows() == [{"s": 2**70}]
    assert Result(wide).to_pandas()["s"][0] == 2**70


def test_results_have_no_zones() -> None:
    table = pa.table({"t": pa.array([NOON], pa.timestamp("us", "UTC"))})
    assert Result(table).rows() == [{"t": NOON}]
