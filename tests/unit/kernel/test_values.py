"""The rule by which values are read, and whom it does not let in."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from millstream.kernel.values import json_value, read_column, read_texts

INSTANT = pa.timestamp("us")
PRICE = pa.struct([("Price", pa.int64()), ("tags", pa.list_(pa.string()))])
COUNTS = pa.map_(pa.string(), pa.int64())


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (pa.int8(), -128, -128),
        (pa.int64(), 1.0, 1),
        (pa.int64(), Decimal("10e-1"), 1),
        (pa.int64(), Decimal("0e999999"), 0),
        (pa.float64(), 2**53 + 1, 2.0**53),
        (pa.float64(), Decimal("1e-400"), 0.0),
        (pa.float64(), "-Infinity", -math.inf),
        (pa.float32(), Decimal("1.00000017881393421514957253748434595763"), 1.0000001192092896),
        (pa.decimal128(5, 2), "1e2", Decimal("100.00")),
        (pa.decimal128(5, 2), Decimal("999.994"), Decimal("999.99")),
        (pa.string(), b"abc", "abc"),
        (pa.string(), 5, "5"),
        (pa.string(), True, "true"),
        (pa.string(), 1e-7, "0.0000001"),
        (pa.string(), json_value("1.50"), "1.50"),
        (pa.string(), json_value("15e1"), "150"),
        (pa.string(), json_value('{"a":[1.50,null]}'), '{"a":[1.50,null]}'),
        (pa.binary(), "YWJj", b"abc"),
        (pa.date32(), "2025-1-2", date(2025, 1, 2)),
        (pa.date32(), datetime(2025, 1, 2), date(2025, 1, 2)),
        (INSTANT, "2025-01-02 03", datetime(2025, 1, 2, 3)),
        (INSTANT, "2025-01-02T03:04:05.1234567+01:00", datetime(2025, 1, 2, 2, 4, 5, 123456)),
        (INSTANT, "2025-07-02 03:04 Europe/Berlin", datetime(2025, 7, 2, 1, 4)),
        (INSTANT, datetime(2025, 1, 2, tzinfo=UTC), datetime(2025, 1, 2)),
        (INSTANT, Decimal("-0.5"), datetime(1969, 12, 31, 23, 59, 59, 500000)),
        (PRICE, json_value('{"PRICE":1,"more":{},"Tags":["a"]}'), {"Price": 1, "tags": ["a"]}),
        (COUNTS, json_value('{"K":1,"k":null}'), [("K", 1), ("k", None)]),
    ],
    ids=str,
)
def test_a_value_fits(type_: pa.DataType, value: Any, expected: Any) -> None:
    found, misfits = read_column([value, None], type_)
    assert (found.to_pylist(), misfits) == ([expected, None], {})


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.bool_(), (0, "true", 1.0)),
        (pa.int8(), (128, 200, "1", True, 1.5, Decimal("1e999999999"), math.nan)),
        (pa.float64(), (Decimal("1e400"), 10**400, "1.5", "nan", True)),
        (pa.float32(), (Decimal("1e39"), 1e39)),
        (pa.decimal128(5, 2), ("999.995", "1_000", " 1", "NaN", math.inf, True, Decimal("1e999999"))),
        (pa.string(), (math.inf, Decimal("1e400"), Decimal("0e-999999"), b"\xff", "\ud83d", date(2025, 1, 1))),
        (pa.binary(), ("YWJ", "ä", 5)),
        (pa.date32(), ("2025", "2025-02-29", "2025-01-01T00:00:00", datetime(2025, 1, 1, 1), 5)),
        (INSTANT, ("2025", "2025-01-01Z", "2025-01-01 24:00", "2025-01-01 1:00 CEST", "1:00", True, math.nan, 10**12)),
        (PRICE, (json_value('{"Price":1,"price":2}'), [1], "{}", json_value('{"tags":"a"}'))),
        (COUNTS, (json_value('{"k":1,"k":2}'), json_value('{"k":"a"}'), {None: 1})),
        (pa.list_(pa.int64()), ("12", json_value("{}"), [1.5])),
    ],
    ids=str,
)
def test_a_value_does_not_fit(type_: pa.DataType, values: tuple[Any, ...]) -> None:
    for value in values:
        found, misfits = read_column([value, None], type_)
        assert (found.null_count, len(misfits)) == (2, 1), value


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        (pa.bool_(), " TRUE", True),
        (pa.int64(), "+007", 7),
        (pa.int64(), "1.0 ", 1),
        (pa.float64(), ".5", 0.5),
        (pa.float64(), "-Inf", -math.inf),
        (pa.string(), " a ", " a "),
        (pa.list_(pa.int64()), "[1, 2]", [1, 2]),
    ],
    ids=str,
)
def test_a_text_is_read(type_: pa.DataType, text: str, expected: Any) -> None:
    found, misfits = read_texts([text, None, "\x00"], type_)
    assert found.to_pylist()[:2] == [expected, None]
    assert list(misfits) == ([] if pa.types.is_string(type_) else [2])
