"""What the JSON kernel takes, what it refuses, and that every line is read once however files are split."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.kernel import lines as kernel_lines
from millstream.kernel.json_lines import JsonKernel, JsonRefusedError, split

PAIR = pa.schema([("k", pa.int64()), ("v", pa.string())])


def of_type(type_: pa.DataType) -> pa.Schema:
    return pa.schema([("k", pa.int64()), ("v", type_)])


def decode(lines: bytes | Sequence[bytes | None], schema: pa.Schema = PAIR) -> pa.Table:
    given_ = lines if isinstance(lines, bytes) else pa.array(lines, pa.binary())
    table = JsonKernel.of(schema, {}).decode(given_)
    table.validate(full=True)
    assert table.schema == schema
    return table


# -- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (pa.bool_(), "true", True),
        (pa.int8(), "-128", -128),
        (pa.int64(), "-9223372036854775808", -(2**63)),
        (pa.int64(), "-0", 0),
        (pa.float64(), "1", 1.0),
        (pa.float64(), "-1.5E-3", -0.0015),
        (pa.float32(), "16777217", 16777216.0),
        (pa.decimal128(5, 2), "-999.9", Decimal("-999.90")),
        (pa.decimal128(5, 2), '"1e2"', Decimal("100.00")),
        (pa.date32(), '"2024-02-29"', date(2024, 2, 29)),
        (pa.timestamp("us"), '"2024-02-29"', datetime(2024, 2, 29)),
        (pa.timestamp("us"), '"2024-02-29T01:02:03"', datetime(2024, 2, 29, 1, 2, 3)),
        (pa.timestamp("us"), '"1969-12-31 23:59:59.999999"', datetime(1969, 12, 31, 23, 59, 59, 999999)),
        (pa.timestamp("us"), '"2024-02-29T01:02:03.5Z"', datetime(2024, 2, 29, 1, 2, 3, 500000)),
        (pa.string(), '" a "', " a "),
        (pa.string(), '""', ""),
        (pa.string(), '"\\u00e9\\ud83d\\ude00\\u0000\\n\\/\\\\"', "é😀\0\n/\\"),
        (pa.string(), '"{\\"a\\": [1, {}]}null"', '{"a": [1, {}]}null'),
        *((type_, "null", None) for type_ in (pa.bool_(), pa.int64(), pa.string(), pa.timestamp("us"), pa.date32())),
    ],
    ids=str,
)
def test_a_value_is_taken(type_: pa.DataType, text: str, value: Any) -> None:
    rows = decode(f'{{"k":1,"v":{text}}}\n{{"v":null}}\n{{}}\n'.encode(), of_type(type_))
    assert rows.column("v").to_pylist() == [value, None, None]


@pytest.mark.parametrize(
    ("type_", "texts"),
    [
        (pa.bool_(), ("1", '"true"', "TRUE", "tru")),
        (pa.int64(), ("1.0", "1e3", "+1", "01", '"1"', "9223372036854775808", "true", "[1]", "{}", "NaN", "")),
        (pa.int8(), ("128", "255", "-129")),
        (pa.float64(), ("NaN", "Inf", "-Infinity", "1e400", '"1"', '"NaN"', "-0", "-0.0", "1.", ".5")),
        (pa.float32(), ("1e39", "-0")),
        (pa.decimal128(5, 2), ("1.555", "1000", "NaN", '" 1"', '"1,5"', "true")),
        (pa.date32(), ("5", *map(json.dumps, ("2025-1-1", "2025-02-29", "2025-01-01T00:00:00", " 2025-01-01", "")))),
        (
            pa.timestamp("us"),
            (
                "1735689600",
                *map(
                    json.dumps,
                    (
                        "",
                        "2025-01-01 00",
                        "2025-01-01 00:01",
                        "2025-01-01 00:01:02.1234567",
                        "2025-01-01 00:01:02+01:00",
                        "2025-01-01 00:01-01",
                        "2025-01-01 24:00:00",
                        "2025-01-01 23:59:60",
                        "2025-01-01Z",
                        " 2025-01-01",
                    ),
                ),
            ),
        ),
        (
            pa.string(),
            ("5", "true", "'a'", '"\\ud83d"', '"\\ude00"', '"\\\\ud83d\\ude00"', '"\\x"', '"\t"', '"\0"', "[]", "{}"),
        ),
    ],
    ids=str,
)
def test_a_value_is_refused(type_: pa.DataType, texts: tuple[str, ...]) -> None:
    for text in texts:
        with pytest.raises(JsonRefusedError):
            decode(f'{{"k":1,"v":{text}}}'.encode(), of_type(type_))


def test_instants_are_all_zoned_or_none_is() -> None:
    with pytest.raises(JsonRefusedError):
        decode(b'{"v":"2025-01-01T00:00:00Z"}\n{"v":"2025-01-01T00:00:00"}\n', of_type(pa.timestamp("us")))


def test_text_that_is_no_utf8_is_refused() -> None:
    for line in (b'{"v":"\xff"}', b'{"v":"\xed\xa0\x80"}', b'{"other":"\xff"}', b'{"\xff":1}'):
        with pytest.raises(JsonRefusedError):
            decode(line)


# -- objects -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        '{"v":"a","k":1}',
        '{ "k" : 1 , "v" : "a" }',
        '{"\\u006b":1,"v":"a"}',
        '{"k":1,"v":"a","other":1.5e3,"L":2,"W":true}',
        '{"K":1,"V":"a"}',
        '{"K" : 1, "V":"a","other":"\\"K\\":2"}',
        '{"x":"a","k":1,"x":[1,[null]],"v":"a"}',
        '{"x":"{[}","k":1,"v":"a"}',
    ],
)
def test_an_object_is_taken(line: str) -> None:
    assert decode(f'{line}\n{{"k":2}}\n'.encode()).to_pydict() == {"k": [1, 2], "v": ["a", None]}


@pytest.mark.parametrize(
    "line",
    [
        b"null",
        b"1",
        b"[]",
        b"{",
        b"}",
        b'{"k":1,"k":1}',
        b'{"k":1,"K":1}',
        b'{"\\u004b":1}',
        b'{"k":null,"k":1}',
        b'{"x":{},"k":1}',
        b'{"x":[{}]}',
        b'{"x":NaN}',
        b'{"x":Inf}',
        b'{"x":01}',
        b'{"x":"\\ud800"}',
        b'{"x":"' + b"a" * 1000 + b'"}',
        b'{"k":1}{"k":2}',
        b'{"k":1}null{"k":2}',
        b'{"k":1}null}',
        b'{"k":1}"{"{"k":1}',
        b'{"k":1},',
        b'{"k":1,}',
        b'{"k":1}]',
        b'{"v":"}',
        b'{"v":"\\"}',
        b' {"k":1}',
        b'{"k":1}\t',
        b"{'k':1}",
        b'{"k":1/**/}',
    ],
    ids=str,
)
def test_a_line_is_refused(line: bytes) -> None:
    """On its own, among others, and where the number of rows would come out right."""
    for text in (line, b'{"k":1}\n' + line + b'\n{"k":2}\n', line + b'\n{"k":\n2}', [line], [line, b'{"k":1}']):
        with pytest.raises(JsonRefusedError):
            decode(text)


@pytest.mark.parametrize(
    ("length", "field", "is_taken"),
    [(400, "d", True), (600, "d", True), (1100, "d", False), (400, "x", True), (1100, "x", False)],
)
def test_long_numbers(length: int, field: str, is_taken: bool) -> None:
    """Spark's parser has a limit for them, whether they are of a column or not."""
    line = f'{{"{field}":0.{"1" * length}}}'.encode()
    schema = pa.schema([("d", pa.float64())])
    if is_taken:
        assert decode(line, schema).num_rows == 1
    else:
        with pytest.raises(JsonRefusedError):
            decode(line, schema)


def test_long_texts_are_taken() -> None:
    line = json.dumps({"k": 1, "v": "ab" * 100_000}).encode()
    assert decode([line, line]).num_rows == 2
    with pytest.raises(JsonRefusedError):
        decode([json.dumps({"v": "ab" * 2_500_000}).encode()])


# -- lines ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "keys"),
    [
        (b"", []),
        (b"\n\n", []),
        (b"  \n \n", []),
        (b'{"k":1}', [1]),
        (b'{"k":1}\n\n  \n{"k":2}\n\n', [1, 2]),
        (b'{"k":1}\r\n\r\n \r\n{"k":2}\r\n', [1, 2]),
        (b"{}\n", [None]),
    ],
    ids=str,
)
def test_lines_of_a_text(content: bytes, keys: list[int | None]) -> None:
    assert decode(content).column("k").to_pylist() == keys


@pytest.mark.parametrize(
    "content",
    [
        b"\t\n",
        b'{"k":1}\r{"k":2}\n',
        b'{"k":1}\r',
        b'\xef\xbb\xbf{"k":1}\n',
        b'{"k":1}\n{"k":2',
        b'{"k":\n1}\n',
        b'{"k":1}{"k":2}\n\n',
        b'{"v":"a\nb"}\n',
        b'\0\n{"k":1}',
    ],
    ids=str,
)
def test_texts_that_are_refused(content: bytes) -> None:
    with pytest.raises(JsonRefusedError):
        decode(content)


@pytest.mark.parametrize("type_", [pa.binary(), pa.large_binary(), pa.string()], ids=str)
def test_lines_of_an_array(type_: pa.DataType) -> None:
    kernel = JsonKernel.of(PAIR, {})
    lines = pa.array(['{"k":0}', '{"k":1}', '{"k":2}', '{"k":3}'], type_)
    assert kernel.decode(lines).column("k").to_pylist() == [0, 1, 2, 3]
    assert kernel.decode(lines[1:3]).column("k").to_pylist() == [1, 2]
    assert kernel.decode(lines[:0]).num_rows == 0


@pytest.mark.parametrize(
    "lines",
    [
        [b""],
        [b" "],
        [None],
        [b'{"k":1}', b""],
        [b'{"k":1}', None],
        [b'{"k":1}\n{"k":2}'],
        [b'{"k":1}\n{"k":2}', b""],
        [b'{"k":', b"1}"],
        [b'{"v":"}', b'{","k":1}', b"{}{}"],
    ],
    ids=str,
)
def test_arrays_that_are_refused(lines: list[bytes | None]) -> None:
    with pytest.raises(JsonRefusedError):
        decode(lines)


def test_much_at_once() -> None:
    lines = [f'{{"k":{n},"v":"{"x" * (n % 100)}"}}'.encode() for n in range(40_000)]
    assert decode(lines).column("k").to_pylist() == list(range(40_000))
    assert decode(b"\n".join(lines)).column("k").to_pylist() == list(range(40_000))


# -- what is known before reading ----------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{"timestampFormat": "yyyy"}, {"multiLine": "true"}, {"mode": "PERMISSIVE"}], ids=str
)
def test_options_that_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(JsonRefusedError):
        JsonKernel.of(PAIR, options)


@pytest.mark.parametrize(
    "schema",
    [
        *(of_type(t) for t in (pa.binary(), pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.timestamp("ns"))),
        of_type(pa.map_(pa.string(), pa.int64())),
        pa.schema([]),
        pa.schema([("k", pa.int64()), ("k", pa.int64())]),
        pa.schema([("k", pa.int64()), ("_corrupt_record", pa.string())]),
    ],
    ids=str,
)
def test_schemas_that_are_refused(schema: pa.Schema) -> None:
    with pytest.raises(JsonRefusedError):
        JsonKernel.of(schema, {})


def test_a_kernel_travels() -> None:
    kernel = JsonKernel.of(PAIR, {})
    assert pickle.loads(pickle.dumps(kernel)) == kernel


# -- files ---------------------------------------------------------------------------------------


def read(path: Path, content: bytes, schema: pa.Schema = PAIR, parallelism: int = 1) -> pa.Table:
    path.write_bytes(content)
    kernel = JsonKernel.of(schema, {})
    ranges = [range_ for task in split([str(path)], parallelism) for range_ in task]
    return pa.Table.from_batches([b for range_ in ranges for b in kernel.read(range_)], kernel.output())


def test_rows_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"k":1,"v":"2024-02-29T01:02:03"}\n\n{"k":2}\n')
    os.utime(path, ns=(0, 1_700_000_000_123_456_789))
    ((range_,),) = split([str(path)], 2)
    (batch,) = JsonKernel.of(of_type(pa.timestamp("us")), {}).read(range_)
    assert batch.column("v").to_pylist() == [datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC), None]
    assert batch.column("__landed").to_pylist() == [1_700_000_000_123_000] * 2
    path.write_bytes(b"{}\n")
    with pytest.raises(JsonRefusedError):
        list(JsonKernel.of(PAIR, {}).read(range_))


@pytest.mark.parametrize("name", ["in.json.gz", "in.gz", "in.csv", "in.JSON", "a*.json"])
def test_names_that_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"{}\n")
    with pytest.raises(JsonRefusedError):
        split([str(tmp_path / name)], 2)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.text('ab,é {}"\\', max_size=6), max_size=30),
    ending=st.sampled_from(["\n", "\r\n", "\n\n"]),
    last=st.booleans(),
    parallelism=st.integers(1, 20),
)
def test_every_line_is_read_once(tmp_path: Path, texts: list[str], ending: str, last: bool, parallelism: int) -> None:
    """However the file is cut into tasks and chunks, also in the middle of a character."""
    lines = [json.dumps({"k": index, "v": text}, ensure_ascii=False) for index, text in enumerate(texts)]
    content = ending.join(lines) + (ending if last and lines else "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_lines, "CHUNK_BYTES", 64)
        patch.setattr(kernel_lines, "TASK_BYTES", 100)
        rows = read(tmp_path / "in.json", content.encode(), parallelism=parallelism)
    assert rows.column("k").to_pylist() == list(range(len(texts)))
    assert rows.column("v").to_pylist() == texts
