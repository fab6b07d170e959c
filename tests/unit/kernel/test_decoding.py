"""Lines as rows: a row for every line, and a reason for each that is dead."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.kernel.decoding import LineDecoder
from millstream.plan.slices import CUT_LINE

SCHEMA = pa.schema([("n", pa.int64()), ("Name", pa.string()), ("tags", pa.map_(pa.string(), pa.int64()))])
FLAT = pa.schema([("n", pa.int64()), ("Name", pa.string())])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "malformed json: Expecting value at character 0"),
        (b"[1]", "malformed json: expected an object, got [1]"),
        (b'{"n": "a"}', 'malformed json: n is BIGINT, got "a"'),
        (b'{"n": 1, "N": 1}', "malformed json: n is given twice"),
        (b'{"n": 1} {"n": 2}', "malformed json: Extra data at character 9"),
        (b'{"x": ' + b"[" * 100_000, "malformed json: nested too deeply"),
        (b'{"x": ' + b"1" * 5_000 + b"}", "malformed json: a number with too many digits"),
        (b'{"Name": "\\ud83d"}', 'malformed json: Name is STRING, got "\\ud83d"'),
        (b"\xff", "invalid UTF-8"),
        (b"{" + CUT_LINE, "line too long"),
        (None, "malformed json"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_line_that_is_no_row_has_a_reason(line: bytes | None, reason: str) -> None:
    good = b'{"N": 1.0, "NAME": "a", "Tags": {"K": 2}, "more": {}}'
    decoded = LineDecoder(SCHEMA, "json").decode([good, line, good])
    row = {"n": 1, "Name": "a", "tags": [("K", 2)]}
    assert decoded.rows.to_pylist() == [row, dict.fromkeys(row), row]
    assert decoded.reasons.to_pylist() == [None, reason, None]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"  ", "malformed csv: a line without values"),
        (b"1", "malformed csv: got 1 values for 2 columns"),
        (b"a,b", 'malformed csv: n is BIGINT, got "a"'),
        (b'1,"b', "malformed csv: a quote is not closed"),
        (b'1,"b"c', "malformed csv: a value goes on after its closing quote"),
        (b"1,\xff", "invalid UTF-8"),
    ],
    ids=str,
)
def test_a_record_that_is_no_row_has_a_reason(line: bytes, reason: str) -> None:
    decoded = LineDecoder(FLAT, "csv").decode([b"1,", line, b'+2.0,"a ""b"", c\nd"', b'3,"a \\"b\\""'])
    assert decoded.reasons.to_pylist() == [None, reason, None, None]
    assert [row["Name"] for row in decoded.rows.to_pylist()] == [None, None, 'a "b", c\nd', 'a "b"']
    assert decoded.rows.column("n").to_pylist() == [1, None, 2, 3]


@settings(max_examples=100, deadline=None)
@given(numbers=st.lists(st.integers(-(2**70), 2**70), max_size=1200), bad=st.sets(st.integers(0, 1199)))
def test_there_is_a_row_for_every_line_in_order(numbers: list[int], bad: set[int]) -> None:
    """Whether the faster way takes the lines around it or not."""
    lines = [b"{" if at in bad else b'{"n":%d}' % number for at, number in enumerate(numbers)]
    decoded = LineDecoder(FLAT, "json").decode(lines)
    fits = [at not in bad and -(2**63) <= number < 2**63 for at, number in enumerate(numbers)]
    assert [reason is None for reason in decoded.reasons.to_pylist()] == fits
    expected = [number if fit else None for number, fit in zip(numbers, fits, strict=True)]
    assert decoded.rows.column("n").to_pylist() == expected
