"""Files of a stream or table: names are paths, headers name columns, order is by time and then by name."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import millstream as ms
from tests.answers import rows_of

pytestmark = pytest.mark.spark

Connect = Callable[..., ms.Database]
NAMES = ["plain", "wednes day", "a[1]", "a*b", "a?b", "{x,y}", "ü", "50%", "back\\slash", "#1", "a+b", "it's"]


@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
def test_a_table_applies_files_in_order_whatever_their_names(connect: Connect, tmp_path: Path, format_: str) -> None:
    """Each file writes its number under one key: the newest wins. A pattern would find other files, or none."""
    inbox = tmp_path / "in"
    inbox.mkdir()
    for number, name in enumerate(NAMES):
        path = inbox / f"{name}.{format_}"
        match format_:
            case "csv":
                path.write_text(f'1,{number},"x"\n{10 + number},0,"a ""b""\n"\n')
            case "json":
                path.write_text(f'{{"k": 1, "v": {number}, "s": [1]}}\n{{"k": {10 + number}, "v": 0}}\n')
            case _:
                pq.write_table(pa.table({"k": [1, 10 + number], "v": [number, 0], "s": ["", ""]}), path)
        os.utime(path, (1_700_000_000 + number // 2, 1_700_000_000 + number // 2))
    db = connect()
    db.sql(
        f"CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT, s STRING) "
        f"WITH (source = 'files', path = '{inbox}', format = '{format_}')"
    )
    db.drain()
    found = {row["k"]: row["v"] for row in db.query("SELECT k, v FROM t").rows()}
    last = max(range(len(NAMES)), key=lambda number: (number // 2, f"{NAMES[number]}.{format_}"))
    assert found == {1: last, **{10 + number: 0 for number in range(len(NAMES))}}
    assert db.query("SELECT * FROM t__dead").rows() == []


def test_headers_of_each_file_name_its_columns(connect: Connect, tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    values = {"id": "1", "k": 'a "b", c\nd', "v": "10"}
    for number, names in enumerate((["id", "k", "v"], ["V", "extra", "K", "ID"], ["k", "v"], ["id", "k", "v"])):
        with open(inbox / f"{number}.csv", "w", newline="", encoding="utf-8-sig" if number == 1 else "utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            writer.writerow([values.get(name.lower(), "?") for name in names])
    with open(inbox / "3.csv", "ab") as binary:
        binary.write(b'2,caf\xe9,1\r\n3,"open,1\r\n4,x,1\r\n')
    db = connect()
    db.sql(
        f"CREATE STREAM s (id BIGINT, k STRING, v BIGINT) WITH (source = 'files', path = '{inbox}', format = 'csv', "
        "header = TRUE); CREATE MATERIALIZED VIEW r AS SELECT id, k, v FROM s"
    )
    db.drain()
    found = sorted((row["id"], row["k"], row["v"]) for row in db.query("SELECT * FROM r").rows())
    assert found == [(1, values["k"], 10)] * 3 + [(4, "x", 1)]
    reasons = sorted(row["reason"] for row in db.query("SELECT reason FROM s__dead").rows())
    assert reasons == [
        "invalid UTF-8",
        "malformed csv: a quote is not closed",
        "the header of the file has no column 'id'",
    ]
    counts = [(row["rows_in"], row["rows_decoded"], row["rows_dead"]) for row in rows_of(db, "SHOW EPOCHS")]
    assert (7, 4, 3) in counts


def test_decimals_are_rounded_alike_at_every_entrance(connect: Connect, tmp_path: Path) -> None:
    """Half up at the scale; a value with more digits than the precision is refused or dead."""
    inbox = tmp_path / "in"
    inbox.mkdir()
    spelt = ["1", "1.5", "1.005", "-1.005", "2.675", "0.30000000000000004", "12345678.994", "99999999.99"]
    db = connect()
    columns = "(n BIGINT, d DECIMAL(10, 2), x DOUBLE)"
    files = f"source = 'files', path = '{inbox}'"
    db.sql(
        f"CREATE STREAM rows_ {columns}; CREATE STREAM lines_ {columns}; "
        f"CREATE STREAM json_ {columns} WITH ({files}, format = 'json', pattern = '*.json'); "
        f"CREATE STREAM csv_ {columns} WITH ({files}, format = 'csv', pattern = '*.csv')"
    )
    streams = ("rows_", "lines_", "json_", "csv_")
    for name in streams:
        db.sql(f"CREATE MATERIALIZED VIEW v_{name} AS SELECT * FROM {name}")
    numbers = list(enumerate(spelt))
    db.insert("rows_", [{"n": n, "d": Decimal(text), "x": 2**53 + 1} for n, text in numbers])
    lines = [f'{{"n": {n}, "d": {text}, "x": {2**53 + 1}}}' for n, text in numbers]
    too_large = '{"n": 100, "d": 99999999.995}'
    db.insert_lines("lines_", [*lines, too_large])
    (inbox / "a.json").write_text("\n".join([*lines, too_large]))
    (inbox / "a.csv").write_text("".join(f"{n},{text},{2**53 + 1}\n" for n, text in [*numbers, (100, "99999999.995")]))
    with pytest.raises(ms.MillstreamError):
        db.insert("rows_", [{"n": 100, "d": Decimal("99999999.995")}])
    db.drain()
    found = [db.query(f"SELECT * FROM v_{name} ORDER BY n").rows() for name in streams]
    assert [row["d"] for row in found[0]][2:5] == [Decimal("1.01"), Decimal("-1.01"), Decimal("2.68")]
    assert found[1:] == [found[0]] * 3
    for name in streams[1:]:
        assert len(db.query(f"SELECT * FROM {name}__dead").rows()) == 1
