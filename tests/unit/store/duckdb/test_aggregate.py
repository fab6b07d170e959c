"""Floating-point sums: the same delta gives the same state, to the last digit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from millstream.model.progress import Progress
from millstream.plan.nodes import AggregateView, Stream, ViewPlan
from millstream.plan.planner import plan_view
from millstream.sql import parse_statement
from millstream.sql.statements import CreateStream, CreateView
from millstream.store import commands
from millstream.store.commands import Commit, StreamPart, ViewPart
from millstream.store.duckdb.store import DuckDBStore

_ROWS, _GROUPS = 300_000, 20
_CREATE = parse_statement("CREATE STREAM s (k BIGINT, d DOUBLE, ts TIMESTAMP, WATERMARK FOR ts AS ts)")
assert isinstance(_CREATE, CreateStream)
STREAM = Stream(_CREATE.name, _CREATE.schema, _CREATE.watermark, _CREATE.correction)
KEYED = "SELECT k, sum(d) AS s FROM s GROUP BY k"
HOPPED = "SELECT window_start, k, sum(d) AS s FROM HOP(s, ts, INTERVAL 1 SECOND, INTERVAL 3 SECONDS) GROUP BY 1, 2"


def planned(query: str) -> AggregateView:
    create = parse_statement(f"CREATE MATERIALIZED VIEW v AS {query.replace('BY 1, 2', 'BY window_start, k')}")
    assert isinstance(create, CreateView)
    types = {"`k`": pa.int64()}
    view = plan_view(create, lambda _: STREAM, lambda _, sqls: [types.get(sql, pa.float64()) for sql in sqls])
    assert isinstance(view, AggregateView)
    return view


@pytest.mark.parametrize("query", [KEYED, HOPPED])
def test_a_large_delta_gives_the_same_sums_every_time(tmp_path: Path, query: str) -> None:
    chance = np.random.default_rng(0)
    delta = pa.table(
        {
            "__k0": chance.integers(0, _GROUPS, _ROWS),
            **({"__pane": chance.integers(0, 5, _ROWS) * 1_000_000} if query is HOPPED else {}),
            "__rows": np.ones(_ROWS, np.int64),
            "__a0": chance.random(_ROWS) * 10.0 ** chance.integers(0, 12, _ROWS),
        }
    )
    view, seen = planned(query), set()
    for number in range(4):
        store = DuckDBStore(tmp_path / f"{number}.duckdb", "500MB")
        store.apply(commands.CreateStream(STREAM, "CREATE STREAM …", 0))
        store.apply(commands.CreateView(ViewPlan((view,)), {"v": delta.schema}, "CREATE VIEW …", 0))
        part = ViewPart(view, delta, -(2**62), -(2**62), repeats=True, used=_ROWS)
        store.apply(Commit(0, [StreamPart(STREAM, Progress({0: 1}), rows=_ROWS)], [part]))
        seen.add(repr(store.query("SELECT * FROM v ORDER BY ALL").to_pylist()))
        store.close()
    assert len(seen) == 1
