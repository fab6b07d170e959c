"""Tables in the store, without Spark: what an epoch delivers in, rows, versions and differences out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.model.progress import BEGINNING
from millstream.model.schema import TIMESTAMP, Column, Schema
from millstream.plan.nodes import Stream
from millstream.plan.tables import TableRules
from millstream.sql.statements import Watermark
from millstream.store.duckdb.moment import Moment
from millstream.store.duckdb.naming import added, internal, removed
from millstream.store.duckdb.table import Table
from tests.table_model import FOREVER, Change, Mode, TableModel

SCHEMA = Schema(
    (
        Column("id", pa.int64()),
        Column("value", pa.string()),
        Column("op", pa.string()),
        Column("seq", pa.int64()),
        Column("ts", TIMESTAMP),
    )
)
STORED = "id, value, seq, epoch_us(ts)"
DELIVERED = pa.schema(
    [
        ("id", pa.int64()),
        ("value", pa.string()),
        ("seq", pa.int64()),
        ("ts", TIMESTAMP),
        ("__delete", pa.bool_()),
        ("__rows", pa.int64()),
    ]
)
LONG = 10**15


def stream(mode: Mode, sequence: bool, history: int | None = None, tombstone_retain: int = LONG) -> Stream:
    rules = TableRules(
        operation="op",
        deletes=("d",),
        upserts=("u",),
        sequence="seq" if sequence else None,
        versioned=mode != "plain",
        history=history,
        tombstone_retain=tombstone_retain,
    )
    watermark = Watermark("ts") if mode == "event" else None
    return Stream("t", SCHEMA, watermark, None, ("id",), rules=rules)


def delivered(changes: Sequence[Change], mode: Mode, sequence: bool) -> pa.Table:
    """What Spark makes of the changes of an epoch: the winner of each key, or of each key and instant."""
    groups: dict[tuple[int, int], list[tuple[int, int, Change]]] = {}
    for place, change in enumerate(changes):
        instant = change.at if mode == "event" else 0
        order = change.sequence if sequence else 0
        groups.setdefault((change.key, instant), []).append((order, place, change))
    rows: list[dict[str, Any]] = []
    for group in groups.values():
        _, _, winner = max(group, key=lambda item: item[:2])
        rows.append(
            {
                "id": winner.key,
                "value": winner.value,
                "seq": winner.sequence,
                "ts": winner.at,
                "__delete": winner.value is None,
                "__rows": len(group),
                "__from": winner.at,
            }
        )
    schema = DELIVERED.append(pa.field("__from", pa.int64())) if mode == "event" else DELIVERED
    return pa.Table.from_pylist(rows, schema=schema)


class Stored:
    """A table in a file of its own, and every epoch checked for the difference that it says it made."""

    def __init__(self, path: Path | str, declared: Stream, mode: Mode) -> None:
        self.path = path
        self.stream = declared
        self.mode: Mode = mode
        self.sequence = declared.rules.sequence is not None
        self.watermark = BEGINNING
        self.connection = duckdb.connect(str(path))
        self.connection.execute("SET TimeZone = 'UTC'")
        self.connection.execute("CREATE SCHEMA ms")
        Table(declared).create(self.connection)

    def restart(self) -> None:
        self.connection.close()
        self.connection = duckdb.connect(str(self.path))

    def epoch(self, changes: Sequence[Change], now: int = 0) -> int:
        """Merge; returns how many changes were stale."""
        rows, versions = self.rows(), self.versions()
        self.watermark = max([self.watermark, *(change.at for change in changes)])
        self.connection.execute("BEGIN")
        at = Moment(1, now, BEGINNING, self.watermark if self.mode == "event" else BEGINNING)
        table = delivered(changes, self.mode, self.sequence) if changes else None
        stale = Table(self.stream).merge(self.connection, table, at)
        self._check_difference("t", STORED, rows, self.rows())
        if self.mode != "plain":
            after = self.versions()
            horizon = self.horizon(now)
            self._check_difference("t.versions", f"{STORED}, __from, __to", versions, after, horizon)
        self.connection.execute("COMMIT")
        return stale

    def horizon(self, now: int) -> int | None:
        history = self.stream.rules.history
        return None if history is None else (now if self.mode == "arrival" else self.watermark) - history

    def _check_difference(
        self, name: str, columns: str, before: Counter[Any], after: Counter[Any], horizon: int | None = None
    ) -> None:
        gone, new = self._read(removed(name), columns), self._read(added(name), columns)
        assert not gone - before, f"{name}: removed what was not there"
        assert not gone & new, f"{name}: a row that did not change"
        expected = before - gone + new
        if horizon is not None:
            expected = Counter({row: count for row, count in expected.items() if row[-1] > horizon})
        assert expected == after, name

    def _read(self, relation: str, columns: str = STORED) -> Counter[Any]:
        return Counter(self.connection.execute(f"SELECT {columns} FROM {relation}").fetchall())

    def rows(self) -> Counter[Any]:
        assert self._read(internal("t", "table")) == self._read('main."t"')
        return self._read(internal("t", "table"))

    def versions(self) -> Counter[Any]:
        if self.mode == "plain":
            return Counter()
        return self._read(internal("t", "versions"), f"{STORED}, __from, __to")

    def values(self) -> dict[int, str]:
        return {row[0]: row[1] for row in self.rows()}

    def spans(self) -> list[tuple[object, ...]]:
        """(key, value, from, to) of all versions"""
        return sorted((row[0], row[1], row[4], row[5]) for row in self.versions())

    def difference(self, name: str = "t") -> tuple[list[object], list[object]]:
        return tuple(sorted(row[1] for row in self._read(which(name))) for which in (removed, added))  # type: ignore[return-value]


def stored(mode: Mode = "plain", sequence: bool = False, **rules: Any) -> Stored:
    return Stored(":memory:", stream(mode, sequence, **rules), mode)


# -- what Hypothesis finds ---------------------------------------------------------------------------

CHANGES = st.builds(
    Change,
    key=st.integers(1, 3),
    value=st.sampled_from(["a", "b", "c", None]),
    sequence=st.integers(0, 5),
    at=st.integers(0, 12),
)
EPOCHS = st.lists(st.tuples(st.lists(CHANGES, max_size=6), st.integers(0, 4), st.booleans()), max_size=8)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    mode=st.sampled_from(["plain", "arrival", "event"]),
    sequence=st.booleans(),
    history=st.sampled_from([None, 1, 5]),
    epochs=EPOCHS,
)
def test_a_table_is_its_changes_applied_one_by_one(
    tmp_path_factory: pytest.TempPathFactory,
    mode: Mode,
    sequence: bool,
    history: int | None,
    epochs: list[tuple[list[Change], int, bool]],
) -> None:
    if mode == "plain":
        history = None
    table = Stored(tmp_path_factory.mktemp("t") / "t.duckdb", stream(mode, sequence, history), mode)
    model = TableModel(mode, sequence, history)
    now = 0
    for changes, pause, restarts in epochs:
        now += pause
        if restarts:
            table.restart()
        table.epoch(changes, now)
        model.epoch(changes, now)
        assert table.rows() == Counter(model.rows().values())
        if mode != "plain":
            # Versions are pruned by an epoch; the model prunes when it is asked.
            assert table.versions() == Counter(model.versions(now))
    table.connection.close()


@settings(max_examples=30, deadline=None)
@given(sequence=st.booleans(), changes=st.lists(CHANGES, min_size=1, max_size=14), cuts=st.sets(st.integers(1, 13)))
def test_versions_in_event_time_do_not_depend_on_epochs(sequence: bool, changes: list[Change], cuts: set[int]) -> None:
    whole, parts = stored("event", sequence), stored("event", sequence)
    whole.epoch(changes)
    bounds = [0, *sorted(cut for cut in cuts if cut < len(changes)), len(changes)]
    for start, end in pairwise(bounds):
        parts.epoch(changes[start:end])
    assert whole.spans() == parts.spans()
    assert whole.rows() == parts.rows()


# -- examples ----------------------------------------------------------------------------------------


def test_the_difference_of_an_epoch_is_exact() -> None:
    table = stored()
    table.epoch([Change(1, "a"), Change(2, "b"), Change(3, "c")])
    assert table.difference() == ([], ["a", "b", "c"])
    table.epoch([Change(1, "a"), Change(2, "x"), Change(3, None), Change(4, None), Change(5, "e")])
    assert table.difference() == (["b", "c"], ["e", "x"])
    table.epoch([])
    assert table.difference() == ([], [])


def test_a_lower_sequence_never_overwrites_not_even_a_deletion() -> None:
    table = stored(sequence=True)
    assert table.epoch([Change(1, "a", 5), Change(2, "b", 5), Change(3, "c", 5)]) == 0
    assert table.epoch([Change(1, "old", 4), Change(1, "older", 3), Change(2, None, 4), Change(3, None, 6)]) == 3
    assert table.values() == {1: "a", 2: "b"}
    assert table.epoch([Change(3, "stale", 5)]) == 1
    assert table.epoch([Change(3, "again", 6), Change(2, "equal", 5)]) == 0
    assert table.values() == {1: "a", 2: "equal", 3: "again"}


def test_a_deletion_is_remembered_for_a_while() -> None:
    table = stored(sequence=True, tombstone_retain=10)
    table.epoch([Change(1, "a", 5)], now=0)
    table.epoch([Change(1, None, 6)], now=1)
    assert table.epoch([Change(1, "stale", 5)], now=10) == 1
    # The epoch in which it is too old forgets it: what comes with it is still held against it.
    table.epoch([], now=11)
    assert table.epoch([Change(1, "back", 5)], now=12) == 0
    assert table.values() == {1: "back"}
    assert table.connection.execute('SELECT count(*) FROM ms."t.tombstones"').fetchall() == [(0,)]


def test_an_older_version_is_put_in_its_place() -> None:
    table = stored("event")
    table.epoch([Change(1, "a", at=10), Change(1, "c", at=30)])
    table.epoch([Change(1, "b", at=20)])
    assert table.spans() == [(1, "a", 10, 20), (1, "b", 20, 30), (1, "c", 30, FOREVER)]
    assert table.difference("t.versions") == (["a"], ["a", "b"])
    assert table.difference() == ([], [])
    table.epoch([Change(1, None, at=25)])
    assert table.spans() == [(1, "a", 10, 20), (1, "b", 20, 25), (1, "c", 30, FOREVER)]
    table.epoch([Change(1, "first", at=5), Change(1, "c2", at=30)])
    assert table.spans() == [
        (1, "a", 10, 20),
        (1, "b", 20, 25),
        (1, "c2", 30, FOREVER),
        (1, "first", 5, 10),
    ]
    assert table.difference() == (["c"], ["c2"])


def test_a_deletion_that_comes_before_what_it_ends() -> None:
    table = stored("event")
    table.epoch([Change(1, None, at=10)])
    table.epoch([Change(1, "a", at=5)])
    assert table.spans() == [(1, "a", 5, 10)]
    assert table.values() == {}
    # What ended a version may be forgotten, its end is not.
    table.connection.execute('DELETE FROM ms."t.tombstones"')
    table.epoch([Change(1, "b", at=7)])
    assert table.spans() == [(1, "a", 5, 7), (1, "b", 7, 10)]


def test_of_two_changes_at_one_instant_the_higher_sequence_wins() -> None:
    table = stored("event", sequence=True)
    table.epoch([Change(1, "a", 2, at=10)])
    assert table.epoch([Change(1, "b", 1, at=10)]) == 1
    assert table.spans() == [(1, "a", 10, FOREVER)]
    table.epoch([Change(1, None, 3, at=10)])
    assert table.epoch([Change(1, "c", 2, at=10), Change(1, "d", 0, at=12)]) == 1
    assert table.spans() == [(1, "d", 12, FOREVER)]


def test_old_versions_are_pruned_and_the_current_one_never() -> None:
    table = stored("event", history=10)
    table.epoch([Change(1, "a", at=10), Change(1, "b", at=20), Change(2, "x", at=1)])
    table.epoch([Change(3, "y", at=29)])
    assert [span[1] for span in table.spans()] == ["a", "b", "x", "y"]
    table.epoch([Change(3, "z", at=30)])
    assert [span[1] for span in table.spans()] == ["b", "x", "y", "z"]
    # Too old to be kept: it ends where the oldest version that is known begins.
    table.epoch([Change(1, "ancient", at=3)])
    assert [span[1] for span in table.spans()] == ["b", "x", "y", "z"]
    assert table.values() == {1: "b", 2: "x", 3: "z"}


def test_versions_by_arrival_when_the_clock_stands_still_or_goes_back() -> None:
    table = stored("arrival")
    table.epoch([Change(1, "a")], now=100)
    table.epoch([Change(1, "b")], now=100)
    assert table.spans() == [(1, "b", 100, FOREVER)]
    table.epoch([Change(1, "b")], now=150)
    assert table.spans() == [(1, "b", 100, FOREVER)]
    table.epoch([Change(1, "c")], now=200)
    table.epoch([Change(1, None)], now=210)
    table.epoch([Change(1, "d")], now=190)
    assert table.spans() == [(1, "b", 100, 200), (1, "c", 200, 210), (1, "d", 210, FOREVER)]


def test_wide_types_are_compared_by_value() -> None:
    types = {"l": pa.list_(pa.int64()), "m": pa.map_(pa.string(), pa.int64()), "s": pa.struct([("x", pa.float64())])}
    schema = Schema((Column("id", pa.int64()), *(Column(name, type_) for name, type_ in types.items())))
    declared = replace(stream("arrival", False), schema=schema, rules=TableRules(versioned=True))
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA ms")
    table = Table(declared)
    table.create(connection)

    def merge(value: int) -> int:
        row = {"id": 1, "l": [value], "m": [("k", value)], "s": {"x": float("nan")}, "__delete": False, "__rows": 1}
        extra = [pa.field("__delete", pa.bool_()), pa.field("__rows", pa.int64())]
        rows = pa.Table.from_pylist([row], schema=pa.schema([*schema.to_arrow(), *extra]))
        table.merge(connection, rows, Moment(1, value))
        return len(connection.execute(f"SELECT * FROM {added('t')}").fetchall())

    assert [merge(1), merge(1), merge(2), merge(2)] == [1, 0, 1, 0]
    assert connection.execute(
        f"SELECT l, __from, __to FROM {internal('t', 'versions')} ORDER BY __from"
    ).fetchall() == [
        ([1], 1, 2),
        ([2], 2, FOREVER),
    ]
