"""Values as a producer may spell them, for columns of every type: what goes in at each entrance of a stream.

A spelling is a token of JSON. Each entrance has a form of it: a key of a line, a field of CSV, a value of Python, of
Arrow or of pandas, a literal of SQL. Where an entrance cannot say it, there is no form.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

FLAT = {
    "b": "BOOLEAN",
    "t": "TINYINT",
    "i": "BIGINT",
    "f": "FLOAT",
    "x": "DOUBLE",
    "d": "DECIMAL(9, 3)",
    "w": "DECIMAL(38, 10)",
    "day": "DATE",
    "ts": "TIMESTAMP",
    "s": "STRING",
    "raw": "BINARY",
}
NESTED = {
    "a": "ARRAY<BIGINT>",
    "m": "MAP<STRING, DOUBLE>",
    "r": "STRUCT<Price: DECIMAL(9, 3), at: TIMESTAMP, tags: ARRAY<STRING>>",
}
_NUMBER = re.compile(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?")
NUMBERS = frozenset("tifxdw")
TEXTS = frozenset({"d", "w", "day", "ts", "s", "raw", "f", "x"})


@dataclass(frozen=True)
class Spelling:
    """A value for one column; `key` is the column's name in any case."""

    column: str
    key: str
    token: str

    @property
    def is_number(self) -> bool:
        return self.token[0] in "-0123456789" and self.token != "-Infinity"

    @property
    def text(self) -> str | None:
        return json.loads(self.token) if self.token.startswith('"') else None

    def line(self, number: int) -> str:
        return f'{{"n": {number}, {json.dumps(self.key)}: {self.token}}}'

    def value(self) -> Any:
        """The value in Python."""
        return json.loads(self.token, parse_float=Decimal)

    def csv(self) -> str | None:
        """The field of CSV: only where a number or text is meant, which CSV cannot tell apart."""
        if self.column in NESTED:
            return None
        if self.token == "null":
            return ""
        if self.token in ("true", "false"):
            return self.token if self.column == "b" else None
        if self.text is not None:
            # Of a column of numbers, a text that spells one is a number to CSV.
            if (
                self.column not in TEXTS
                or not self.text.strip()
                or (self.column in "fx" and _NUMBER.fullmatch(self.text))
            ):
                return None
            return '"' + self.text.replace('"', '""') + '"'
        return self.token if self.column in NUMBERS else None

    def sql(self) -> str | None:
        """The literal."""
        if self.token in ("NaN", "Infinity", "-Infinity") or self.token[0] in "[{":
            return None
        if self.column == "s" and self.is_number and "e" in self.token.lower():
            # A DOUBLE in SQL, which has another text.
            return None
        if self.text is None:
            return self.token
        return "'" + self.text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_NUMBERS = """
0 -0 1 -1 1.0 1e0 10e-1 1.5 -0.0 127 128 255 -129 1e400 -1e400 1e-400 1e18 1e19 9223372036854775807
9223372036854775808 9007199254740993 123456789012345678901234567890 3.4028235e38 3.5e38 16777217
999999.999 999999.9995 1.0005 -1.0005 0.0004 1735689600
"""
_known_numbers = st.sampled_from(_NUMBERS.split())
_numbers = st.one_of(
    _known_numbers,
    st.integers(-300, 300).map(str),
    st.integers(-(2**65), 2**65).map(str),
    st.from_regex(r"-?(0|[1-9][0-9]{0,8})\.[0-9]{1,8}", fullmatch=True),
    st.from_regex(r"-?[1-9](\.[0-9]{1,5})?[eE][-+]?[0-9]{1,2}", fullmatch=True),
)
_days = st.one_of(st.dates().map(str), st.from_regex(r"20[0-9]{2}-[01]?[0-9]-[0-3]?[0-9]", fullmatch=True))
_instants = st.builds(
    lambda day, mark, time, fraction, zone: day + (mark + time + fraction + zone if mark else ""),
    _days,
    st.sampled_from([" ", "T", "T", "", "  "]),
    st.from_regex(r"[0-2][0-9]:[0-5][0-9](:[0-6][0-9])?", fullmatch=True),
    st.sampled_from(["", "", ".5", ".123456", ".1234567", ",5"]),
    st.sampled_from(["", "", "Z", "+01:00", "-0330", "+02", " UTC", " Europe/Berlin", "CEST", "+19:00"]),
)
_texts = st.one_of(
    st.sampled_from(
        ["", "a", "é", " a ", "true", "True", "1", "1.5", "NaN", "Infinity", "-Inf", "nan", "null", "YWJj"]
    ),
    st.sampled_from(["YWJ", "5", "+1.5", "1,5", "2025", "20250101", "now", "1e2", "0x1", "12:30:00", "a\\b", "it's"]),
    _days,
    _instants,
).map(lambda text: json.dumps(text, ensure_ascii=False))
_flat_tokens = st.one_of(
    _numbers, _numbers, _texts, _texts, st.sampled_from(["true", "false", "null", "NaN", "Infinity", "-Infinity"])
)
_nested_tokens = {
    "a": st.lists(st.one_of(_numbers, st.sampled_from(["null", '"1"'])), max_size=3).map(
        lambda items: f"[{','.join(items)}]"
    ),
    "m": st.dictionaries(st.sampled_from(["k", "K", "price"]), _numbers, max_size=3).map(
        lambda held: "{" + ",".join(f'"{key}":{value}' for key, value in held.items()) + "}"
    ),
    "r": st.lists(
        st.one_of(
            st.builds('"{}":{}'.format, st.sampled_from(["Price", "price", "PRICE"]), _numbers),
            st.builds('"{}":{}'.format, st.sampled_from(["at", "At"]), _instants.map(json.dumps)),
            st.builds('"{}":{}'.format, st.sampled_from(["tags", "Tags"]), st.sampled_from(['["a",null]', "[]", "5"])),
            st.just('"more":{"x":[1]}'),
        ),
        max_size=3,
        unique_by=lambda pair: pair.split('"')[1].lower(),
    ).map(lambda pairs: "{" + ",".join(pairs) + "}"),
}


@st.composite
def spellings(draw: st.DrawFn) -> Spelling:
    column = draw(st.sampled_from([*FLAT, *NESTED]))
    fitting = _nested_tokens.get(column, _numbers if column in NUMBERS else _flat_tokens)
    token = draw(st.one_of(fitting, fitting, _instants.map(json.dumps) if column == "ts" else _flat_tokens))
    return Spelling(column, draw(st.sampled_from([column, column.upper(), column.title()])), token)
