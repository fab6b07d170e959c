"""Sessions, sliding and count windows in the store, against a model in plain Python; no Spark.

Random rows in random epochs, some of them late. After every epoch the view must hold what the model
says, its changelog must replay to it, and the rows removed and added must be exactly the change.
`collect_list` over the number of a row shows which rows a window holds.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.model.progress import BEGINNING
from millstream.plan.aggregates import AGGREGATES, Argument
from millstream.plan.nodes import AggregateView, Stream, ViewPlan
from millstream.plan.planner import plan_view
from millstream.sql import parse_statement
from millstream.sql.statements import CreateStream, CreateView
from millstream.store import commands
from millstream.store.duckdb.aggregate import over
from millstream.store.duckdb.changelog import read_changes_sql
from millstream.store.duckdb.maintainers import maintainer
from millstream.store.duckdb.moment import Moment
from millstream.store.duckdb.naming import added, removed
from millstream.store.duckdb.store import DuckDBStore
from millstream.store.duckdb.writing import Writing

pytestmark = pytest.mark.usefixtures("few_and_many")

_CREATE = parse_statement(
    "CREATE STREAM s (k STRING, id BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 5 MICROSECONDS)"
)
assert isinstance(_CREATE, CreateStream)
STREAM = Stream(_CREATE.name, _CREATE.schema, _CREATE.watermark, _CREATE.correction)
ROW = pa.struct([("t", pa.int64()), ("p", pa.int32()), ("o", pa.int64()), ("v", pa.int64())])
GAP = SIZE = 10


@dataclass(frozen=True)
class Event:
    key: str | None
    at: int
    id: int


Result = tuple[Any, ...]
"""(window start, window end, key, rows, highest id, ids in order)"""


def plan(call: str, emit: str, keyed: bool = True) -> AggregateView:
    keys = ", k" if keyed else ""
    create = parse_statement(
        f"CREATE MATERIALIZED VIEW v AS SELECT window_start, window_end{keys}, count(*) AS n, max(id) AS top, "
        f"collect_list(id) AS ids FROM {call} GROUP BY window_start, window_end{keys} {emit}"
    )
    assert isinstance(create, CreateView)

    def types(_: Stream, sqls: Sequence[str]) -> list[pa.DataType]:
        return [pa.string() if sql == "k" else pa.int64() for sql in sqls]

    planned = plan_view(create, lambda _: STREAM, types)
    assert isinstance(planned, AggregateView)
    return planned


# -- the delta, as Spark would make it ----------------------------------------------------------


def delta(view: AggregateView, groups: dict[Any, list[Event]], extra: Callable[[Any, list[Event]], Any]) -> pa.Table:
    """Rows of a delta: events by (key, pane), with what the kind of window adds."""
    rows = []
    for (key, pane), events in groups.items():
        values = [{"t": e.at, "p": 0, "o": e.id, "v": e.id} for e in events]
        row = {"__pane": pane, "__rows": len(events), "__a0": len(events), "__a1": max(e.id for e in events)}
        rows.append({**row, "__a2": values, **({"__k0": key} if view.keys else {}), **extra(pane, events)})
    return pa.Table.from_pylist(rows, schema=delta_schema(view))


def delta_schema(view: AggregateView) -> pa.Schema:
    names = ["__pane", "__rows", "__a0", "__a1", "__first", "__last", "__t", "__o"]
    fields = [(name, pa.int64()) for name in names] + [("__p", pa.int32()), ("__a2", pa.list_(ROW))]
    return pa.schema([*([("__k0", pa.string())] if view.keys else []), *fields])


def grouped(events: Sequence[Event], pane: Callable[[Event], int]) -> dict[Any, list[Event]]:
    groups: dict[Any, list[Event]] = {}
    for event in events:
        groups.setdefault((event.key, pane(event)), []).append(event)
    return groups


# -- the models ---------------------------------------------------------------------------------


def result(start: int, end: int, events: Sequence[Event]) -> Result:
    ordered = sorted(events, key=lambda e: (e.at, e.id))
    return start, end, events[0].key, len(events), max(e.id for e in events), tuple(e.id for e in ordered)


@dataclass
class Sessions:
    lateness: int
    sessions: list[list[Event]] = field(default_factory=list)

    def take(self, view: AggregateView, events: list[Event], before: int) -> pa.Table:
        groups = {
            group: rows
            for group, rows in grouped(events, lambda e: e.at // GAP).items()
            if max(e.at for e in rows) + GAP + self.lateness > before
        }
        for rows in groups.values():
            self._join(rows, before)
        return delta(
            view, groups, lambda _, rows: {"__first": min(e.at for e in rows), "__last": max(e.at for e in rows)}
        )

    def _join(self, rows: list[Event], before: int) -> None:
        """Put rows together with every open session that they overlap."""
        while True:
            start, end = self._bounds(rows)
            near = next(
                (
                    other
                    for other in self.sessions
                    if other[0].key == rows[0].key
                    and self._bounds(other)[1] + self.lateness > before
                    and self._bounds(other)[0] < end
                    and start < self._bounds(other)[1]
                ),
                None,
            )
            if near is None:
                self.sessions.append(rows)
                return
            self.sessions.remove(near)
            rows = [*near, *rows]

    def _bounds(self, rows: list[Event]) -> tuple[int, int]:
        return min(e.at for e in rows), max(e.at for e in rows) + GAP

    def results(self) -> list[Result]:
        return [result(*self._bounds(rows), rows) for rows in self.sessions]

    def complete(self, row: Result, watermark: int) -> bool:
        return bool(row[1] <= watermark)


@dataclass
class Slides:
    lateness: int
    used: list[Event] = field(default_factory=list)

    def take(self, view: AggregateView, events: list[Event], before: int) -> pa.Table:
        fresh = [event for event in events if event.at + 1 + self.lateness > before]
        self.used += fresh
        return delta(view, grouped(fresh, lambda e: e.at), lambda _, rows: {})

    def results(self) -> list[Result]:
        found = []
        for key, at in {(event.key, event.at) for event in self.used}:
            held = [e for e in self.used if e.key == key and at - SIZE < e.at <= at]
            found.append(result(at - SIZE, at, held))
        return found

    def complete(self, row: Result, watermark: int) -> bool:
        return bool(row[1] < watermark)


@dataclass
class Counts:
    rows: int
    slide: int
    arrived: list[Event] = field(default_factory=list)

    def take(self, view: AggregateView, events: list[Event], before: int) -> pa.Table:
        ordered = sorted(events, key=lambda e: (e.at, e.id))
        self.arrived += ordered
        groups = {(event.key, event.id): [event] for event in reversed(ordered)}
        return delta(view, groups, lambda _, rows: {"__t": rows[0].at, "__p": 0, "__o": rows[0].id})

    def results(self) -> list[Result]:
        found = []
        key_of = lambda e: (e.key is None, e.key or "")  # noqa: E731
        for _, group in groupby(sorted(self.arrived, key=key_of), key=key_of):
            rows = list(group)
            for end in range(self.rows, len(rows) + 1, self.slide):
                held = rows[end - self.rows : end]
                found.append(result(held[0].at, held[-1].at, held))
        return found

    def complete(self, row: Result, watermark: int) -> bool:
        return True


Model = Sessions | Slides | Counts


# -- running ------------------------------------------------------------------------------------


class Run:
    def __init__(self, view: AggregateView, model: Model) -> None:
        self.view, self.model = view, model
        self.keeper = maintainer(view)
        self.connection = duckdb.connect()
        self.connection.execute("CREATE SCHEMA ms")
        self.keeper.create(self.connection, delta_schema(view), 0, 0)
        self.writing = Writing(self.connection)
        self.watermark, self.epoch = BEGINNING, 0

    def step(self, events: list[Event], watermark: int) -> None:
        before, self.watermark = self.watermark, max(self.watermark, watermark)
        self.epoch += 1
        held = Counter(self.rows("main.v"))
        table = self.model.take(self.view, events, before)
        statements = self.writing.of("v", Moment(self.epoch, self.epoch, before, self.watermark), feeds=True)
        self.connection.execute("BEGIN")
        self.keeper.merge(statements, table)
        self.connection.execute("COMMIT")
        assert statements.changes is not None
        changed = statements.changes.finish()
        gone, come = Counter(self.rows(removed("v"))), Counter(self.rows(added("v")))
        assert changed == bool(gone or come)
        assert not gone - held, "only what was there can be removed"
        held.subtract(gone)
        held.update(come)
        assert +held == Counter(self.rows("main.v")), "removed and added are the change"

    def rows(self, relation: str) -> list[Result]:
        key = "k" if self.view.keys else "NULL"
        columns = f"epoch_us(window_start), epoch_us(window_end), {key}, n, top, ids"
        found = self.connection.execute(f"SELECT {columns} FROM {relation}").fetchall()
        return [(*row[:-1], tuple(row[-1])) for row in found]

    def replayed(self) -> list[Result]:
        key = "k" if self.view.keys else "NULL"
        columns = ["window_start", "window_end", *(["k"] if self.view.keys else []), "n", "top", "ids"]
        changes = self.connection.execute(
            f"SELECT op, epoch_us(window_start), epoch_us(window_end), {key}, n, top, ids "
            f"FROM ({read_changes_sql('v', columns, -1)})"
        ).fetchall()
        keyed: dict[Any, Result] = {}
        bag: Counter[Result] = Counter()
        for op, *values, ids in changes:
            row = (*values, tuple(ids))
            match op:
                case "insert":
                    bag[row] += 1
                case "retract":
                    assert bag[row] > 0, row
                    bag[row] -= 1
                case "upsert":
                    keyed[row[:3]] = row
                case _:
                    assert keyed.pop(row[:3]) == row
        return [*keyed.values(), *(+bag).elements()]

    def check(self, live: bool) -> None:
        expected = self.model.results()
        if not live:
            expected = [row for row in expected if self.model.complete(row, self.watermark)]
        assert Counter(self.rows("main.v")) == Counter(expected)
        assert Counter(self.replayed()) == Counter(expected)

    def state_rows(self) -> int:
        ((count,),) = self.connection.execute('SELECT count(*) FROM ms."v.state"').fetchall()
        return int(count)


keys = st.sampled_from(["a", "b", None])
epochs = st.lists(
    st.tuples(st.lists(st.tuples(keys, st.integers(-40, 80)), max_size=8), st.integers(-60, 60)), min_size=1, max_size=8
)
EMITS = ["", "EMIT ON EPOCH RETRACTING", "EMIT ON WATERMARK", "EMIT ON WATERMARK RETRACTING"]


def drive(view: AggregateView, model: Model, steps: Any) -> Run:
    run = Run(view, model)
    number = 0
    for rows, watermark in steps:
        events = []
        for key, at in rows:
            number += 1
            events.append(Event(key if view.keys else None, at, number))
        run.step(events, watermark)
        run.check(live=view.trigger.is_live)
    return run


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("emit", [*EMITS, "EMIT ON EPOCH ALLOWED LATENESS INTERVAL 7 MICROSECONDS"])
@settings(deadline=None, max_examples=8)
@given(steps=epochs)
def test_sessions(emit: str, keyed: bool, steps: Any) -> None:
    by = " PARTITION BY k" if keyed else ""
    view = plan(f"SESSION(s{by}, ts, INTERVAL {GAP} MICROSECONDS)", emit, keyed)
    run = drive(view, Sessions(view.lateness), steps)
    run.step([], 1_000)
    run.check(live=view.trigger.is_live)
    assert run.state_rows() == 0, "no session outlives the watermark"


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("emit", [*EMITS, "EMIT ON EPOCH ALLOWED LATENESS INTERVAL 7 MICROSECONDS"])
@settings(deadline=None, max_examples=8)
@given(steps=epochs)
def test_slides(emit: str, keyed: bool, steps: Any) -> None:
    by = " PARTITION BY k" if keyed else ""
    view = plan(f"SLIDE(s{by}, ts, INTERVAL {SIZE} MICROSECONDS)", emit, keyed)
    run = drive(view, Slides(view.lateness), steps)
    run.step([], 1_000)
    run.check(live=view.trigger.is_live)
    assert run.state_rows() == 0, "no instant outlives the windows that reach back to it"


@pytest.mark.parametrize("keyed", [True, False])
@settings(deadline=None, max_examples=12)
@given(steps=epochs, rows=st.integers(1, 4), slide=st.integers(1, 5))
def test_counts(keyed: bool, steps: Any, rows: int, slide: int) -> None:
    by = " PARTITION BY k" if keyed else ""
    view = plan(f"COUNT_WINDOW(s{by}, {rows}, {slide})", "", keyed)
    run = drive(view, Counts(rows, slide), steps)
    groups = {event.key for event in run.model.arrived}  # type: ignore[union-attr]
    assert run.state_rows() <= rows * len(groups), "a key keeps less than a window, and its last row"


@pytest.mark.parametrize("emit", ["", "EMIT ON WATERMARK", "EMIT ON WATERMARK RETRACTING"])
@pytest.mark.parametrize("kind", ["SESSION", "SLIDE"])
def test_many_windows(kind: str, emit: str) -> None:
    """In every epoch many windows fire, of which some were written by it and others were there."""
    view = plan(f"{kind}(s PARTITION BY k, ts, INTERVAL {GAP} MICROSECONDS)", emit)
    chance = random.Random(kind)
    steps = [
        ([(f"key {chance.randrange(250)}", chance.randrange(now - 10, now + 10)) for _ in range(120)], now - 8)
        for now in range(0, 72, 6)
    ]
    run = drive(view, Sessions(view.lateness) if kind == "SESSION" else Slides(view.lateness), steps)
    run.step([], 1_000)
    run.check(live=view.trigger.is_live)


def test_every_aggregate_can_be_combined_over_a_frame() -> None:
    arguments = (Argument("x", pa.int64(), True), Argument("y", pa.int64(), True))
    for name, build in AGGREGATES.items():
        taken = arguments if name in ("min_by", "max_by") else arguments[:1]
        for accumulator in build(taken).accumulators:
            assert " OVER w" in over(accumulator.combine, "w"), name


@pytest.mark.parametrize(
    "call", ["SESSION(s PARTITION BY k, ts, INTERVAL 1 SECOND)", "COUNT_WINDOW(s PARTITION BY k, 2)"]
)
def test_a_dropped_view_leaves_nothing_behind(call: str, tmp_path: Path) -> None:
    store = DuckDBStore(tmp_path / "store.duckdb", "500MB")
    try:
        before = store.query("SELECT table_name FROM information_schema.tables").to_pylist()
        view = plan(call, "")
        planned = ViewPlan((view,))
        store.apply(commands.CreateView(planned, {view.name: delta_schema(view)}, "CREATE VIEW …", 0))
        store.apply(commands.Drop(["v"]))
        assert store.query("SELECT table_name FROM information_schema.tables").to_pylist() == before
    finally:
        store.close()
