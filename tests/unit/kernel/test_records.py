"""CSV files as records: whatever the csv module writes comes back, and every line is in one record."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.kernel.records import NOT_CLOSED, CsvReader, cut

_values = st.text(st.sampled_from(list("ab1 \",;\n\r\\'é\u2028")), max_size=6)


def lines(text: bytes) -> Any:
    return iter([(number, line) for number, line in enumerate(text.split(b"\n"))])


def read(path: Path, content: bytes, columns: str = "a,b", header: bool = False) -> list[tuple[Any, ...]]:
    path.write_bytes(content)
    reader = CsvReader(tuple(columns.split(",")), ",", header)
    return [
        (row["__text"] or row["__raw"], row["__fault"])
        for batch in reader.read([(3, str(path))])
        for row in batch.to_pylist()
    ]


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(st.tuples(_values, _values).filter(lambda row: any(row)), min_size=1, max_size=5),
    order=st.permutations(["a", "b", "more"]),
    ending=st.sampled_from(["\n", "\r\n"]),
    mark=st.booleans(),
)
def test_what_the_csv_module_writes_is_cut_and_put_in_order(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], order: list[str], ending: str, mark: bool
) -> None:
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator=ending, quoting=csv.QUOTE_ALL)
    writer.writerow([name.upper() for name in order])
    for a, b in rows:
        writer.writerow([{"a": a, "b": b, "more": "x"}[name] for name in order])
    content = ("\ufeff" if mark else "").encode() + out.getvalue().encode()
    found = read(tmp_path_factory.mktemp("in") / "x.csv", content, header=True)
    assert [fault for _, fault in found] == [None] * len(rows)
    parsed = [next(csv.reader(io.StringIO(text.decode(), newline=""))) for text, _ in found]
    # Within a value, a line break is a newline, however the file spells it.
    expected = [[value.replace("\r\n", "\n").replace("\r", "\n") for value in row] for row in rows]
    assert parsed == expected


@settings(max_examples=300, deadline=None)
@given(text=st.lists(st.sampled_from([b'"', b",", b"\n", b"a", b"\\", b'""']), max_size=24).map(b"".join))
def test_every_line_is_in_one_record(text: bytes) -> None:
    """However the quotes stand: nothing is lost or read twice, and blank lines alone are no records."""
    filled = [line for line in text.split(b"\n") if line.strip()]
    found = [line for raw, *_ in cut(lines(text), b",") for line in raw.split(b"\n") if line.strip()]
    assert found == filled


def test_an_open_quote_takes_its_own_line_only() -> None:
    found = list(cut(lines(b'1,"a\n2,b\n3,"c"\n4,d'), b","))
    assert [(raw, fault) for raw, _, fault, _ in found] == [
        (b'1,"a', NOT_CLOSED),
        (b"2,b", None),
        (b'3,"c"', None),
        (b"4,d", None),
    ]


def test_quotes_that_are_escaped_are_doubled() -> None:
    ((raw, text, fault, _),) = cut(lines(b'1,"say \\"hi\\""'), b",")
    assert (raw, text, fault) == (b'1,"say \\"hi\\""', b'1,"say ""hi"""', None)


@pytest.mark.parametrize(
    ("header", "fault"),
    [("a", "no column 'b'"), ("a,c", "no column 'b'"), ("a,b,B", "more than one column 'b'"), ("b , A", None)],
)
def test_a_header_names_every_column_once(tmp_path: Path, header: str, fault: str | None) -> None:
    found = read(tmp_path / "x.csv", f"{header}\n1,2\n".encode(), header=True)
    assert len(found) == 1
    if fault is None:
        assert found == [(b"2,1", None)]
    else:
        assert fault in found[0][1]


def test_compressed_and_broken_files(tmp_path: Path) -> None:
    for name, packed in (("a.gz", gzip.compress(b"1,2\n")), ("a.bz2", bz2.compress(b"1,2\n"))):
        assert read(tmp_path / name, packed) == [(b"1,2", None)]
        ((path, fault),) = read(tmp_path / name, b"no archive")
        assert path == str(tmp_path / name).encode()
        assert "cannot be read" in fault
