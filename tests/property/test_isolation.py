"""Random faults planted in one view of many: every other view equals the batch query over the same prefix.

The fault is raised where a view's delta is computed, judged, merged or queried, or where the view is planned. What is
checked after every epoch: `drain` succeeds, views that do not stand still are right and their rows add up, the others
show their last good contents, SHOW VIEWS names the failed view and those that read it. In the end the fault is gone,
and REBUILD, replacing or dropping the view leaves everything live and right.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millstream as ms
from millstream.engine.define.definitions import Definitions
from millstream.engine.run import epochs
from millstream.engine.run.isolation import view_of
from millstream.engine.run.judging import judge as judge_view
from millstream.model.errors import MillstreamError
from millstream.spark.epoch import OpenEpoch
from millstream.spark.native import NativeEpoch
from millstream.store.duckdb import commits, shelves
from millstream.store.duckdb.connection import store_error
from millstream.store.duckdb.maintainers import merge_delta
from millstream.store.duckdb.query import QueryMaintainer
from millstream.store.duckdb.writing import Statements

DEFINITIONS = """
CREATE STREAM s (id BIGINT, k INT, v INT, ts TIMESTAMP);
CREATE TABLE t (id BIGINT PRIMARY KEY, name STRING);
"""
# Each of the views over `s` that group has a key of its own in its delta, by which its share of a shelf is known.
VIEWS = {
    "g0": "SELECT k + 1000 AS k, count(*) AS n, sum(v) AS total FROM s GROUP BY k + 1000",
    "g1": "SELECT k + 2000 AS k, count(*) AS n, sum(v) AS total FROM s WHERE v > 1 GROUP BY k + 2000",
    "g2": "SELECT k + 3000 AS k, count(*) AS n, sum(v) AS total FROM s GROUP BY k + 3000",
    "kept": "SELECT id, v * 2 AS w FROM s WHERE v > 2",
    "top": "SELECT k, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) AS r FROM s) q"
    " WHERE r <= 2",
    "ses": "SELECT k, window_start, count(*) AS n FROM SESSION(s PARTITION BY k, ts, INTERVAL 10 SECONDS)"
    " GROUP BY k, window_start, window_end",
    "joined": "SELECT s.id, t.name FROM s JOIN t ON s.k = t.id",
    "names": "SELECT name, count(*) AS n FROM t GROUP BY name",
    "over": "SELECT sum(n) AS n, max(k) AS k FROM g0",
    "far": "SELECT o.n + c.n AS n FROM over o CROSS JOIN (SELECT count(*) AS n FROM names) c",
}
BATCH = VIEWS | {
    "ses": "SELECT k, min(ts) AS window_start, count(*) AS n FROM (SELECT *, sum(first) OVER (PARTITION BY k ORDER BY"
    " ts, id) AS nr FROM (SELECT *, CASE WHEN ts < lag(ts) OVER (PARTITION BY k ORDER BY ts, id) + INTERVAL 10 SECONDS"
    " THEN 0 ELSE 1 END AS first FROM s)) GROUP BY k, nr",
}
READERS = {"g0": {"over", "far"}, "over": {"far"}, "names": {"far"}}
KEYS = {"g0": 1000, "g1": 2000, "g2": 3000}
PLACES = {
    "merge": ["g0", "g1", "g2", "kept", "top", "ses", "joined"],
    "query": ["joined", "names", "over", "far"],
    "spark": ["g0", "g1", "kept", "top", "ses", "joined"],
    "judge": ["g0", "g2", "kept", "top", "ses"],
    "plan": list(VIEWS),
}
ERRORS: dict[str, Callable[[], Exception]] = {
    "conversion": lambda: duckdb.ConversionException("Conversion Error: planted"),
    "range": lambda: duckdb.OutOfRangeException("Out of Range Error: planted"),
    "binder": lambda: duckdb.BinderException("Binder Error: planted"),
    "key": lambda: KeyError("planted"),
    "arrow": lambda: pa.ArrowInvalid("planted"),
    "ours": lambda: MillstreamError("SPARK_FAILED", "planted"),
}


@dataclass
class Fault:
    """What fails, where and how, while it is armed."""

    place: str
    view: str
    error: str
    armed: bool = False

    def strike(self, place: str, hit: bool) -> None:
        if self.armed and self.place == place and hit:
            error = ERRORS[self.error]()
            # Only the store meets errors of DuckDB as they are.
            in_store = place in ("merge", "query")
            raise store_error(error) if isinstance(error, duckdb.Error) and not in_store else error

    def is_in(self, statements: Statements, delta: pa.Table | None) -> bool:
        """Whether a merge, under the name of a view or of a shelf, is of the view."""
        if view_of(statements.name).removesuffix("~") == self.view:
            return True
        if delta is None or not statements.name.startswith("__shelf_"):
            return False
        if self.view not in KEYS:
            # No other view is of its shape.
            shelved = "SELECT view FROM ms.shelved WHERE shelf = ?"
            views = statements.writing.connection.execute(shelved, [statements.name]).fetchall()
            return any(name.removesuffix("~") == self.view for (name,) in views)
        return any(KEYS[self.view] <= key < KEYS[self.view] + 1000 for key in delta.column("__k0").to_pylist())


@contextmanager
def planted(fault: Fault) -> Iterator[None]:
    """Wrap what works on views, so that the fault strikes."""
    merge, maintain = merge_delta, QueryMaintainer.maintain
    run, finish, judge, plan = OpenEpoch.run, NativeEpoch.finish, judge_view, Definitions.plan_statement

    def is_it(name: str) -> bool:
        return view_of(name).removesuffix("~") == fault.view

    def merging(keeper: Any, statements: Any, delta: Any, **options: Any) -> None:
        merge(keeper, statements, delta, **options)
        fault.strike("merge", fault.is_in(statements, delta))

    def maintaining(self: Any, statements: Any, changed: Any) -> Any:
        fault.strike("query", is_it(self.view.name))
        return maintain(self, statements, changed)

    def running(self: Any) -> Any:
        fault.strike("spark", any(is_it(view.name) for view in self.views))
        return run(self)

    def finishing(self: Any) -> Any:
        fault.strike("spark", any(is_it(view.name) for view in self.views))
        return finish(self)

    def judging(view: Any, *verdict_of: Any) -> Any:
        fault.strike("judge", is_it(view.name))
        return judge(view, *verdict_of)

    def planning(self: Any, create: Any) -> Any:
        fault.strike("plan", is_it(create.name))
        return plan(self, create)

    with pytest.MonkeyPatch.context() as patch:
        for module in (shelves, commits):
            patch.setattr(module, "merge_delta", merging)
        patch.setattr(QueryMaintainer, "maintain", maintaining)
        patch.setattr(OpenEpoch, "run", running)
        patch.setattr(NativeEpoch, "finish", finishing)
        patch.setattr(epochs, "judge", judging)
        patch.setattr(Definitions, "plan_statement", planning)
        yield


@dataclass
class World:
    """A database, what was inserted, and what each view should be."""

    directory: Path
    fault: Fault
    rows: list[dict[str, Any]] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    good: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    still: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.db = ms.connect(self.directory)
        self.db.sql(DEFINITIONS)
        for name, query in VIEWS.items():
            self.db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")

    def insert(self, rows: list[tuple[int, int, int]], names: dict[int, str]) -> None:
        """One epoch."""
        first = len(self.rows)
        new = [
            {"id": first + n, "k": k, "v": v, "ts": datetime(2026, 1, 1) + timedelta(seconds=at)}
            for n, (k, v, at) in enumerate(rows)
        ]
        if new:
            self.db.insert("s", new)
            self.rows += new
        if names:
            self.db.insert("t", [{"id": key, "name": name} for key, name in names.items()])
            self.names |= names
        self.db.drain()

    def reopen(self) -> None:
        self.db.close()
        self.db = ms.connect(self.directory)

    def fail(self) -> None:
        self.still = {self.fault.view, *READERS.get(self.fault.view, ())}

    def check(self) -> None:
        states = {row["name"]: row["state"] for row in self.db.sql("SHOW VIEWS").rows()}  # type: ignore[union-attr]
        for name in VIEWS:
            if name not in self.still:
                self.good[name] = self._batch(name)
                assert states[name] == "live", (name, states[name])
            elif name == self.fault.view:
                assert states[name].startswith("failed since epoch"), states[name]
                assert "planted" in states[name]
            else:
                assert states[name].startswith("blocked since epoch"), states[name]
            assert _sorted(self.db.query(f"SELECT * FROM {name}").rows()) == self.good.get(name, []), name
        self._check_accounting()

    def _batch(self, name: str) -> list[tuple[Any, ...]]:
        with duckdb.connect() as batch:
            batch.execute(
                "CREATE TABLE s (id BIGINT, k INT, v INT, ts TIMESTAMP); CREATE TABLE t (id BIGINT, name TEXT)"
            )
            if self.rows:
                batch.executemany("INSERT INTO s VALUES (?, ?, ?, ?)", [list(row.values()) for row in self.rows])
            if self.names:
                batch.executemany("INSERT INTO t VALUES (?, ?)", [list(pair) for pair in self.names.items()])
            for view in ("g0", "names", "over"):
                batch.execute(f"CREATE VIEW {view} AS {BATCH[view]}")
            return _sorted(batch.sql(BATCH[name]).to_arrow_table().to_pylist())

    def _check_accounting(self) -> None:
        for epoch in self.db.sql("SHOW EPOCHS").rows():  # type: ignore[union-attr]
            streams, views = json.loads(epoch["streams"]), json.loads(epoch["views"])
            for view, counts in views.items():
                if "s" in streams and view_of(view) not in self.still:
                    assert sum(counts.values()) in (streams["s"]["decoded"], 0), (epoch["epoch"], view)


def _sorted(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(None if value is None else str(value) for value in row.values()) for row in rows), key=repr)


KEY = st.integers(0, 3)
ROWS = st.lists(st.tuples(KEY, st.integers(0, 5), st.integers(0, 60)), min_size=1, max_size=8)
NAMES = st.dictionaries(KEY, st.sampled_from(["x", "y", "z"]), max_size=3)
FAULTS = st.sampled_from([(place, view) for place, views in PLACES.items() for view in views])


@settings(max_examples=8)
@given(
    fault=FAULTS,
    error=st.sampled_from(sorted(ERRORS)),
    before=st.lists(st.tuples(ROWS, NAMES), max_size=2),
    during=st.tuples(ROWS, st.dictionaries(KEY, st.sampled_from(["x", "y", "z"]), min_size=2, max_size=3)),
    after=st.lists(st.tuples(ROWS, NAMES), min_size=1, max_size=2),
    restarts=st.booleans(),
    way=st.sampled_from(["rebuild", "replace"]),
)
def test_one_view_that_fails_stops_no_other(
    fresh_directory: Any, fault: Any, error: str, before: Any, during: Any, after: Any, restarts: bool, way: str
) -> None:
    place, view = fault
    planned = Fault(place, view, error)
    with fresh_directory() as directory, planted(planned):
        world = World(directory, planned)
        try:
            # All kinds of views are there, with something in each that can be lost.
            world.insert([(key, 5, key) for key in range(4)], {0: "x", 1: "y"})
            for rows, names in before:
                world.insert(rows, names)
            world.check()
            planned.armed = True
            if planned.place == "plan":
                world.reopen()
            world.fail()
            world.insert([*during[0], (0, 5, 1)], {**during[1], 0: "changed"})
            world.check()
            if restarts:
                world.reopen()
                world.check()
            for rows, names in after:
                world.insert(rows, names)
                world.check()
            planned.armed = False
            if way == "rebuild":
                world.db.sql(f"ALTER MATERIALIZED VIEW {planned.view} REBUILD")
            else:
                world.db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW {planned.view} AS {VIEWS[planned.view]}")
            world.db.drain()
            world.still.clear()
            world.check()
            world.insert([(1, 4, 30)], {2: "last"})
            world.check()
        finally:
            world.db.close()
