"""Queries of every shape: after every epoch, the batch query over the same prefix.

Both sides run on random rows with NULLs, duplicates and disorder, in random epochs, over several partitions, with
restarts. The oracle is DuckDB over everything that was inserted. Bounded outer joins publish rows without a partner
only when the watermark has passed, so they are compared at the end, when it has passed all.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import duckdb
import pytest
import sqlglot

import millstream as ms
from millstream.model.settings import Kernel

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1)
SLACK_SECONDS = 20

STREAMS = """
CREATE STREAM a (id BIGINT, x BIGINT, s STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL {slack} SECONDS)
WITH (partitions = {partitions});
CREATE STREAM b (id BIGINT, y BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL {slack} SECONDS)
WITH (partitions = {partitions});
CREATE STREAM c (id BIGINT, z BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL {slack} SECONDS);
"""
VALUES = {"a": "x", "b": "y", "c": "z"}

GROUPS = {
    "joins": {
        "inner_join": "SELECT a.id, x, y, b.ts FROM a JOIN b ON a.id = b.id",
        "left_join": "SELECT a.id, x, y FROM a LEFT JOIN b ON a.id = b.id AND x < y",
        "right_join": "SELECT b.id, x, y FROM a RIGHT JOIN b ON a.id = b.id WHERE y > 3",
        "full_join": "SELECT a.id AS l, b.id AS r, x, y FROM a FULL JOIN b ON a.id = b.id",
        "three": "SELECT a.id, a.x, b.y, c.y AS z FROM a LEFT JOIN b ON a.id = b.id LEFT JOIN b c ON a.x = c.y",
        "self_join": "SELECT l.id, l.x AS lx, r.x AS rx FROM a l JOIN a r ON l.id = r.id AND l.x < r.x",
        "interval_join": "SELECT a.id, x, y FROM a JOIN b ON a.id = b.id AND b.ts BETWEEN a.ts - INTERVAL 5 SECONDS "
        "AND a.ts + INTERVAL 7 SECONDS WHERE x > 2",
    },
    "subqueries": {
        "exists_": "SELECT id, x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.id = a.id)",
        "in_": "SELECT id, x FROM a WHERE id IN (SELECT id FROM b WHERE y > 5)",
        "scalar": "SELECT id, x FROM a WHERE x > (SELECT avg(y) FROM b)",
        "anti": "SELECT a.id, a.x FROM a LEFT ANTI JOIN b ON a.id = b.id",
        "with_": "WITH m AS (SELECT id, max(x) AS mx FROM a GROUP BY id) "
        "SELECT a.id, a.x, a.ts FROM a JOIN m ON a.id = m.id AND a.x = m.mx",
        "nested": "SELECT s, avg(n) AS mean FROM (SELECT s, id, count(*) AS n FROM a GROUP BY s, id) GROUP BY s",
    },
    "sets": {
        "alls": "SELECT id, x AS v FROM a UNION ALL SELECT id, y FROM b",
        "either": "SELECT id, x AS v FROM a UNION SELECT id, y FROM b",
        "except_": "SELECT id FROM a EXCEPT SELECT id FROM b",
        "both": "SELECT id, x AS v FROM a INTERSECT SELECT id, y FROM b",
        "distinct_": "SELECT DISTINCT a.s, b.y FROM a JOIN b ON a.id = b.id",
        "cube": "SELECT id, s, count(*) AS n FROM a GROUP BY CUBE (id, s)",
    },
    "ranks": {
        "top": "SELECT id, x, ts FROM "
        "(SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY x DESC, ts, s) AS n FROM a) WHERE n <= 2",
        "first_": "SELECT id, x, RANK() OVER (PARTITION BY id ORDER BY x) AS r FROM a QUALIFY r = 1",
        "second": "SELECT id, x FROM a QUALIFY DENSE_RANK() OVER (PARTITION BY id ORDER BY x DESC) = 2 AND s = 'p'",
        "numbered": "SELECT s, x, ts, n FROM "
        "(SELECT *, ROW_NUMBER() OVER (PARTITION BY s, id ORDER BY ts DESC, x) AS n FROM a WHERE x > 1) WHERE n <= 3",
        "over_top": "SELECT t.id, t.x, b.y FROM (SELECT * FROM a QUALIFY ROW_NUMBER() OVER (PARTITION BY id ORDER BY "
        "x DESC, ts, s) <= 2) t JOIN b ON b.id = t.id",
        "running": "SELECT id, x, sum(x) OVER (PARTITION BY id ORDER BY ts, x) AS run FROM a",
        "limit_": "SELECT id, x, ts FROM a ORDER BY x DESC, ts, id, s LIMIT 5",
        "grouped": "SELECT a.id, count(*) AS n, max(y) AS top FROM a JOIN b ON a.id = b.id "
        "GROUP BY a.id HAVING count(*) > 1",
    },
}
_NEAR = "a.id = b.id AND b.ts BETWEEN a.ts - INTERVAL 6 SECONDS AND a.ts + INTERVAL 10 SECONDS"
_OF_A = "a.id = c.id AND c.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS"
_OF_B = "b.id = c.id AND c.ts BETWEEN b.ts AND b.ts + INTERVAL 4 SECONDS"
OUTER = {
    **{
        f"outer_{side}": f"SELECT a.id AS l, b.id AS r, x, y FROM a {side} JOIN b ON a.id = b.id "
        "AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 10 SECONDS"
        for side in ("left", "right", "full")
    },
    "anti": f"SELECT a.id, x, a.ts FROM a LEFT ANTI JOIN b ON {_NEAR}",
    "star": f"SELECT a.id, x, b.y, z FROM a LEFT JOIN b ON {_NEAR} LEFT JOIN c ON {_OF_A}",
    "chain": f"SELECT a.id, x, b.y, z, c.ts + INTERVAL 1 SECOND AS t "
    f"FROM a LEFT JOIN b ON {_NEAR} LEFT JOIN c ON {_OF_B} AND c.ts >= a.ts",
    "inner_last": f"SELECT a.id, x, b.y, z FROM a LEFT JOIN b ON {_NEAR} JOIN c ON {_OF_A}",
    "full_first": f"SELECT a.id AS l, b.id AS r, x, z FROM a FULL JOIN b ON {_NEAR} LEFT JOIN c ON {_OF_A}",
    "right_first": f"SELECT a.id AS l, b.id AS r, z FROM a RIGHT JOIN b ON {_NEAR} LEFT JOIN c ON {_OF_B}",
    "filtered": f"SELECT a.id, x FROM a LEFT JOIN b ON {_NEAR} LEFT JOIN c ON {_OF_A} "
    "WHERE b.id IS NULL AND c.id IS NULL AND x > 2",
}


class Rows:
    """Random rows for some of the streams, and an oracle that has them all."""

    def __init__(self, seed: int, streams: str, disorder_seconds: int = SLACK_SECONDS // 2) -> None:
        self.chance = random.Random(seed)
        self.streams = streams
        self.disorder_seconds = disorder_seconds
        self.oracle = duckdb.connect()
        self.oracle.execute("CREATE TABLE a (id BIGINT, x BIGINT, s VARCHAR, ts TIMESTAMP)")
        self.oracle.execute("CREATE TABLE b (id BIGINT, y BIGINT, ts TIMESTAMP)")
        self.oracle.execute("CREATE TABLE c (id BIGINT, z BIGINT, ts TIMESTAMP)")
        self.second = 0

    def insert(self, db: ms.Database) -> None:
        chance = self.chance
        for stream in self.streams:
            rows: list[dict[str, Any]] = []
            for _ in range(chance.randrange(9)):
                self.second += 1
                late = chance.randrange(self.disorder_seconds)
                row: dict[str, Any] = {"id": chance.choice((None, 1, 2, 3, 4, 5)), VALUES[stream]: chance.randrange(10)}
                row |= {"s": chance.choice("pq")} if stream == "a" else {}
                rows.append(row | {"ts": START + timedelta(seconds=self.second - late)})
            if rows:
                db.insert(stream, rows)
                marks = ", ".join("?" * len(rows[0]))
                self.oracle.executemany(f"INSERT INTO {stream} VALUES ({marks})", [list(row.values()) for row in rows])

    def expected(self, query: str, late: dict[str, list[dict[str, Any]]] | None = None) -> Counter[tuple[object, ...]]:
        """The batch query over all rows but those that were late."""
        sql = sqlglot.transpile(query, read="spark", write="duckdb")[0]
        without = []
        for stream, rows in (late or {}).items():
            columns = [row[0] for row in self.oracle.execute(f"DESCRIBE {stream}").fetchall()]
            self.oracle.execute(f"CREATE OR REPLACE TEMP TABLE {stream}_late AS SELECT * FROM {stream} LIMIT 0")
            for row in rows:
                marks = ", ".join("?" * len(columns))
                self.oracle.execute(f"INSERT INTO {stream}_late VALUES ({marks})", [row[c] for c in columns])
            without.append(f"{stream} AS (SELECT * FROM main.{stream} EXCEPT ALL SELECT * FROM {stream}_late)")
        return _bag(self.oracle.execute((f"WITH {', '.join(without)} " if without else "") + sql).fetchall())


def _bag(rows: list[tuple[Any, ...]]) -> Counter[tuple[object, ...]]:
    return Counter(tuple(round(v, 9) if isinstance(v, float) else v for v in row) for row in rows)


def contents(db: ms.Database, view: str) -> Counter[tuple[object, ...]]:
    return _bag([tuple(row.values()) for row in db.query(f"SELECT * FROM {view}").rows()])


def replayed(db: ms.Database, view: str) -> Counter[tuple[object, ...]]:
    """The changelog of a view whose changes are inserts and retractions, from zero."""
    bag: Counter[tuple[object, ...]] = Counter()
    for change in db.changes(view).rows():
        row = tuple(list(change.values())[5:])
        bag[tuple(round(v, 9) if isinstance(v, float) else v for v in row)] += (
            1 if change["op"] in ("insert", "upsert") else -1
        )
    return +bag


@pytest.mark.parametrize(("partitions", "kernels"), [(1, ("native", "spark")), (3, ("spark", "native"))])
@pytest.mark.parametrize("group", GROUPS)
def test_equals_the_batch_query(
    connect: Callable[..., ms.Database], group: str, partitions: int, kernels: tuple[Kernel, Kernel]
) -> None:
    rows = Rows(len(group) * 10 + partitions, "ab")
    queries = GROUPS[group]
    db = connect(settings=ms.EngineSettings(kernel=kernels[0]))
    db.sql(STREAMS.format(partitions=partitions, slack=SLACK_SECONDS))
    for name, query in queries.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    for epoch in range(5):
        rows.insert(db)
        if epoch == 2:
            db.close()
            db = connect(settings=ms.EngineSettings(kernel=kernels[1]))
        db.drain()
        for name, query in queries.items():
            assert contents(db, name) == rows.expected(query), f"{name} after epoch {epoch}"
    for name in queries:
        if "upsert" not in {change["op"] for change in db.changes(name).rows()}:
            assert replayed(db, name) == contents(db, name), name


def test_bounded_outer_joins_are_complete_when_the_watermark_has_passed(connect: Callable[..., ms.Database]) -> None:
    rows = Rows(99, "abc")
    db = connect()
    db.sql(STREAMS.format(partitions=1, slack=SLACK_SECONDS))
    for name, query in OUTER.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    for epoch in range(6):
        rows.insert(db)
        if epoch == 3:
            db.close()
            db = connect()
        db.drain()
        for name, query in OUTER.items():
            surplus = contents(db, name) - rows.expected(query)
            assert not surplus, f"{name} after epoch {epoch} shows what is not final"
    _pass_all(db)
    for name, query in OUTER.items():
        assert contents(db, name) == rows.expected(query), name
        assert replayed(db, name) == contents(db, name), name
        assert "retract" not in {change["op"] for change in db.changes(name).rows()}, name
    assert all(not db.query(f"SELECT * FROM {stream}__late").rows() for stream in VALUES)


@pytest.mark.parametrize("seed", [1, 2])
def test_bounded_outer_joins_correct_themselves_for_rows_behind_the_watermark(
    connect: Callable[..., ms.Database], seed: int
) -> None:
    rows = Rows(seed, "abc", disorder_seconds=36)
    db = connect()
    db.sql(STREAMS.format(partitions=1, slack=0))
    for name, query in OUTER.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    for _ in range(8):
        rows.insert(db)
        db.drain()
    _pass_all(db)
    corrected = set()
    for name, query in OUTER.items():
        late = {stream: db.query(f"SELECT * FROM {stream}__late WHERE _view = '{name}'").rows() for stream in VALUES}
        assert contents(db, name) == rows.expected(query, late), name
        assert replayed(db, name) == contents(db, name), name
        corrected |= {change["op"] for change in db.changes(name).rows()}
    assert "retract" in corrected


def _pass_all(db: ms.Database) -> None:
    """Let the watermark pass everything, by rows that are alone, and not yet known to be."""
    end = START + timedelta(days=1)
    for stream, value in VALUES.items():
        db.insert(stream, [{"id": -ord(stream), value: 0, "ts": end}])
    db.drain()
