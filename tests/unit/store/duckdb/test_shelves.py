"""Views that are kept together: whatever happens to them, each is as if it were kept by itself."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.model.errors import MillstreamError
from millstream.model.progress import BEGINNING, Progress
from millstream.plan.nodes import AggregateView, ViewPlan
from millstream.plan.planner import plan_view
from millstream.plan.windows import CountWindow, SessionWindow
from millstream.sql import parse_statement
from millstream.sql.statements import CreateView
from millstream.store import commands
from millstream.store.commands import Commit, Retain, StreamPart, ViewPart
from millstream.store.duckdb import definitions, layout, shelves, writer
from millstream.store.duckdb.store import DuckDBStore
from millstream.store.duckdb.writing import Statements
from millstream.store.protocol import ViewFailedError
from tests.unit.store.duckdb.test_store import DELTA, SECOND, STREAM, delta

WINDOWED = (
    "SELECT window_start, auction, count(*) AS {n}, max(price) AS top FROM TUMBLE(bids, ts, INTERVAL 10 SECONDS) "
    "WHERE price > {price} GROUP BY window_start, auction {rest}"
)
KEYED = (
    "SELECT window_start, auction, count(*) AS {{n}}, max(price) AS top FROM {window} "
    "WHERE price > {{price}} GROUP BY window_start, window_end, auction {rest}"
)
SHAPES = {
    "w": WINDOWED.replace("{rest}", ""),
    "h": WINDOWED.replace("{rest}", "HAVING count(*) > 2"),
    "r": WINDOWED.replace("{rest}", "EMIT ON EPOCH RETRACTING"),
    "k": "SELECT auction, count(*) AS {n}, max(price) AS top FROM bids WHERE price > {price} GROUP BY auction",
    "g": "SELECT count(*) AS {n}, max(price) AS top FROM bids WHERE price > {price}",
    "m": "SELECT auction, max(price) AS {n}, count(price) AS top FROM bids WHERE price > {price} GROUP BY auction",
    "o": WINDOWED.replace("{rest}", "EMIT ON WATERMARK"),
    "p": WINDOWED.replace(
        "{rest}", "EMIT EARLY EVERY 3 ROWS ON WATERMARK RETRACTING ALLOWED LATENESS INTERVAL 10 SECONDS"
    ),
    "d": WINDOWED.replace("{rest}", "HAVING count(*) > 1 EMIT EVERY 2 ROWS DISCARDING"),
    "e": "SELECT count(*) AS {n}, max(price) AS top FROM bids WHERE price > {price} EMIT EVERY 3 ROWS",
    "s": KEYED.format(window="SESSION(bids PARTITION BY auction, ts, INTERVAL 5 SECONDS)", rest="EMIT ON WATERMARK"),
    "t": KEYED.format(window="SESSION(bids PARTITION BY auction, ts, INTERVAL 5 SECONDS)", rest=""),
    "u": KEYED.format(window="SLIDE(bids PARTITION BY auction, ts, INTERVAL 10 SECONDS)", rest=""),
    "c": KEYED.format(window="COUNT_WINDOW(bids PARTITION BY auction, 3)", rest=""),
}
LIVE = "whrkgm"
NAMES = [f"{shape}{number}" for shape in SHAPES for number in range(3)]


def planned(name: str, options: str = "") -> AggregateView:
    """A view that differs from others of its shape in its filter and in the name of a column."""
    text = SHAPES[name[0]].format(n=f"n_{name}", price=name[1:])
    create = parse_statement(f"CREATE MATERIALIZED VIEW {name} {options} AS {text}")
    assert isinstance(create, CreateView)
    view = plan_view(create, lambda _: STREAM, lambda _, sqls: [pa.int64() for _ in sqls])
    assert isinstance(view, AggregateView)
    return view


def _without_shelves(patch: pytest.MonkeyPatch) -> None:
    for module in (definitions, writer):
        patch.setattr(module, "may_share", lambda _: False)


def delta_of(view: AggregateView, rows: pa.Table) -> pa.Table:
    """The columns of rows that a view has in its delta."""
    keys = [f"__k{index}" for index in range(len(view.keys))]
    pane, extra = rows.column("__pane"), dict[str, Any]()
    match view.window:
        case SessionWindow():
            extra = {"__first": pane, "__last": pane}
        case CountWindow():
            one, places = pa.repeat(1, rows.num_rows), pa.array(range(rows.num_rows), pa.int64())
            for name in ("__rows", "__a0"):
                rows = rows.set_column(rows.schema.get_field_index(name), name, [one])
            extra = {"__t": pane, "__p": pa.repeat(pa.scalar(0, pa.int32()), rows.num_rows), "__o": places}
    rows = rows.select([*keys, *(["__pane"] if view.window else []), "__rows", "__a0", "__a1"])
    for name, values in extra.items():
        rows = rows.append_column(name, values)
    return rows


@dataclass
class Views:
    """Views of one stream in a store, and what happens to them."""

    path: Path
    options: str = ""
    views: dict[str, AggregateView] = field(default_factory=dict)
    watermark: int = BEGINNING

    def __post_init__(self) -> None:
        self.store = DuckDBStore(self.path / "store.duckdb", "500MB")
        self.store.apply(commands.CreateStream(STREAM, "CREATE STREAM …", 0))

    def create(self, name: str) -> None:
        if name not in self.views:
            view = self.views[name] = planned(name, self.options)
            schema = delta_of(view, DELTA.empty_table()).schema
            self.store.apply(commands.CreateView(ViewPlan((view,)), {name: schema}, "CREATE VIEW …", 0))

    def drop(self, name: str) -> None:
        if self.views.pop(name, None) is not None:
            self.store.apply(commands.Drop([name]))

    def epoch(self, deltas: Mapping[str, pa.Table], watermark: int = 0, *, behind: str = "", now: int = 0) -> None:
        """Commit deltas; one view may be `behind` the others."""
        before, self.watermark = self.watermark, max(self.watermark, watermark * SECOND)
        parts = []
        for name, view in self.views.items():
            rows = deltas.get(name)
            parts.append(
                ViewPart(
                    view,
                    None if rows is None else delta_of(view, rows),
                    BEGINNING if name == behind else before,
                    BEGINNING if name == behind else self.watermark,
                    repeats=view.is_mergeable,
                )
            )
        progress = Progress({0: 0}, {0: self.watermark}, {0: 0}, self.watermark)
        self.store.apply(Commit(now * SECOND, [StreamPart(STREAM, progress)], parts))

    def reopen(self) -> None:
        self.store.close()
        self.store = DuckDBStore(self.path / "store.duckdb", "500MB")

    def seen(self) -> dict[str, Any]:
        """All that readers can see, in the order in which it is, and rows in any order."""
        found: dict[str, Any] = {}
        for name in self.views:
            rows = self.store.query(f"SELECT * FROM {name} ORDER BY ALL")
            changes = self.store.changes(name, -1).to_pylist()
            # Rows of one epoch that are changed in the same way are in no order.
            changes.sort(key=lambda row: (row["epoch"], row["op"] not in ("delete", "retract"), repr(row)))
            found[name] = (rows.to_pylist(), rows.schema.names, changes)
        return found

    def shelves(self) -> list[set[str]]:
        found = self.store.query("SELECT list(view) AS views FROM ms.shelved GROUP BY shelf").column("views")
        return sorted((set(views) for views in found.to_pylist()), key=sorted)


@pytest.fixture
def views(tmp_path: Path) -> Views:
    return Views(tmp_path)


ROWS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 5)), st.sampled_from([0, 10]), st.integers(1, 3), st.integers(0, 9)),
    min_size=1,
    max_size=6,
).map(lambda rows: delta(*rows))
STEPS = st.one_of(
    st.tuples(
        st.just("epoch"),
        st.dictionaries(st.sampled_from(NAMES), ROWS, min_size=1, max_size=len(NAMES)),
        st.integers(0, 25),
        st.one_of(st.just(""), st.sampled_from(NAMES)),
    ),
    st.tuples(st.sampled_from(["create", "drop", "take", "put"]), st.sampled_from(NAMES)),
    st.tuples(st.just("reopen")),
)


@settings(max_examples=15, deadline=None)
@given(steps=st.lists(STEPS, min_size=3, max_size=14), many=st.sampled_from([4, 12, 1_000]))
def test_a_view_on_a_shelf_is_as_one_by_itself(steps: list[tuple[Any, ...]], many: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("millstream.store.duckdb.writing.MANY", many)
        seen = []
        for place, shared in (("together", True), ("alone", False)):
            path = Path(folder) / place
            path.mkdir()
            with pytest.MonkeyPatch.context() as inner:
                if not shared:
                    _without_shelves(inner)
                views = Views(path)
                for name in NAMES[::2]:
                    views.create(name)
                for step in steps:
                    perform(views, step)
                seen.append(views.seen())
                assert shared or views.shelves() == []
                views.store.close()
        assert seen[0] == seen[1]


def perform(views: Views, step: tuple[Any, ...]) -> None:
    match step:
        case "epoch", deltas, watermark, behind:
            views.epoch(deltas, watermark, behind=behind)
        case "create", name:
            views.create(name)
        case "drop", name:
            views.drop(name)
        case "take", name:
            views.store._writer.take_from_shelves([name])
        case "put", name:
            if name in views.views:
                views.store._writer.put_on_shelves([views.views[name]])
        case _:
            views.reopen()


def test_views_of_one_shape_are_merged_by_one_statement(views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        views.create(name)
    assert views.shelves() == [{f"{shape}{number}" for number in range(3)} for shape in sorted(SHAPES)]
    run: list[str] = []
    execute = Statements.execute

    def noted(self: Statements, sql: str) -> object:
        run.append(self.name)
        return execute(self, sql)

    monkeypatch.setattr(Statements, "execute", noted)
    views.epoch({name: delta((1, 0, 2, 10)) for name in NAMES})
    assert len(set(run)) == len(SHAPES), "all that is done is done to shelves"
    live = {views.store.query(f"SELECT shelf FROM ms.shelved WHERE view = '{s}1'")[0][0].as_py() for s in LIVE}
    assert sum(name in live for name in run) == len(LIVE), "with one statement for live views"
    assert [row["n_k1"] for row in views.store.query("FROM k1").to_pylist()] == [2]
    views.epoch({}, watermark=10)
    assert [row["n_o2"] for row in views.store.query("FROM o2").to_pylist()] == [2]


def test_views_that_show_other_things_are_not_of_one_shape(views: Views) -> None:
    views.create("k0")
    views.views["other"] = replace(planned("k1"), name="other", changelog_retain=5)
    other = views.views["other"]
    views.store.apply(
        commands.CreateView(ViewPlan((other,)), {"other": delta_of(other, DELTA.empty_table()).schema}, "…", 0)
    )
    assert views.shelves() == [{"k0"}, {"other"}]


def test_types_are_part_of_the_shape(views: Views) -> None:
    views.create("k0")
    texts = pa.schema([("__k0", pa.string()), ("__rows", pa.int64()), ("__a0", pa.int64()), ("__a1", pa.int64())])
    views.store.apply(commands.CreateView(ViewPlan((planned("k1"),)), {"k1": texts}, "…", 0))
    assert views.shelves() == [{"k0"}, {"k1"}]


def test_what_grows_is_given_a_place_of_its_own(views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.store.duckdb.writing.MANY", 6)
    for name in ("k0", "k1"):
        views.create(name)
    for first in (0, 2, 4):
        views.epoch({"k0": delta(*((key, 0, 1, 1) for key in (first, first + 1))), "k1": delta((1, 0, 1, 1))})
        expected = [{"k1"}] if first == 4 else [{"k0", "k1"}]
        assert views.shelves() == expected
    # Many rows of one group are not many groups.
    for _ in range(10):
        views.epoch({"k1": delta((1, 0, 1, 1))})
    assert views.shelves() == [{"k1"}]
    assert views.store.query("SELECT count(*) AS n, sum(n_k0) AS s FROM k0").to_pylist() == [{"n": 6, "s": 6}]
    assert views.store.query("SELECT n_k1 FROM k1").to_pylist() == [{"n_k1": 13}]


def test_the_last_to_leave_takes_the_shelf_along(views: Views) -> None:
    for name in ("k0", "k1", "g0"):
        views.create(name)
    views.epoch({name: delta((1, 0, 2, 10)) for name in views.views})
    for name in ("k1", "k0", "g0"):
        views.drop(name)
    left = views.store.query("SELECT table_name FROM duckdb_tables() WHERE starts_with(table_name, '__shelf')")
    assert left.num_rows == 0
    assert views.shelves() == []


def test_an_epoch_that_fails_leaves_every_view_in_its_place(views: Views) -> None:
    for name in ("k0", "k1"):
        views.create(name)
    views.epoch({"k0": delta((1, 0, 2, 10))})
    before = views.seen()
    broken = delta_of(views.views["k1"], delta((1, 0, 1, 11))).drop_columns(["__a1"])
    bad = ViewPart(views.views["k1"], broken, BEGINNING, BEGINNING)
    good = ViewPart(views.views["k0"], delta_of(views.views["k0"], delta((2, 0, 1, 1))), BEGINNING, BEGINNING)
    with pytest.raises(ViewFailedError) as failed:
        views.store.apply(Commit(0, [], [good, bad]))
    assert failed.value.view == "k1"
    assert views.seen() == before
    views.epoch({"k1": delta((1, 0, 2, 10))})
    assert views.store.query("SELECT n_k1 FROM k1").to_pylist() == [{"n_k1": 2}]


def test_changes_of_each_view_go_when_they_are_too_old(tmp_path: Path) -> None:
    views = Views(tmp_path, options="WITH (changelog_retain = '1 minute')")
    views.create("k0")
    views.epoch({"k0": delta((1, 0, 2, 10))}, now=0)
    views.create("k1")
    views.epoch({"k0": delta((1, 0, 2, 11)), "k1": delta((1, 0, 2, 11))}, now=200)
    views.store.apply(Retain(200 * SECOND, list(views.views.values()), []))
    views.store.settle()
    assert views.shelves() == [{"k0", "k1"}]
    assert [row["epoch"] for row in views.store.changes("k0", -1).to_pylist()] == [2]
    with pytest.raises(MillstreamError) as gone:
        views.store.changes("k0", 0)
    assert gone.value.code == "CHANGELOG_GONE"
    # Of the one that came later nothing is gone.
    assert [row["epoch"] for row in views.store.changes("k1", 0).to_pylist()] == [2]


def test_a_store_of_the_format_before_shelves_is_read(views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        _without_shelves(before)
        views.create("k0")
        views.epoch({"k0": delta((1, 0, 2, 10))})
    cursor = views.store.cursor()
    cursor.execute("DROP TABLE ms.shelved")
    cursor.execute("UPDATE ms.format SET version = 2")
    views.reopen()
    views.create("k1")
    views.epoch({"k0": delta((1, 0, 2, 10)), "k1": delta((1, 0, 2, 10))})
    assert views.shelves() == [{"k1"}]
    assert views.store.query("SELECT n_k0 FROM k0").to_pylist() == [{"n_k0": 4}]
    assert views.store.query("SELECT version FROM ms.format").to_pylist() == [{"version": layout.FORMAT_VERSION}]


def test_views_that_are_planned_otherwise_go_to_another_shelf(views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("k0", "k1"):
        views.create(name)
    views.epoch({"k0": delta((1, 0, 2, 10))})
    views.reopen()
    before = views.store.query("SELECT DISTINCT shelf FROM ms.shelved")
    monkeypatch.setattr(shelves, "_shape_name", lambda _: "__shelf_of_the_next_release_")
    views.epoch({"k0": delta((1, 0, 2, 10)), "k1": delta((1, 0, 2, 10))})
    assert views.shelves() == [{"k0", "k1"}]
    assert views.store.query("SELECT DISTINCT shelf FROM ms.shelved") != before
    assert views.store.query("SELECT n_k0, n_k1 FROM k0, k1").to_pylist() == [{"n_k0": 4, "n_k1": 2}]


def test_only_options_that_matter_move_a_view(views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("k0", "k1"):
        views.create(name)
    moved: list[str] = []
    take = shelves.Shelves.take

    def noted(self: shelves.Shelves, name: str) -> object:
        moved.append(name)
        return take(self, name)

    monkeypatch.setattr(shelves.Shelves, "take", noted)
    old = ViewPlan((views.views["k0"],))
    views.store.apply(commands.ChangeView(old, ViewPlan((planned("k0"),)), "CREATE VIEW …"))
    assert moved == []
    views.store.apply(
        commands.ChangeView(old, ViewPlan((planned("k0", "WITH (changelog_retain = '5 minutes')"),)), "CREATE VIEW …")
    )
    assert (moved, views.shelves()) == (["k0"], [{"k0"}, {"k1"}])
    views.store.apply(
        commands.ChangeView(old, ViewPlan((planned("k0", "WITH (retain = '5 minutes')"),)), "CREATE VIEW …")
    )
    assert (moved, views.shelves()) == (["k0", "k0"], [{"k1"}])
