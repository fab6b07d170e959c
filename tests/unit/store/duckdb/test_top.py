"""The best rows of each partition: what is kept, shown and said of them, over random deltas and without Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.plan.nodes import Stream, TopView
from millstream.plan.queries import plan_query
from millstream.plan.relations import Relation
from millstream.sql import parse_statement
from millstream.sql.statements import CreateStream, CreateView
from millstream.store.duckdb.changelog import read_changes_sql
from millstream.store.duckdb.deltas import has_rows
from millstream.store.duckdb.moment import Moment
from millstream.store.duckdb.naming import added, internal, removed
from millstream.store.duckdb.top import TopRows
from millstream.store.duckdb.writing import Writing

pytestmark = pytest.mark.usefixtures("few_and_many")

_CREATE = parse_statement("CREATE STREAM s (k BIGINT, x BIGINT, u BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts)")
assert isinstance(_CREATE, CreateStream)
STREAM = Stream(_CREATE.name, _CREATE.schema, _CREATE.watermark, _CREATE.correction)

Row = tuple[int | None, int | None, int]
"""k, x and u, which tells rows apart and is their event time too."""

QUERIES = {
    "last": "SELECT k, x, u FROM s QUALIFY row_number() OVER (PARTITION BY k ORDER BY u DESC) = 1",
    "top": "SELECT * FROM (SELECT k, x, u, row_number() OVER (PARTITION BY k ORDER BY x DESC, u) AS n FROM s) "
    "WHERE n <= 3",
    "projected": "SELECT k, x FROM s QUALIFY row_number() OVER (PARTITION BY k ORDER BY u DESC) <= 2",
    "without_key": "SELECT x % 2 AS odd FROM s QUALIFY row_number() OVER (PARTITION BY k ORDER BY u DESC) = 1",
    "filtered": "SELECT k, u FROM s QUALIFY row_number() OVER (PARTITION BY k ORDER BY x, u) <= 3 AND x > 1",
    "second": "SELECT k, x, u FROM s QUALIFY row_number() OVER (PARTITION BY k ORDER BY x, u) = 2",
    "whole": "SELECT u, row_number() OVER (ORDER BY x DESC, u) AS n FROM s QUALIFY n <= 4",
    "ranks": "SELECT k, u, rank() OVER (PARTITION BY k ORDER BY x DESC) AS r FROM s QUALIFY r <= 2",
    "dense": "SELECT u, dense_rank() OVER (PARTITION BY k ORDER BY x) * 10 AS r FROM s "
    "QUALIFY dense_rank() OVER (PARTITION BY k ORDER BY x) <= 2",
    "none": "SELECT k FROM s QUALIFY row_number() OVER (PARTITION BY k ORDER BY x) <= 0",
}


def planned(query: str) -> TopView:
    create = parse_statement(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert isinstance(create, CreateView)
    relation = Relation("s", STREAM.schema.names(), STREAM)
    view = plan_query(
        create, lambda name: relation if name.lower() == "s" else None, lambda _, sqls: [pa.int64() for _ in sqls]
    ).view
    assert isinstance(view, TopView)
    return view


class Harness:
    """One view in a database of its own, with all rows that it has got."""

    def __init__(self, view: TopView) -> None:
        self.view, self.connection, self.epoch = view, duckdb.connect(), 0
        self.schema = pa.schema([(name, pa.int64()) for name in (*(n for n, _ in view.columns), "__t")])
        self.connection.execute("CREATE SCHEMA ms; CREATE TABLE s (k BIGINT, x BIGINT, u BIGINT)")
        TopRows(view).create(self.connection, self.schema, 0, 0)
        self.writing = Writing(self.connection)

    def merge(self, rows: list[Row], *, feeds: bool = False) -> None:
        self.epoch += 1
        if rows:
            self.connection.executemany("INSERT INTO s VALUES (?, ?, ?)", rows)
        named = [{"k": k, "x": x, "u": u, "__t": u} for k, x, u in rows]
        delta = pa.Table.from_pylist(
            [{name: row[name] for name in self.schema.names} for row in named], schema=self.schema
        )
        self.connection.execute("BEGIN")
        statements = self.writing.of("v", Moment(self.epoch, self.epoch, 0, 0), feeds=feeds)
        TopRows(self.view).merge(statements, delta)
        if statements.changes is not None:
            statements.changes.finish()
        self.connection.execute("COMMIT")

    def bag(self, sql: str) -> Counter[tuple[Any, ...]]:
        return Counter(self.connection.execute(sql).fetchall())

    def contents(self) -> Counter[tuple[Any, ...]]:
        return self.bag("SELECT * FROM main.v")

    def changes(self, op: str, since: int = -1) -> Counter[tuple[Any, ...]]:
        names = [out.name for out in self.view.outputs]
        own = ", ".join(f'"{name}"' for name in names)
        return self.bag(f"SELECT {own} FROM ({read_changes_sql('v', names, since)}) WHERE op = '{op}'")


def epochs() -> st.SearchStrategy[list[list[Row]]]:
    """Rows with NULLs and ties in disorder, in epochs of which some are empty; `u` is unique."""
    some = st.lists(st.tuples(st.sampled_from([None, 1, 2]), st.sampled_from([None, 0, 1, 2, 3])), max_size=8)

    @st.composite
    def numbered(draw: st.DrawFn) -> list[list[Row]]:
        drawn = draw(st.lists(some, min_size=1, max_size=4))
        numbers = iter(draw(st.permutations(range(sum(len(rows) for rows in drawn)))))
        return [[(k, x, next(numbers)) for k, x in rows] for rows in drawn]

    return numbered()


@pytest.mark.parametrize("query", QUERIES)
@given(deltas=epochs(), feeds=st.booleans())
@settings(deadline=None, max_examples=10)
def test_the_view_is_its_query_after_every_epoch(query: str, deltas: list[list[Row]], feeds: bool) -> None:
    text = QUERIES[query]
    harness = Harness(planned(text))
    for delta in deltas:
        before = harness.contents()
        harness.merge(delta, feeds=feeds)
        after = harness.contents()
        # Spark puts NULL first.
        harness.connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
        expected = harness.bag(text)
        harness.connection.execute("RESET default_null_order")
        assert after == expected
        assert harness.changes("insert") - harness.changes("retract") == after
        # What is said of an epoch is its difference, but for rows of other keys that look the same.
        gone, come = (harness.changes(op, harness.epoch - 1) for op in ("retract", "insert"))
        assert before - gone + come == after
        if harness.view.top.partition == () or "k" in {out.name for out in harness.view.outputs}:
            assert (gone, come) == (before - after, after - before)
        if feeds:
            own = ", ".join(f'"{out.name}"' for out in harness.view.outputs)
            assert harness.bag(f"SELECT {own} FROM {removed('v')}") == gone
            assert harness.bag(f"SELECT {own} FROM {added('v')}") == come


def test_rows_are_kept_once_and_no_longer_than_they_count() -> None:
    top = Harness(planned(QUERIES["top"]))
    top.merge([(1, x, x) for x in range(9)])
    top.merge([(1, 100, 100), (2, 1, 200)])
    kept = top.bag(f"SELECT x FROM {internal('v', 'rows')}")
    assert sorted(x for (x,) in kept.elements()) == [1, 7, 8, 100]


def test_a_tie_does_not_displace_what_is_there() -> None:
    top = Harness(planned("SELECT k, x, row_number() OVER (PARTITION BY k ORDER BY u) AS n FROM s QUALIFY n <= 2"))
    top.merge([(1, 1, 5), (1, 2, 5)])
    shown = top.contents()
    top.merge([(1, 3, 5), (1, 4, 5)])
    assert top.contents() == shown
    assert not top.changes("retract")


def test_a_row_that_looks_like_the_one_it_replaces_is_no_change() -> None:
    last = Harness(planned(QUERIES["projected"]))
    last.merge([(1, 7, 1), (1, 8, 2), (2, 7, 3)])
    last.merge([(1, 8, 4), (1, 9, 5)])
    # Of key 1, (7) and (8) went and (8) and (9) came.
    assert last.changes("retract", 1) == Counter([(1, 7)])
    assert last.changes("insert", 1) == Counter([(1, 9)])


def test_an_epoch_without_rows_changes_nothing_for_readers() -> None:
    top = Harness(planned(QUERIES["top"]))
    top.merge([(1, 1, 1)], feeds=True)
    assert has_rows(top.connection, added("v"))
    top.merge([], feeds=True)
    assert not has_rows(top.connection, added("v"))
    assert not has_rows(top.connection, removed("v"))


def test_a_hidden_part_has_no_changelog() -> None:
    hidden = Harness(replace(planned(QUERIES["top"]), hidden=True))
    hidden.merge([(1, 1, 1)], feeds=True)
    hidden.merge([(1, 2, 2)], feeds=True)
    assert hidden.contents() == Counter([(1, 2, 2, 1), (1, 1, 1, 2)])
    tables = hidden.bag("SELECT table_name FROM information_schema.tables WHERE table_schema = 'ms'")
    assert tables == Counter([("v.rows",)])
