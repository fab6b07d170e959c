"""The JSON kernel against Spark's `from_json`, which defines what a line means.

Either the kernel refuses a line, or both make the same row of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import millstream as ms
from millstream.kernel import json_lines
from millstream.kernel import lines as kernel_lines
from millstream.kernel.json_lines import JsonKernel, JsonRefusedError
from millstream.model.schema import Column, Schema
from millstream.plan.nodes import Stream
from millstream.plan.slices import FileSlice, RowsSlice
from millstream.spark.arrow import collect
from millstream.spark.relation import Decoder
from millstream.spark.session import new_session, start_spark

pytestmark = pytest.mark.spark

TYPES = {
    "b": pa.bool_(),
    "t": pa.int8(),
    "h": pa.int16(),
    "n": pa.int32(),
    "i": pa.int64(),
    "f": pa.float32(),
    "d": pa.float64(),
    "x": pa.decimal128(9, 3),
    "day": pa.date32(),
    "ts": pa.timestamp("us"),
    "s": pa.string(),
    "é": pa.string(),
}
STREAM = Stream("s", Schema(tuple(Column(name, type_) for name, type_ in TYPES.items())), None, None)
KERNEL = JsonKernel.of(STREAM.schema.to_arrow(), {})

Row = tuple[str, ...]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    settings_ = ms.SparkSettings()
    return new_session(start_spark(settings_, tmp_path_factory.mktemp("spark")).result(), settings_)


def by_spark(spark: SparkSession, slice_: RowsSlice | FileSlice, order: str = "__o") -> list[Row | None]:
    """The rows, None for a dead one. Years may be beyond Python's, so time is in numbers."""
    opened = Decoder(STREAM, None).open(spark, slice_)
    spelt = {pa.date32(): "unix_date(`{}`)", pa.timestamp("us"): "unix_micros(`{}`)"}
    columns = [spelt.get(type_, "`{}`").format(name) + f" AS `{name}`" for name, type_ in TYPES.items()]
    found = collect(spark.sql(f"SELECT {', '.join(columns)}, __dead, __o FROM {opened} ORDER BY {order}"))
    return [
        None if row["__dead"] is not None else tuple(repr(row[name]) for name in TYPES) for row in found.to_pylist()
    ]


def by_kernel(lines: pa.Array | bytes) -> list[Row]:
    table = KERNEL.decode(lines)
    table.validate(full=True)
    numbers = {pa.date32(): pa.int32(), pa.timestamp("us"): pa.int64()}
    columns = [c.cast(numbers.get(c.type, c.type)).to_pylist() for c in table.columns]
    return [tuple(map(repr, row)) for row in zip(*columns, strict=True)]


def slice_of(lines: Sequence[bytes]) -> RowsSlice:
    count = len(lines)
    columns = {
        "__raw": pa.array(lines, pa.binary()),
        "__p": pa.array([0] * count, pa.int32()),
        "__o": pa.array(range(count), pa.int64()),
        "__landed": pa.array([0] * count, pa.int64()),
        "__pt": pa.nulls(count, pa.int64()),
    }
    return RowsSlice(None, pa.table(columns))


def taken(spark: SparkSession, lines: Sequence[bytes]) -> list[bytes]:
    """The lines that the kernel takes, each on its own, so that a refusal of one hides no other.

    On each of them it must agree with Spark, and on all of them together too.
    """
    expected = by_spark(spark, slice_of(lines))
    found = []
    for line, row in zip(lines, expected, strict=True):
        try:
            decoded = by_kernel(pa.array([line], pa.binary()))
        except JsonRefusedError:
            continue
        assert decoded == [row], line
        found.append(line)
    for together in (lines, found):
        try:
            decoded = by_kernel(pa.array(together, pa.binary()))
        except JsonRefusedError:
            continue
        assert decoded == [row for line, row in zip(lines, expected, strict=True) if line in together]
    return found


# -- tables --------------------------------------------------------------------------------------


def _quoted(*texts: str) -> tuple[str, ...]:
    return tuple(f'"{text}"' for text in texts)


INTEGERS = ("0", "-0", "1", "-1", "01", "-01", "1.0", "1e0", "+1", "0x1f", '"5"', "true", '""', "NaN", "[1]", "{}")
NUMBERS = (*INTEGERS, "1E5", "1e-5", "-0.0", "-0e0", "0e999", "1.", ".5", "1e", "Inf", "-Infinity", "INF", '"NaN"')
SPELLINGS: dict[str, tuple[str, ...]] = {
    "b": ("true", "false", "TRUE", "True", "tru", '"true"', "1", "null", "NULL", "nul", ""),
    "t": (*INTEGERS, "-128", "127", "128", "200", "255", "256", "-129"),
    "h": (*INTEGERS, "-32768", "32767", "32768", "65535"),
    "n": (*INTEGERS, "2147483647", "2147483648", "-2147483648", "4294967295"),
    "i": (*INTEGERS, "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1" * 30, "\u0661"),
    "f": (*NUMBERS, "1.1", "1e39", "1e-46", "16777217", "3.4028235e38", "1.00000017881393421514957253748434595763"),
    "d": (*NUMBERS, "1e308", "1e309", "1e-400", "4.9e-324", "9007199254740993", "1" * 30, "1" * 310, "0." + "1" * 600),
    "x": (
        *NUMBERS,
        *("1.5", "-1.250", "1.2500", "1.2505", "999999.999", "1000000", "1e2", "1E+2", "1e-3", "1e-4", "12345e-2"),
        *("100e4", "0.0000", "0e-9", "0e99999", '"1.5"', '" 1.5"', '"1e2"', '"+1.5"', '".5"', '"5."', '"1,5"', '"x"'),
        *('"1000000"', '"-"', '"\u0661"', '"0x1"'),
    ),
    "day": (
        *_quoted("0000-01-01", "0001-01-01", "1582-10-10", "9999-12-31", "2025-02-29", "2024-02-29", "2025-1-1"),
        *_quoted("2025", "10000-01-01", "2025-01-01T00:00:00", " 2025-01-01", "20250101", "-2025-01-01"),
        *_quoted("2025-01-01Z", "", "\\u0032025-01-01", "epoch", "1970-01-01"),
        *("5", "null"),
    ),
    "ts": (
        *_quoted("2025-01-01", "2025-01-01T01:02:03", "2025-01-01 01:02:03", "2025-01-01 01:02:03.123456"),
        *_quoted("2025-01-01 01:02:03.1", "2025-01-01 01:02:03.1234567", "2025-01-01 01:02:03.", "2025-01-01T01:02"),
        *_quoted("2025-01-01T01:02:03Z", "2025-01-01 01:02:03.1Z", "2025-01-01 01:02:03+01:00", "2025-01-01 01:02-01"),
        *_quoted("2025-01-01 01", "2025-01-01Z", "2025-01-01T01:02:03ZZ", "2025-01-01t01:02:03z", "0000-01-01"),
        *_quoted("1582-10-10 00:00:00", "1969-12-31 23:59:59.999999", "9999-12-31 23:59:59.999999"),
        *_quoted("2025-01-01 24:00:00", "2025-01-01 23:59:60", "2025-02-29 00:00:00", " 2025-01-01", ""),
        *_quoted("10000-01-01", "2025-01-01\\u002001:02:03", "2025-01-01T01:02:03UTC", "2025-01-01  01:02:03"),
        *_quoted("T01:02:03", "now"),
        *("1735689600", "1735689600.5", "null"),
    ),
    "s": (
        *('""', '" a "', '"é😀"', '"\\u00e9"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\\ude00"', '"\\ude00\\ud83d"'),
        *(
            '"\\\\ud83d\\ude00"',
            '"\\u0000"',
            '"\\b\\f\\n\\r\\t\\/\\"\\\\"',
            '"\\x"',
            '"\\u12"',
            '"\\"',
            '"\t"',
            '"\x01"',
        ),
        *('"\x7f"', '"\ufeff"', '"\u2028"', '"{"', '"}{"', '"}null{"', '"[\\"}]"', "'a'", "5", "1.50", "true", "null"),
        *("[]", '{"a":1}', '"a" "b"', '"Inf"', '"NaN"', '"' + "é" * 2000 + '"', '"' + "5" * 600 + '"', '"a\\\nb"'),
    ),
}
TAKEN = {"b": 3, "t": 6, "h": 6, "n": 6, "i": 6, "f": 12, "d": 13, "x": 25, "day": 8, "ts": 13, "s": 19}


@pytest.mark.parametrize("name", list(SPELLINGS))
def test_values(spark: SparkSession, name: str) -> None:
    found = taken(spark, [f'{{"{name}":{text}}}'.encode() for text in SPELLINGS[name]])
    assert len(found) == TAKEN[name], "\n" + "\n".join(line.decode()[:60] for line in found)


LINES: dict[bytes, bool] = {
    b"{}": True,
    b"{ }": True,
    b'{"i":1}': True,
    b'{ "i" : 1 ,\t"s" : "a" }': True,
    b'{"s":"a","i":1}': True,
    b'{"\\u0069":1}': True,
    '{"é":"a"}'.encode(): True,
    b'{"\\u00e9":"a"}': True,
    b'{"i":1}\r': False,
    # Fields that are no columns.
    b'{"i":1,"y":2}': True,
    b'{"I":1}': True,
    b'{"y":"a","y":null,"i":1}': True,
    b'{"y":[1,[],"a"],"i":1}': True,
    b'{"y":{},"i":1}': False,
    b'{"y":[{"i":2}],"i":1}': False,
    b'{"y":NaN}': False,
    b'{"y":Inf}': False,
    b'{"y":-Inf}': False,
    b'{"y":-Infinity}': False,
    b'{"y":"Inf"}': False,
    b'{"y":01}': False,
    b'{"y":tru}': False,
    b'{"y":"\\ud800"}': False,
    b'{"y":"\\q"}': False,
    b'{"y":' + b"1" * 1100 + b"}": False,
    b'{"y":' + b"1" * 900 + b"}": True,
    b'{"y":"' + b"a" * 1100 + b'"}': False,
    b'{"y":' + b"[" * 400 + b"]" * 400 + b"}": True,
    b'{"y":' + b"[" * 2000 + b"]" * 2000 + b"}": False,
    b'{"y":[1}': False,
    b'{"y":1]}': False,
    b'{"' + b"k" * 60000 + b'":1}': False,
    # Columns twice.
    b'{"i":1,"i":1}': False,
    b'{"i":null,"i":1}': False,
    b'{"i":1,"\\u0069":2}': False,
    # No object, or not only one.
    b"": False,
    b" ": False,
    b"null": False,
    b"1": False,
    b"[]": False,
    b'[{"i":1}]': False,
    b'{"i":1},': False,
    b'{"i":1},{"i":2}': False,
    b'{"i":1}{"i":2}': False,
    b'{"i":1}null{"i":2}': False,
    b'{"i":1}null}': False,
    b"{null}": False,
    b'{"i":1}}': False,
    b'{{"i":1}': False,
    b'{"i":1}]': False,
    b'{"i":1}],[{}': False,
    b'{"i":1}\n{"i":2}': False,
    b'{"i":\n1}': False,
    b'{"i":\r1}': False,
    b'{"s":"}': False,
    b'{"s":"a}': False,
    b'{"s":"\\"}': False,
    b'{"s":"{}","i":1}': True,
    b'{"s":"a\\"}{","i":1}': True,
    b'{"{":1}': True,
    b' {"i":1}': False,
    b'{"i":1} ': False,
    b"{": False,
    b"}": False,
    b'{"i"}': False,
    b'{"i":}': False,
    b'{"i":1,}': False,
    b'{,"i":1}': False,
    b"{i:1}": False,
    b"{'i':1}": False,
    b'{"i":1 "s":"a"}': False,
    b'{"i":1/**/}': False,
    b'{"i":1}#': False,
    # No text.
    b'{"s":"\xff"}': False,
    b'{"y":"\xff"}': False,
    b'{"\xff":1}': False,
    b'{"s":"\xed\xa0\x80"}': False,
    b'{"s":"\xc0\x80"}': False,
    b'{"s":"\0"}': False,
    b'\0{"i":1}': False,
    b'\xef\xbb\xbf{"i":1}': False,
}


def test_lines(spark: SparkSession) -> None:
    found = taken(spark, list(LINES))
    assert found == [line for line, is_taken in LINES.items() if is_taken]


# -- generated lines -----------------------------------------------------------------------------

_texts = st.one_of(
    st.text(max_size=8).map(json.dumps),
    st.text(max_size=8).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.text(st.sampled_from(list('{}[]",:\\u0d8 \t\nnul1e-.IN')), max_size=8).map(lambda text: f'"{text}"'),
    st.text(st.sampled_from(list("{}[],: aé")), max_size=6).map(lambda text: f'"{text}"'),
)
_numbers = st.one_of(
    st.integers().map(str),
    st.integers(-300, 300).map(str),
    st.floats().map(json.dumps),
    st.floats(width=32).map(json.dumps),
    st.decimals(places=3, min_value=-(10**6), max_value=10**6).map(str),
    st.from_regex(r"-?[0-9]{1,25}(\.[0-9]{1,25})?([eE][-+]?[0-9]{1,3})?", fullmatch=True),
)
_times = st.one_of(
    st.datetimes().map(str),
    st.datetimes().map(lambda at: at.isoformat()),
    st.datetimes().map(lambda at: at.isoformat() + "Z"),
    st.dates().map(str),
    st.from_regex(
        r"[0-9]{4}-[01][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9](:[0-6][0-9](\.[0-9]{1,7})?)?Z?", fullmatch=True
    ),
).map(lambda text: f'"{text}"')
_spelt = st.sampled_from([text for texts in SPELLINGS.values() for text in texts if len(text) < 100])
_any_value = st.one_of(st.just("null"), _numbers, _texts, _times, _spelt)
_fitting: dict[str, st.SearchStrategy[str]] = {
    **dict.fromkeys(("t", "h", "n", "i"), st.integers(-130, 130).map(str)),
    **dict.fromkeys(("f", "d"), _numbers),
    "x": st.one_of(_numbers, st.text("+-.eE 0159", max_size=7).map(lambda text: f'"{text}"')),
    **dict.fromkeys(("day", "ts"), _times),
    **dict.fromkeys(("s", "é"), _texts),
    "b": st.sampled_from(["true", "false"]),
}


def _field(name: str) -> st.SearchStrategy[str]:
    value = st.one_of(_fitting.get(name, _any_value), _fitting.get(name, _any_value), _any_value)
    return st.tuples(value, st.sampled_from(["", "", " "])).map(
        lambda both: f"{json.dumps(name, ensure_ascii=False)}:{both[1]}{both[0]}{both[1]}"
    )


_objects = (
    st.lists(st.sampled_from([*TYPES, "y", "Z", "S"]), max_size=4, unique=True)
    .flatmap(lambda names: st.tuples(*(_field(name) for name in names)))
    .map(lambda fields: f"{{{','.join(fields)}}}".encode("utf-8", "surrogatepass"))
)
_pieces = [
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b",",
    b":",
    b"\\",
    b"\n",
    b"\r",
    b" ",
    b"null",
    b"NaN",
    b"1",
    b"\xff",
    b"\0",
    b"'",
]


@st.composite
def _damaged(draw: st.DrawFn) -> bytes:
    """An object with a piece taken out, put in, or written over another."""
    line: bytes = draw(_objects)
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(line)))
        line = line[:at] + draw(st.sampled_from([b"", *_pieces])) + line[at + draw(st.integers(0, 2)) :]
    return line


_many_lines = st.lists(st.one_of(_objects, _objects, _damaged()), min_size=20, max_size=60)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(lines=_many_lines)
def test_whatever_the_kernel_takes_spark_decodes_alike(spark: SparkSession, lines: list[bytes]) -> None:
    taken(spark, lines)


# -- files ---------------------------------------------------------------------------------------


def put(path: Path, content: bytes) -> FileSlice:
    path.write_bytes(content)
    return FileSlice((str(path),), 5, "json")


@pytest.mark.parametrize(
    ("content", "is_taken"),
    [
        (b"", True),
        (b"\n\n", True),
        (b"  \n", True),
        (b'{"i":1}', True),
        (b'{"i":1}\n\n   \n{"i":2}\n', True),
        (b'{"i":1}\r\n\r\n \r\n{"i":2}\r\n', True),
        (b'{"i":1}\n\t\n', False),
        (b'{"i":1}\r{"i":2}\n', False),
        (b'{"i":1}\n\r', False),
        (b'{"i":1}\n{"i":2', False),
        (b'{"i":1}{"i":2}\n\n', False),
        (b'{"i":\n1}{"i":2}\n', False),
        (b'\xef\xbb\xbf{"i":1}\n', False),
        (b'{"i":1}\nnull\n', False),
        (b"null\n", False),
        (b'{"i":1}\x0b\n', False),
        ('{"i":1}\u2028\n'.encode(), False),
        ('{"s":"\u2028\u0085"}\n'.encode(), True),
    ],
    ids=str,
)
def test_files(spark: SparkSession, tmp_path: Path, content: bytes, is_taken: bool) -> None:
    slice_ = put(tmp_path / "a.json", content)
    try:
        found = by_kernel(content)
    except JsonRefusedError:
        assert not is_taken
        return
    assert is_taken
    assert found == by_spark(spark, slice_, "`i`")


def test_executors_decode_what_the_driver_would(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines that are cut by tasks and chunks are read once, and the kernel travels."""
    monkeypatch.setattr(kernel_lines, "CHUNK_BYTES", 4096)
    text = [f'{{"i":{n},"s":"{"x" * (n % 90)}","ts":"2024-02-29T01:02:03.{n % 1000:03}Z"}}\n' for n in range(3000)]
    slice_ = put(tmp_path / "a.json", "".join(text).encode())
    tasks = json_lines.split(slice_.paths, 2)
    assert len(tasks) == 2
    kernel = KERNEL

    def read(batches: Any) -> Any:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for range_ in tasks[task]:
                    yield from kernel.read(range_)

    decoder: Callable[[], str] = Decoder(STREAM, None)._ddl
    rows = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(read, f"{decoder()}, __landed BIGINT")
    rows.createOrReplaceTempView("by_kernel")
    (count, first, last, length) = spark.sql(
        "SELECT count(*), min(i), max(unix_micros(ts)), sum(length(s)) FROM by_kernel"
    ).collect()[0]
    opened = Decoder(STREAM, None).open(spark, slice_)
    query = f"SELECT count(*), min(i), max(unix_micros(ts)), sum(length(s)) FROM {opened}"
    assert (count, first, last, length) == tuple(spark.sql(query).collect()[0])
