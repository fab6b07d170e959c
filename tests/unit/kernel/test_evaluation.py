"""A share of rows through a program: what is dead, what is shared, what fails, how results travel."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millstream.kernel import evaluation
from millstream.kernel.evaluation import Outcome, evaluate, select
from millstream.kernel.handover import drop, open_directory, receive, send
from millstream.kernel.lines import RefusedError
from millstream.kernel.native import NUMBER, Condition, Equality, NativeView, Output
from millstream.kernel.program import Program, partners
from millstream.kernel.shares import RowsShare, share_out
from millstream.model.schema import Column, Schema
from millstream.plan.nodes import Stream, Top
from millstream.plan.slices import FileSlice, FrameSlice, RowsSlice
from millstream.spark.native import NativeForms, balance
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


@pytest.fixture(params=["few", "many"], autouse=True)
def _planned(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries that are planned once, and queries that are planned each time."""
    if request.param == "many":
        monkeypatch.setattr(evaluation, "_FEW", -1)


SUM = Output("__a0", "sum(v)", "sum({x})")
ROWS = Output("__rows", "count(*)", "CAST(sum({x}) AS BIGINT)")


def counting(
    name: str, condition: Condition | str | None = None, extra: Output = SUM, guarded: bool = False
) -> NativeView:
    schema = pa.schema([("__k0", pa.string()), ("__rows", pa.int64()), ("__a0", pa.int64())])
    asked = Condition(condition) if isinstance(condition, str) else condition
    return NativeView(name, (("__k0", "k"),), (ROWS, extra), asked, schema, is_grouped=True, guarded=guarded)


def deltas(program: Program, *outcomes: Outcome) -> list[list[tuple[object, ...]] | None]:
    """What every view gains from shares together, sorted."""
    forms = NativeForms(None)
    found: dict[int, list[tuple[object, ...]] | None] = {}
    for number, query in enumerate(program.queries):
        parcels = [outcome.results[number] for outcome in outcomes]
        if None in parcels:
            found |= dict.fromkeys(query.views)
            continue
        result = forms.combine(query, [receive(parcel) for parcel in parcels if parcel is not None])
        for view, rows in query.deltas([result], program.views).items():
            assert rows.schema == program.views[view].schema
            found[view] = sorted((tuple(row.values()) for row in rows.to_pylist()), key=repr)
    return [found[view] for view in range(len(program.views))]


GIVEN = [("a", 1, NOW), ("a", 5, NOW), ("b", 9, NOW), (None, 2, NOW)]


def test_views_with_the_same_keys_share_a_query() -> None:
    views = (
        counting("all"),
        counting("some", "v > 4"),
        counting("same", "v > 4"),
        counting("odd", Condition("v % 2 = 1", careful=True)),
        counting("guarded", "v > 4", guarded=True),
    )
    program = Program(STREAM, DAY, views)
    assert [query.views for query in program.queries] == [(0, 1, 2), (3,), (4,)]
    assert partners(views[0], views[1:]) == ["some", "same"]
    above = [("a", 1, 5), ("b", 1, 9)]
    expected = [[("a", 2, 6), ("b", 1, 9), (None, 1, 2)], above, above, [("a", 2, 6), ("b", 1, 9)], above]
    assert deltas(program, evaluate(program, share(*GIVEN))) == expected
    in_two = [evaluate(program, share(*some)) for some in (GIVEN[:1], GIVEN[1:])]
    assert deltas(program, *in_two) == expected
    nothing = evaluate(program, share())
    assert deltas(program, nothing) == [[], [], [], [], []]
    assert deltas(program, nothing, *in_two, nothing) == expected


def test_the_same_filter_is_asked_before() -> None:
    program = Program(
        STREAM, DAY, (counting("one", "v > 4"), counting("two", "v > 4", Output("__a0", "max(v)", "max({x})")))
    )
    assert [query.views for query in program.queries] == [(0, 1)]
    assert "WHERE v > 4 GROUP BY" in program.queries[0].sql
    assert deltas(program, evaluate(program, share(*GIVEN))) == [[("a", 1, 5), ("b", 1, 9)]] * 2


def of_remainder(modulus: int, value: int, least: int | None) -> Condition:
    rest = None if least is None else f"v >= {least}"
    sql = f"v % {modulus} = {value}" + ("" if rest is None else f" AND {rest}")
    return Condition(sql, equals=(Equality(f"v % {modulus}", f"{value}", rest),))


def test_any_number_of_filters() -> None:
    """Each view has what its filter alone leaves, with more filters than a signature has bits."""
    given = [(f"k{number % 5}", number if number % 7 else None, NOW) for number in range(400)]
    conditions = [of_remainder(10, number % 10, None if number < 10 else number) for number in range(80)]
    conditions += [of_remainder(3, number % 3, number) for number in range(10)]
    conditions += [Condition(f"v > {number * 9}") for number in range(50)]
    conditions += [
        Condition("v IS NULL"),
        Condition("v < 0"),
        Condition("k = 'k1'", equals=(Equality("k", "'k1'", None),)),
    ]
    views = (counting("everything"), *(counting(f"q{number}", asked) for number, asked in enumerate(conditions)))
    together = Program(STREAM, DAY, views)
    assert len(together.queries) == 3
    alone = [Program(STREAM, DAY, (view,)) for view in views]
    shares = [share(*given[start : start + 150]) for start in (0, 150, 300)]
    found = deltas(together, *(evaluate(together, some) for some in shares))
    assert found == [deltas(one, *(evaluate(one, some) for some in shares))[0] for one in alone]
    assert sum(1 for rows in found if rows) > 130


def test_views_without_keys() -> None:
    schema = pa.schema([("__rows", pa.int64())])
    views = tuple(
        NativeView(f"q{number}", (), (ROWS,), Condition(f"v > {number}"), schema, is_grouped=True)
        for number in (1, 4, 100)
    )
    program = Program(STREAM, DAY, views)
    outcomes = [evaluate(program, share(*some)) for some in (GIVEN[:2], GIVEN[2:])]
    assert deltas(program, *outcomes) == [[(3,)], [(2,)], []]
    assert deltas(Program(STREAM, DAY, views[2:]), evaluate(Program(STREAM, DAY, views[2:]), share(*GIVEN))) == [[]]


def test_a_view_that_fails_fails_alone() -> None:
    fails = counting("fails", None, Output("__a0", "sum(CAST(k AS BIGINT))", "sum({x})"))
    outputs = (Output("k", "k"), Output("__t", "__et"))
    schema = pa.schema([("k", pa.string()), ("__t", pa.int64())])
    program = Program(STREAM, DAY, (fails, NativeView("rows", (), outputs, None, schema, is_grouped=False)))
    outcome = evaluate(program, share(*GIVEN))
    assert [rows is None for rows in deltas(program, outcome)] == [True, False]


def test_only_the_top_leaves_a_task() -> None:
    schema = pa.schema([("k", pa.string()), ("v", pa.int64()), ("__t", pa.int64())])
    outputs = (Output("k", "k"), Output("v", "v"), Output("__t", "__et"))
    top = Top(("k",), "ORDER BY v DESC", "row_number()", 1)
    best = NativeView("best", (), outputs, Condition("v < 9"), schema, is_grouped=False, top=top)
    program = Program(STREAM, DAY, (best,))
    outcome = evaluate(program, share(*GIVEN))
    assert deltas(program, outcome) == [[("a", 5, NOW), (None, 2, NOW)]]
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


def test_rows_are_numbered_in_the_order_of_shares() -> None:
    schema = pa.schema([("__pane", pa.int64()), ("__rows", pa.int64()), ("__a0", pa.int64())])
    view = NativeView("v", (("__pane", NUMBER),), (ROWS, SUM), None, schema, is_grouped=True)
    program = Program(STREAM, DAY, (view,))
    assert program.numbers_rows
    assert not Program(STREAM, DAY, (counting("other"),)).numbers_rows
    same = ("a", 1, NOW), ("a", 2, NOW)
    first, second = (evaluate(program, share(*some), number=at) for at, some in enumerate((same, same[::-1])))
    (found,) = deltas(program, second, first)
    assert found is not None
    assert [value for _, _, value in sorted(found)] == [1, 2, 2, 1], "each row is a group, in its place"
