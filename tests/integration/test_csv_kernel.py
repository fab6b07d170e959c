"""The CSV kernel against Spark's reader, which defines what a file means.

Either the kernel refuses a file, or both make the same relation of it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import millstream as ms
from millstream.kernel import csv as csv_kernel
from millstream.kernel import lines as kernel_lines
from millstream.kernel.csv import CsvRefusedError
from millstream.kernel.lines import RefusedError
from millstream.kernel.shares import share_out
from millstream.model.schema import Column, Schema
from millstream.plan.nodes import Stream
from millstream.plan.slices import FileSlice
from millstream.spark import lanes
from millstream.spark.arrow import collect
from millstream.spark.epoch import OpenEpoch
from millstream.spark.native import NativeEpoch
from millstream.spark.relation import Decoder
from millstream.spark.session import new_session, start_spark
from millstream.spark.trials import Trials

pytestmark = pytest.mark.spark

Connect = Callable[..., ms.Database]
TYPES = {
    "b": pa.bool_(),
    "t": pa.int8(),
    "i": pa.int64(),
    "f": pa.float32(),
    "d": pa.float64(),
    "x": pa.decimal128(9, 3),
    "day": pa.date32(),
    "ts": pa.timestamp("us"),
    "s": pa.string(),
}
GOOD = b"true,1,22,1.5,2.5,1.250,2024-02-29,2024-02-29 01:02:03.5,text\n"


def stream(*names: str) -> Stream:
    chosen = names or tuple(TYPES)
    return Stream("s", Schema(tuple(Column(name, TYPES[name]) for name in chosen)), None, None)


def by_spark(spark: SparkSession, source: Stream, slice_: FileSlice) -> Counter[str]:
    """The relation and when its rows arrived. Years may be beyond Python's, so time is in numbers."""
    opened = Decoder(source, None).open(spark, slice_)
    spelt = {pa.date32(): "unix_date(`{}`)", pa.timestamp("us"): "unix_micros(`{}`)"}
    columns = [spelt.get(c.type, "`{}`").format(c.name) + f" AS `{c.name}`" for c in source.schema.columns]
    found = collect(spark.sql(f"SELECT {', '.join(columns)}, __p, __o, __dead, __raw, __bad FROM {opened}"))
    landed = collect(spark.sql("SELECT __landed FROM __ms_s_rows_0"))
    return Counter(repr(row) for table in (found, landed) for row in table.to_pylist())


def by_kernel(source: Stream, slice_: FileSlice) -> Counter[str]:
    """The same by the kernel, to which no row is dead."""
    schema = source.schema.to_arrow()
    found: Counter[str] = Counter()
    numbers = {pa.date32(): pa.int32(), pa.timestamp("us"): pa.int64()}
    for share in share_out(slice_, schema, 2):
        rows = share.read(schema)
        rows.validate(full=True)
        columns = {f.name: rows.column(f.name).cast(numbers.get(f.type, f.type)) for f in schema}
        place = {name: rows.column(name) for name in ("__p", "__o")}
        nothing = {name: pa.nulls(rows.num_rows) for name in ("__dead", "__raw")}
        fine = pa.repeat(False, rows.num_rows)
        found.update(map(repr, pa.table({**columns, **place, **nothing, "__bad": fine}).to_pylist()))
        found.update(map(repr, rows.select(["__landed"]).to_pylist()))
    return found


def taken(spark: SparkSession, source: Stream, slice_: FileSlice) -> bool:
    """Whether the kernel takes the files; if it does, it must agree."""
    try:
        found = by_kernel(source, slice_)
    except CsvRefusedError:
        return False
    assert found == by_spark(spark, source, slice_)
    return True


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    settings_ = ms.SparkSettings()
    return new_session(start_spark(settings_, tmp_path_factory.mktemp("spark")).result(), settings_)


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    directory = tmp_path / "in"
    directory.mkdir()
    return directory


def put(directory: Path, content: bytes, name: str = "a.csv") -> str:
    path = directory / name
    path.write_bytes(content)
    os.utime(path, ns=(0, 1_700_000_000_123_456_789))
    return str(path)


# -- both readers --------------------------------------------------------------------------------

SPELLINGS: dict[str, tuple[str, ...]] = {
    "b": ("true", "FALSE", "tRuE", "1", "t", " true", ""),
    "t": ("-128", "127", "128", "+1", "007"),
    "i": ("0", "-0", "9223372036854775807", "9223372036854775808", "0x1f", " 1", "1 ", "1.0", "1e3", '"5"', "\u0661"),
    "f": ("1.1", "1e39", "1e-46", "16777217", "3.4028236e38", "1.00000017881393421514957253748434595763683319"),
    "d": (
        "-0",
        "1e400",
        "1e-400",
        "1.",
        ".5",
        "+1",
        "4.9e-324",
        "9007199254740993",
        "NaN",
        "nan",
        "-Inf",
        "1d",
        "0x1p3",
    ),
    "x": ("1.5", "-.5", "1.", "1.2500", "1.2505", "999999.999", "1000000", "1e2", "00000000001.5", '"1,5"', "-0"),
    "day": ("0000-01-01", "0001-01-01", "1582-10-10", "9999-12-31", "2025-02-29", "2025-1-1", "10000-01-01", "2025"),
    "ts": (
        "2025-01-01",
        "2025-01-01T01:02:03",
        "2025-01-01 01:02:03.123456",
        "2025-01-01 01:02:03.1234567",
        "2025-01-01T01:02:03Z",
        "2025-01-01 01:02:03.1Z",
        "2025-01-01 01:02:03+01:00",
        "2025-01-01 01",
        "0000-01-01",
        "1582-10-10 00:00:00",
        "1969-12-31 23:59:59.999999",
        "9999-12-31 23:59:59.999999",
        "2025-01-01 24:00:00",
    ),
    "s": (
        " a ",
        "a\\",
        "\\",
        '"a,b"',
        '""',
        '" "',
        '"a"b',
        '"a""b"',
        '"a\\"b"',
        "'a'",
        "#a",
        "\u2028",
        "\ufeff",
        "\x01",
    ),
}
TAKEN = {
    "b": 4,  # with NULL
    "t": 3,
    "i": 4,
    "f": 4,
    "d": 7,
    "x": 7,
    "day": 4,
    "ts": 9,
    "s": 11,
}


@pytest.mark.parametrize("name", list(SPELLINGS))
def test_values(spark: SparkSession, inbox: Path, name: str) -> None:
    """Each spelling on its own, so that a refusal of one hides no other."""
    found = []
    for text in SPELLINGS[name]:
        path = put(inbox, f"7,{text}\n".encode())
        other = "i" if name != "i" else "t"
        if taken(spark, stream(other, name), FileSlice((path,), 5, "csv")):
            found.append(text)
    assert len(found) == TAKEN[name], found


@pytest.mark.parametrize(
    ("content", "options", "is_taken"),
    [
        (b"", {}, True),
        (b"\n \n\t\n", {}, True),
        (b"1,a", {}, True),
        (b"1,a\n\n\n2,b\n", {}, True),
        (b"1,a\n  \n2,b\n", {}, False),
        (b"1,a\r\n\r\n2,b\r\n", {}, True),
        (b"1,a\r2,b\n", {}, False),
        (b"1,a\n2,b\r", {}, False),
        (b"\xef\xbb\xbf1,a\n", {}, False),
        (b"1,a\n2\n3,c,d\n", {}, False),
        (b"1,\xff\n", {}, False),
        (b"1,a\0\n", {}, False),
        (b"\0comment\n1,a\n", {}, False),
        (b'1,"a\nb"\n', {}, False),
        (b'"1","a"\r\n2,"b"\r\n3,c', {}, True),
        (b",\n", {}, True),
        (b"i,s\n1,a\n", {"header": "true"}, True),
        (b'"I", s \n1,a\n', {"header": "true"}, True),
        (b"i,s", {"header": "true"}, True),
        (b"s,i\na,1\n", {"header": "true"}, False),
        (b"i,s,more\n1,a\n", {"header": "true"}, False),
        (b"\ni,s\n1,a\n", {"header": "true"}, False),
        (b"id,name\n1,a\n", {}, False),
        (b"1;a,b\n", {"sep": ";"}, True),
        (b"1|a\n", {"sep": "|"}, True),
        (b"1\ta\n2\t\n", {"sep": "\t"}, True),
        (b"1\ta\n\t\n", {"sep": "\t"}, False),
        (b"1::a\n", {"sep": "::"}, False),
        (b"1,a\n", {"nullValue": "a"}, False),
        (b"1,a\n", {"comment": "#"}, False),
    ],
    ids=str,
)
def test_lines(spark: SparkSession, inbox: Path, content: bytes, options: dict[str, str], is_taken: bool) -> None:
    slice_ = FileSlice((put(inbox, content),), 5, "csv", tuple(options.items()))
    assert taken(spark, stream("i", "s"), slice_) is is_taken


def test_all_types_and_several_files(spark: SparkSession, inbox: Path) -> None:
    paths = [put(inbox, GOOD * count, f"{count}.csv") for count in (0, 1, 50)]
    os.utime(paths[1], ns=(0, 1_600_000_000_999_999_999))
    assert taken(spark, stream(), FileSlice(tuple(paths), 5, "csv"))


_fragments = st.one_of(
    st.sampled_from([text for texts in SPELLINGS.values() for text in texts]),
    st.text(st.sampled_from(list('01e+-.,:"\\ \t\r\n\0TZxa\u00e9')), max_size=5),
    st.integers().map(str),
    st.floats().map(str),
    st.datetimes().map(str),
    st.datetimes().map(lambda at: at.isoformat()),
    st.dates().map(str),
    st.decimals(places=3, min_value=-(10**6), max_value=10**6).map(str),
    st.text(max_size=8),
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    lines=st.lists(st.tuples(_fragments, _fragments), min_size=1, max_size=4),
    names=st.tuples(st.sampled_from(list(TYPES)), st.sampled_from(list(TYPES))).filter(lambda two: two[0] != two[1]),
    quoted=st.booleans(),
    ending=st.sampled_from(["\n", "\r\n"]),
)
def test_whatever_the_kernel_takes_spark_reads_alike(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[tuple[str, str]],
    names: tuple[str, str],
    quoted: bool,
    ending: str,
) -> None:
    form = '"{}"' if quoted else "{}"
    content = "".join(",".join(form.format(text) for text in line) + ending for line in lines)
    path = put(tmp_path_factory.mktemp("in"), content.encode("utf-8", "surrogatepass"))
    taken(spark, stream(*names), FileSlice((path,), 5, "csv"))


def test_executors_read_what_the_driver_would(
    spark: SparkSession, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines that are cut by tasks and chunks, in files of all sizes, are read once."""
    monkeypatch.setattr(kernel_lines, "CHUNK_BYTES", 4096)
    source = stream("i", "s", "ts")
    paths = []
    for number, count in enumerate((3000, 0, 1, 500)):
        lines = [f"{n},{'x' * (n % 90)},2024-02-29 01:02:03.{n % 1000:03}\n" for n in range(count)]
        paths.append(put(inbox, "".join(["i,s,ts\n", *lines]).encode(), f"{number}.csv"))
    slice_ = FileSlice(tuple(paths), 5, "csv", (("header", "true"),))
    assert taken(spark, source, slice_)
    assert len(csv_kernel.split(paths, 2)) == 2


# -- the epoch -----------------------------------------------------------------------------------

STREAM = "CREATE STREAM s (id BIGINT, k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)"
VIEWS = (
    "CREATE MATERIALIZED VIEW rows_ AS SELECT id, k, v, ts FROM s; "
    "CREATE MATERIALIZED VIEW counts AS SELECT window_start, k, count(*) AS n, sum(v) AS sv, max(100 / v) AS top "
    "FROM TUMBLE(s, ts, INTERVAL 10 SECONDS) GROUP BY window_start, k"
)


class Watched:
    """A database over a directory of CSV, and which reader its epochs were read by."""

    def __init__(self, db: ms.Database, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.db, self.directory = db, directory
        self.readers: list[str] = []
        directory.mkdir(exist_ok=True)
        readers = self.readers

        class ByKernel(NativeEpoch):
            def finish(self) -> Any:
                at = len(readers)
                try:
                    done = super().finish()
                except RefusedError:
                    readers.append("refused")
                    raise
                # Views on which it failed have been left to Spark meanwhile.
                readers[at:] = ["kernel"]
                return done

        class BySpark(OpenEpoch):
            def run(self) -> Any:
                readers.append("spark")
                return super().run()

        monkeypatch.setattr(lanes, "NativeEpoch", ByKernel)
        monkeypatch.setattr(lanes, "OpenEpoch", BySpark)
        db.sql(
            f"{STREAM} WITH (source = 'files', path = '{directory}', format = 'csv', files_per_epoch = '1'); {VIEWS}"
        )

    def put(self, name: str, lines: list[str]) -> None:
        (self.directory / f".{name}").write_text("".join(f"{line}\n" for line in lines))
        (self.directory / f".{name}").rename(self.directory / name)
        self.db.drain()

    def content(self) -> list[list[dict[str, Any]]]:
        queries = (
            "SELECT * FROM rows_ ORDER BY id, k",
            "SELECT * FROM counts ORDER BY window_start, k",
            "SELECT id, k, v, ts, raw, reason, _view FROM s__dead ORDER BY id, raw, _view",
        )
        return [self.db.query(query).rows() for query in queries]


def lines(first: int, count: int) -> list[str]:
    return [f"{n},k{n % 3},{n % 5},2024-03-01 12:00:{n % 60:02}" for n in range(first, first + count)]


def test_a_refused_epoch_is_read_by_spark(connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is that of Spark's reader alone, letters included; so is what comes after it."""
    batches = {
        "1.csv": lines(1, 30),
        "2.csv": [*lines(100, 10), "200,k,ten,2024-03-01 12:00:00", "201,k", *lines(110, 10)],
        "3.csv": lines(300, 10),
        "4.csv": ["400,k,1,", *lines(401, 5)],
    }
    watched = Watched(connect("kernel"), tmp_path / "in", monkeypatch)
    for name, content in batches.items():
        watched.put(name, content)
    assert watched.readers == ["kernel", "refused", "spark", "spark", "spark"]
    found = watched.content()
    watched.db.close()

    monkeypatch.setattr(Trials, "is_due", lambda *_: False)
    plain = Watched(connect("spark"), tmp_path / "in", monkeypatch)
    plain.db.drain()
    assert plain.readers == ["spark"] * 4
    assert plain.content() == found
    assert len(found[2]) > 3, "two lines, rows that divide by zero, and a row without time"


def test_rows_that_fail_or_are_dead_are_no_reason_to_refuse(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Division by zero and a missing event time are found in rows that the kernel reads well."""
    watched = Watched(connect(), tmp_path / "in", monkeypatch)
    watched.put("1.csv", ["1,a,0,2024-03-01 12:00:00", "2,a,5,2024-03-01 12:00:00", "3,a,5,"])
    assert watched.readers == ["kernel"]
    kept, counts, dead = watched.content()
    assert [row["id"] for row in kept] == [1, 2]
    assert [row["n"] for row in counts] == [1]
    assert sorted((row["id"], row["_view"]) for row in dead if row["_view"]) == [(1, "counts")]
    assert [row["id"] for row in dead if not row["_view"]] == [3]


def test_the_kernel_is_tried_again(connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(connect(), tmp_path / "in", monkeypatch)
    watched.put("0.csv", ["1,a,+1,2024-03-01 12:00:00"])
    for number in range(1, 7):
        watched.put(f"{number}.csv", [f"{number + 1},a,1,2024-03-01 12:00:00"])
    assert watched.readers == ["refused", *["spark"] * 5, "kernel", "kernel"]
    assert [row["id"] for row in watched.content()[0]] == list(range(1, 8))
    assert watched.content()[2] == []
