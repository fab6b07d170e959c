"""What the CSV kernel takes, what it refuses, and that every line is read once however files are split."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.kernel import lines as kernel_lines
from millstream.kernel.csv import CsvKernel, CsvRefusedError, split
from millstream.kernel.lines import LineRange

PAIR = pa.schema([("k", pa.int64()), ("v", pa.string())])


def of_type(type_: pa.DataType) -> pa.Schema:
    return pa.schema([("k", pa.int64()), ("v", type_)])


def read(path: Path, content: bytes, schema: pa.Schema = PAIR, parallelism: int = 1, **options: str) -> pa.Table:
    path.write_bytes(content)
    kernel = CsvKernel.of(schema, options)
    ranges = [range_ for task in split([str(path)], parallelism) for range_ in task]
    return pa.Table.from_batches([b for range_ in ranges for b in kernel.read(range_)], kernel.output())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "in.csv"


# -- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (pa.int8(), "-128", -128),
        (pa.int64(), "-9223372036854775808", -(2**63)),
        (pa.int64(), "007", 7),
        (pa.int64(), '"5"', 5),
        (pa.float64(), "-.5", -0.5),
        (pa.float32(), "16777217", 16777216.0),
        (pa.bool_(), "tRuE", True),
        (pa.decimal128(5, 2), "-999.9", Decimal("-999.90")),
        (pa.date32(), "2024-02-29", date(2024, 2, 29)),
        (pa.timestamp("us"), "2024-02-29", datetime(2024, 2, 29, tzinfo=UTC)),
        (pa.timestamp("us"), "2024-02-29T01:02:03", datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC)),
        (pa.timestamp("us"), "1969-12-31 23:59:59.999999", datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        (pa.timestamp("us"), "2024-02-29T01:02:03.5Z", datetime(2024, 2, 29, 1, 2, 3, 500000, tzinfo=UTC)),
        (pa.string(), " a ", " a "),
        (pa.string(), "a\\", "a\\"),
        (pa.string(), '"a,b"', "a,b"),
        (pa.string(), '" "', " "),
        *((type_, text, None) for type_ in (pa.int64(), pa.string(), pa.timestamp("us")) for text in ("", '""')),
    ],
    ids=str,
)
def test_a_value_is_taken(file: Path, type_: pa.DataType, text: str, value: Any) -> None:
    rows = read(file, f"1,{text}\n2,\n".encode(), of_type(type_))
    assert rows.column("v").to_pylist() == [value, None]


@pytest.mark.parametrize(
    ("type_", "texts"),
    [
        (pa.int64(), ("+1", " 1", "1 ", "0x1f", "1e3", "1.0", "9223372036854775808", "--1", "-", "null", "\u0661")),
        (pa.int8(), ("128", "-129")),
        (pa.float64(), ("1e400", "NaN", "nan", "Inf", "-inf", "Infinity", "1d", "1f", " 1", "0x1p3", "1e", ".")),
        (pa.bool_(), ("1", "0", "t", "yes", " true")),
        (pa.decimal128(5, 2), ("1.555", "1000", "1e2", "+1", '"1,5"', " 1", "-")),
        (pa.date32(), ("2025-1-1", "2025", "2025-02-29", "2025-01-01T00:00:00", " 2025-01-01", "20250101")),
        (
            pa.timestamp("us"),
            (
                "2025-01-01 00",
                "2025-01-01 00:01",
                "2025-01-01 00:01:02.1234567",
                "2025-01-01 00:01:02+01:00",
                "2025-01-01 00-01:00",
                "2025-01-01 24:00:00",
                "2025-01-01 23:59:60",
                "2025-01-01Z",
                " 2025-01-01",
                "+2025-01-01",
            ),
        ),
        (pa.string(), ('"a"b', 'a"b', '"a""b"', '"a\\"b"', '"a', "a\0b", "a\rb", "a,b", '"a\nb"')),
    ],
    ids=str,
)
def test_a_value_is_refused(file: Path, type_: pa.DataType, texts: tuple[str, ...]) -> None:
    for text in texts:
        with pytest.raises(CsvRefusedError):
            read(file, f"1,{text}\n".encode(), of_type(type_))


def test_instants_are_all_zoned_or_none_is(file: Path) -> None:
    with pytest.raises(CsvRefusedError):
        read(file, b"1,2025-01-01T00:00:00Z\n2,2025-01-01T00:00:00\n", of_type(pa.timestamp("us")))


def test_text_that_is_no_utf8_is_refused(file: Path) -> None:
    with pytest.raises(CsvRefusedError):
        read(file, b"1,\xff\n")
    with pytest.raises(CsvRefusedError):
        read(file, b"1,\xed\xa0\x80\n")


# -- lines ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "keys"),
    [
        (b"", []),
        (b"\n\n", []),
        (b" \n\t\n", []),
        (b"1,a", [1]),
        (b"1,a\n\n\n2,b\n\n", [1, 2]),
        (b"1,a\r\n2,b\r\n", [1, 2]),
        (b'"1","a"\r\n"2","b"', [1, 2]),
        (b",\n", [None]),
    ],
    ids=str,
)
def test_lines(file: Path, content: bytes, keys: list[int | None]) -> None:
    assert read(file, content).column("k").to_pylist() == keys


@pytest.mark.parametrize(
    "content",
    [b"1\n", b"1,a,b\n", b"1,a\n \n", b"1,a\r2,b\n", b"1,a\r", b"\xef\xbb\xbf1,a\n", b"1,a\n2\n3,c\n"],
    ids=str,
)
def test_lines_that_are_refused(file: Path, content: bytes) -> None:
    with pytest.raises(CsvRefusedError):
        read(file, content)


def test_a_header(file: Path) -> None:
    assert read(file, b'"K", v\n1,a\n', header="true").column("k").to_pylist() == [1]
    assert read(file, b"k,v", header="true").num_rows == 0
    assert read(file, b"", header="true").num_rows == 0
    for content in (b"\nk,v\n1,a\n", b" \nk,v\n1,a\n", b"k\rv\n1,a\n", b"v,k\na,1\n", b"k,v,z\n1,a,2\n"):
        with pytest.raises(CsvRefusedError):
            read(file, content, header="true")


def test_tabs(file: Path) -> None:
    """Spark skips lines of nothing but blanks, and a tab is one."""
    assert read(file, b"1\ta b\n\n2\t\n", sep="\t").to_pydict()["v"] == ["a b", None]
    for content in (b"1\ta\n\t\n", b"\ta\n", b"1\ta\n \tb\n", b"1\ta\n\x01\tb\n"):
        with pytest.raises(CsvRefusedError):
            read(file, content, sep="\t")


def test_a_long_line_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_lines, "CHUNK_BYTES", 64)
    monkeypatch.setattr(kernel_lines, "TASK_BYTES", 64)
    assert read(file, b"1," + b"a" * 40 + b"\n").num_rows == 1
    for content in (b"1," + b"a" * 400 + b"\n", b"1,a\n2," + b"a" * 400):
        with pytest.raises(CsvRefusedError):
            read(file, content)


# -- what is known before reading ----------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"sep": "::"},
        {"sep": " "},
        {"sep": '"'},
        {"timestampFormat": "yyyy"},
        {"quote": "'"},
        {"enforceSchema": "false"},
        {"header": "TRUE"},
    ],
    ids=str,
)
def test_options_that_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(CsvRefusedError):
        CsvKernel.of(PAIR, options)


@pytest.mark.parametrize(
    "type_",
    [pa.binary(), pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.map_(pa.string(), pa.int64())],
    ids=str,
)
def test_types_that_are_refused(type_: pa.DataType) -> None:
    with pytest.raises(CsvRefusedError):
        CsvKernel.of(of_type(type_), {})


def test_a_single_column_is_refused() -> None:
    with pytest.raises(CsvRefusedError):
        CsvKernel.of(pa.schema([("k", pa.int64())]), {})


@pytest.mark.parametrize("name", ["in.csv.gz", "in.gz", "in.csv.bz2", "in.zst", "in.CSV", "a*.csv", "a[1].csv"])
def test_names_that_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"1,a\n")
    with pytest.raises(CsvRefusedError):
        split([str(tmp_path / name)], 2)


def test_a_file_that_is_not_what_it_was_is_refused(file: Path) -> None:
    file.write_bytes(b"1,a\n")
    ((range_,),) = split([str(file)], 2)
    kernel = CsvKernel.of(PAIR, {})
    assert sum(batch.num_rows for batch in kernel.read(range_)) == 1
    os.utime(file, ns=(range_.modified_ns, range_.modified_ns + 1))
    with pytest.raises(CsvRefusedError):
        list(kernel.read(range_))
    file.write_bytes(b"1,a\n2,b\n")
    os.utime(file, ns=(range_.modified_ns, range_.modified_ns))
    with pytest.raises(CsvRefusedError):
        list(kernel.read(range_))
    file.unlink()
    with pytest.raises(CsvRefusedError):
        list(kernel.read(range_))
    with pytest.raises(CsvRefusedError):
        split([str(file)], 2)


def test_rows_arrive_when_the_file_was_written(file: Path) -> None:
    assert LineRange("", 0, 0, 0, 1_700_000_000_123_456_789).landed == 1_700_000_000_123_000
    file.write_bytes(b"1,a\n2,b\n")
    os.utime(file, ns=(0, 1_700_000_000_123_456_789))
    ((range_,),) = split([str(file)], 2)
    (batch,) = CsvKernel.of(PAIR, {}).read(range_)
    assert batch.column("__landed").to_pylist() == [1_700_000_000_123_000] * 2


# -- ranges --------------------------------------------------------------------------------------


def test_tasks_are_of_equal_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_lines, "CHUNK_BYTES", 10)
    paths = []
    for index, size in enumerate((5, 0, 100, 7, 8)):
        path = tmp_path / f"{index}.csv"
        path.write_bytes(b"x" * size)
        paths.append(str(path))
    tasks = split(paths, 3)
    assert [sum(r.end - r.start for r in task) for task in tasks] == [40, 40, 40]
    assert [(r.start, r.end) for task in tasks for r in task] == [
        (0, 5),
        (0, 35),
        (35, 75),
        (75, 100),
        (0, 7),
        (0, 8),
    ]
    assert [len(split(paths, parallelism)) for parallelism in (1, 2, 100)] == [1, 2, 12]
    monkeypatch.setattr(kernel_lines, "TASK_BYTES", 20)
    assert len(split(paths, 1)) == 6, "one core, but no task is large"
    assert split([paths[1]], 2) == ()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.text("ab,é ", max_size=6), max_size=30),
    ending=st.sampled_from(["\n", "\r\n", "\n\n"]),
    header=st.booleans(),
    last=st.booleans(),
    parallelism=st.integers(1, 20),
)
def test_every_line_is_read_once(
    tmp_path: Path, texts: list[str], ending: str, header: bool, last: bool, parallelism: int
) -> None:
    """However the file is cut into tasks and chunks, also in the middle of a character."""
    lines = [f'{index},"{text}"' for index, text in enumerate(texts)]
    content = ending.join([*(["k,v"] if header else []), *lines]) + (ending if last else "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_lines, "CHUNK_BYTES", 32)
        patch.setattr(kernel_lines, "TASK_BYTES", 50)
        rows = read(tmp_path / "in.csv", content.encode(), parallelism=parallelism, header=str(header).lower())
    assert rows.column("k").to_pylist() == list(range(len(texts)))
    assert rows.column("v").to_pylist() == [text or None for text in texts]
