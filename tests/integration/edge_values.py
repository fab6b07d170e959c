"""The edges of every type that a function may take, as Arrow.

Owns the values; `agreement.py` runs calls over them. NULL is an edge of every type.
"""

from __future__ import annotations

import random
from datetime import date, datetime
from decimal import Decimal
from itertools import product
from math import inf, nan, prod
from typing import Any

import pyarrow as pa

_BIG = 2**63

TYPES: dict[str, pa.DataType] = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "COUNT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DECIMAL(10, 2)": pa.decimal128(10, 2),
    "STRING": pa.string(),
    "JSON": pa.string(),
    "BINARY": pa.binary(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "ARRAY<INT>": pa.list_(pa.int32()),
    "ARRAY<STRING>": pa.list_(pa.string()),
    "ARRAY<DOUBLE>": pa.list_(pa.float64()),
    "ARRAY<ARRAY<INT>>": pa.list_(pa.list_(pa.int32())),
    "MAP<STRING, INT>": pa.map_(pa.string(), pa.int32()),
}

_REAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 2.345, 1e10, 123456789.125, nan, inf, -inf]

VALUES: dict[str, list[Any]] = {
    "TINYINT": [0, 1, -1, 7, 127, -128],
    "SMALLINT": [0, 1, -1, 7, 32767, -32768],
    "INT": [0, 1, -1, 2, 7, -7, 15, 65, 2024, 2**31 - 1, -(2**31)],
    "COUNT": [0, 1, 2, 3, -1, -2, 12, 29, 31, 70],
    "BIGINT": [0, 1, -1, 7, -7, 60, 1_700_000_000, 1_700_000_000_123_456, 2**53 + 1, _BIG - 1, -_BIG],
    "FLOAT": [*_REAL[:13], 3.4028234663852886e38, 1.401298464324817e-45, nan, inf, -inf],
    "DOUBLE": [*_REAL, 1e-5, 1e22, 1.7976931348623157e308, 5e-324, 9.223372036854775e18, 2147483647.5],
    "DECIMAL(10, 2)": [
        Decimal(text)
        for text in ("0.00", "0.01", "-0.01", "1.00", "2.50", "-2.50", "2.45", "3.33", "99999999.99", "-99999999.99")
    ],
    "STRING": [
        "",
        " ",
        "a",
        "A",
        "b",
        "ab",
        "abc a1b22",
        "a,b,,c",
        "aaa",
        "  x \t",
        "a\nb",
        "b\n",
        "100%",
        "_",
        "é",
        "e\u0301",  # the same letter with a combining mark
        "ß",
        "İ",
        "ΑΣ",
        "\U0001f600z",  # astral plane
        "日本語",
        "12",
        " 12 ",
        "-7",
        "+3",
        "1.5",
        "1e3",
        "NaN",
        "-Infinity",
        "true",
        "F",
        "99999999999999999999",
        "2024-02-29",
        "2024-02-30",
        "0001-01-01",
        "1582-10-10",
        "29/02/2024",
        "29/02/2024 13:04",
        "2024-03-10 02:30:00",
        "2016-12-31T23:59:60Z",
        "2024-01-02 03:04:05.678901",
        "YWJj",
        "616263",
        "6162zz",
        "hello wORLD-foo",
    ],
    "JSON": [
        '{"a": 1}',
        '{"a": {"b": [1, "two"]}}',
        '{"a": null}',
        '{"a": "x\\u00e9"}',
        '{"a": 1.50}',
        '{"a": [1, 2 ]}',
        "[]",
        "[1, 2]",
        "not json",
        "",
        "7",
    ],
    "BINARY": [b"", b"\x00", b"abc", b"\xff\xfe", "é".encode()],
    "BOOLEAN": [True, False],
    "DATE": [
        date(1970, 1, 1),
        date(1, 1, 1),
        date(9999, 12, 31),
        date(1582, 10, 4),
        date(1582, 10, 10),
        date(1582, 10, 15),
        date(1900, 2, 28),
        date(2000, 2, 29),
        date(2024, 1, 31),
        date(2024, 2, 29),
        date(2024, 12, 30),
        date(2021, 1, 3),
    ],
    "TIMESTAMP": [
        datetime(1970, 1, 1),
        datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime(1, 1, 1),
        datetime(9999, 12, 31, 23, 59, 59, 999999),
        datetime(1582, 10, 4, 12),
        datetime(1582, 10, 10, 0, 0, 0, 1),
        datetime(2024, 3, 10, 2, 30),  # does not exist in New York
        datetime(2024, 10, 27, 1, 30),  # exists twice in London
        datetime(2016, 12, 31, 23, 59, 59, 999999),  # a leap second follows
        datetime(2024, 2, 29, 13, 4, 5, 678901),
        datetime(2024, 1, 31, 0, 0, 0, 500000),
        datetime(2023, 1, 1),
    ],
    "ARRAY<INT>": [[], [1], [1, 2, 1], [None], [3, None, 2], [2**31 - 1, 0, -1]],
    "ARRAY<STRING>": [[], ["a"], ["b", "a", "b"], [None, ""], ["é", "\U0001f600", None]],
    "ARRAY<DOUBLE>": [[], [nan, 1.0, nan], [0.0, -0.0], [None, inf, -inf, nan], [1.5]],
    "ARRAY<ARRAY<INT>>": [[], [[1], [2, 3]], [[], [None]], [[1], None]],
    "MAP<STRING, INT>": [[], [("a", 1)], [("b", 2), ("a", None)], [("", 0)]],
}


def table(types: tuple[str, ...], limit: int) -> pa.Table:
    """Rows `id`, `a0`, `a1`, … over the edges of the types: all combinations, or as many as are allowed.

    Every value of every argument occurs, and so do rows of NULLs.
    """
    edges = [[None, *VALUES[type_]] for type_ in types]
    if not types:
        rows: list[tuple[Any, ...]] = [()]
    elif prod(len(values) for values in edges) <= limit:
        rows = list(product(*edges))
    else:
        chance = random.Random(repr(types))
        widest = max(len(values) for values in edges)
        rows = [tuple(values[(i * (k + 1)) % len(values)] for k, values in enumerate(edges)) for i in range(widest)]
        rows += [(value,) * len(edges) for value in edges[0]] if len(set(types)) == 1 else []
        rows += [tuple(chance.choice(values) for values in edges) for _ in range(limit - len(rows))]
    columns = {"id": pa.array(range(len(rows)), pa.int32())}
    for index, type_ in enumerate(types):
        columns[f"a{index}"] = pa.array([row[index] for row in rows], TYPES[type_])
    return pa.table(columns)
