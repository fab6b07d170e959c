"""A share of rows through a program: what is dead, what is shared, what fails, how results travel."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millstream.kernel.evaluation import Outcome, evaluate, select
from millstream.kernel.handover import drop, open_directory, receive, send
from millstream.kernel.lines import RefusedError
from millstream.kernel.native import Condition, NativeView
from millstream.kernel.program import Program, partners
from millstream.kernel.shares import RowsShare, share_out
from millstream.model.schema import Column, Schema
from millstream.plan.nodes import Stream, Top
from millstream.plan.slices import FileSlice, FrameSlice, RowsSlice
from millstream.spark.native import balance
from millstream.sql.statements import Watermark

SCHEMA = Schema((Column("k", pa.string()), Column("v", pa.int64()), Column("ts", pa.timestamp("us"))))
STREAM = Stream("s", SCHEMA, Watermark("ts", 0), None)
NOW = 1_700_000_000_000_000
DAY = 86_400_000_000


def rows(*given: tuple[str | None, int | None, int | None]) -> pa.Table:
    columns = {
        "k": pa.array([row[0] for row in given], pa.string()),
        "v": pa.array([row[1] for row in given], pa.int64()),
        "ts": pa.array([row[2] for row in given], pa.timestamp("us")),
    }
    place = {"__p": pa.int32(), "__o": pa.int64(), "__landed": pa.int64(), "__pt": pa.int64()}
    values = {"__p": 0, "__landed": NOW, "__pt": NOW}
    for name, type_ in place.items():
        columns[name] = pa.array([values.get(name, number) for number in range(len(given))], type_)
    return pa.table(columns)


def share(*given: tuple[str | None, int | None, int | None]) -> RowsShare:
    return RowsShare(send(rows(*given), None), None, None)


def counting(
    name: str, condition: str | None = None, extra: str = "sum(v)⟨filter⟩", careful: bool = False
) -> NativeView:
    schema = pa.schema([("__k0", pa.string()), ("__rows", pa.int64()), ("__a0", pa.int64())])
    return NativeView(
        name,
        (("__k0", "k"),),
        (("__rows", "count(*)⟨filter⟩"), ("__a0", extra)),
        None if condition is None else Condition(condition, careful),
        schema,
        (("__rows", "sum(__rows)"), ("__a0", "sum(__a0)")),
    )


def deltas(outcome: Outcome) -> list[list[tuple[object, ...]] | None]:
    found: list[list[tuple[object, ...]] | None] = []
    for parcel in outcome.deltas:
        if parcel is None:
            found.append(None)
        else:
            found.append(sorted((tuple(row.values()) for row in receive(parcel).to_pylist()), key=repr))
    return found


GIVEN = [("a", 1, NOW), ("a", 5, NOW), ("b", 9, NOW), (None, 2, NOW)]


def test_views_with_the_same_keys_share_a_query() -> None:
    views = (
        counting("all"),
        counting("some", "v > 4"),
        counting("same", "v > 4"),
        counting("odd", "v % 2 = 1", careful=True),
    )
    program = Program(STREAM, DAY, views)
    assert [query.views for query in program.queries] == [(0, 1, 2), (3,)]
    assert program.queries[0].sql.count("sum(v) FILTER (WHERE v > 4)") == 1
    assert partners(views[0], views[1:]) == ["some", "same"]
    assert deltas(evaluate(program, share(*GIVEN))) == [
        [("a", 2, 6), ("b", 1, 9), (None, 1, 2)],
        [("a", 1, 5), ("b", 1, 9)],
        [("a", 1, 5), ("b", 1, 9)],
        [("a", 2, 6), ("b", 1, 9)],
    ]


def test_the_same_filter_is_asked_before() -> None:
    program = Program(STREAM, DAY, (counting("one", "v > 4"), counting("two", "v > 4", "max(v)⟨filter⟩")))
    assert [query.views for query in program.queries] == [(0, 1)]
    assert program.queries[0].sql.endswith("WHERE v > 4 GROUP BY 1")


def test_a_view_that_fails_fails_alone() -> None:
    fails = counting("fails", None, "sum(CAST(k AS BIGINT))⟨filter⟩")
    other = NativeView(
        "rows", (), (("k", "k"), ("__t", "__et")), None, pa.schema([("k", pa.string()), ("__t", pa.int64())]), None
    )
    outcome = evaluate(Program(STREAM, DAY, (fails, other)), share(*GIVEN))
    assert [delta is None for delta in outcome.deltas] == [True, False]


def test_only_the_top_leaves_a_task() -> None:
    schema = pa.schema([("k", pa.string()), ("v", pa.int64()), ("__t", pa.int64())])
    outputs = (("k", "k"), ("v", "v"), ("__t", "__et"))
    best = NativeView(
        "best", (), outputs, Condition("v < 9"), schema, None, Top(("k",), "ORDER BY v DESC", "row_number()", 1)
    )
    outcome = evaluate(Program(STREAM, DAY, (best,)), share(*GIVEN))
    assert deltas(outcome) == [[("a", 5, NOW), (None, 2, NOW)]]
    assert outcome.used == (3,), "all that met the condition count as used"


def test_dead_rows_are_told_apart() -> None:
    given = [*GIVEN, ("x", 1, None), ("y", 1, NOW + 2 * DAY), ("z", 1, -46_000_000_000_000_000)]
    outcome = evaluate(Program(STREAM, DAY, (counting("all"),)), share(*given))
    assert (outcome.rows, outcome.dead, outcome.newest) == (7, 3, ((0, NOW),))
    assert outcome.dead_rows is not None
    assert {row["k"]: row["__reason"] for row in receive(outcome.dead_rows).to_pylist()} == {
        "x": "event time ts is NULL",
        "y": "event time ts runs more than 1 day ahead",
        "z": "event time ts is out of range",
    }
    late = select(Program(STREAM, DAY, ()), share(*given), None, "SELECT k, __raw FROM __rows WHERE v = 1")
    assert receive(late).to_pylist() == [{"k": "a", "__raw": None}]


def test_large_tables_travel_in_files(tmp_path: Path) -> None:
    (tmp_path / "left").write_text("of a task that failed")
    directory = open_directory(tmp_path)
    assert list(tmp_path.iterdir()) == []
    large = pa.table({"x": range(100_000)})
    parcel = send(large, directory)
    assert isinstance(parcel, str)
    assert receive(parcel).equals(large)
    assert list(tmp_path.iterdir()) == []
    drop([send(large, directory), None, b""])
    assert list(tmp_path.iterdir()) == []
    assert isinstance(send(large.slice(0, 10), directory), bytes)
    assert isinstance(send(large, str(tmp_path / "gone")), bytes), "where nothing can be written it is sent"


def test_parquet_is_shared_out_by_row_groups(tmp_path: Path) -> None:
    table = pa.table({"k": ["a", "b"] * 50, "v": range(100), "ts": pa.array([NOW] * 100, pa.timestamp("us", "UTC"))})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=10)
    schema = SCHEMA.to_arrow()
    shares = share_out(FileSlice((str(path),), 7, "parquet"), schema, 3)
    found = pa.concat_tables([share_.read(schema) for share_ in shares])
    assert len(shares) == 3
    assert found.column("v").to_pylist() == list(range(100))
    assert set(found.column("__o").to_pylist()) == {7}
    for other in (table.drop_columns(["v"]), table.set_column(1, "v", pa.array(range(100), pa.int32()))):
        pq.write_table(other, path)
        with pytest.raises(RefusedError):
            share_out(FileSlice((str(path),), 7, "parquet"), schema, 3)
    with pytest.raises(RefusedError):
        share_out(FileSlice((str(path),), 7, "parquet", (("mergeSchema", "true"),)), schema, 3)


def test_deletions_are_left_to_spark() -> None:
    gone = rows(*GIVEN).append_column("__tombstone", pa.array([False, False, True, False]))
    with pytest.raises(RefusedError):
        share_out(RowsSlice(gone, None), SCHEMA.to_arrow(), 2)
    assert share_out(FrameSlice(()), SCHEMA.to_arrow(), 2) == []


def test_shares_are_balanced() -> None:
    assert balance([], 2) == [[]]
    assert balance([5], 2) == [[0]]
    assert sorted(map(sorted, balance([9, 1, 1, 1, 6], 2))) == [[0], [1, 2, 3, 4]]
