"""Rows that are set aside: asked for where there are some, and only there."""

from __future__ import annotations

from typing import Any

from millstream.engine.surface.database import Database
from tests.inprocess_compute import InProcessCompute

STREAM = "CREATE STREAM s (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 0 SECONDS)"
VIEW = (
    "CREATE MATERIALIZED VIEW w AS SELECT window_start, count(*) AS n, max(100 / v) AS q "
    "FROM TUMBLE(s, ts, INTERVAL 10 SECONDS) GROUP BY window_start"
)


def at(second: int, v: int = 1) -> dict[str, Any]:
    return {"k": "a", "v": v, "ts": f"2024-01-01 00:00:{second:02}"}


def put(db: Database, *rows: dict[str, Any] | str) -> None:
    db.insert("s", list(rows))
    db.drain()


def test_good_rows_are_not_asked_for_again(db: Database, compute: InProcessCompute) -> None:
    db.sql(f"{STREAM}; {VIEW}")
    put(db, at(1), at(20))
    assert compute.asked == []
    assert compute.open == 0


def test_each_kind_is_fetched_once(db: Database, compute: InProcessCompute) -> None:
    db.sql(f"{STREAM}; {VIEW}")
    put(db, at(20))
    put(db, at(1), at(30, v=0), {"k": "b", "v": 2, "ts": None})
    assert sorted(compute.asked) == [("dead", "s"), ("failed", "w"), ("late", "w")]
    (late,) = db.query("SELECT _view, v FROM s__late").rows()
    assert late == {"_view": "w", "v": 1}
    dead = db.query("SELECT _view, v FROM s__dead ORDER BY v").rows()
    assert dead == [{"_view": "w", "v": 0}, {"_view": None, "v": 2}]


def test_the_past_brings_no_dead_rows_again(db: Database, compute: InProcessCompute) -> None:
    db.sql(STREAM)
    put(db, at(1), {"k": "b", "v": 2, "ts": None})
    compute.asked.clear()
    db.sql(VIEW)
    db.drain()
    assert compute.asked == []
    assert len(db.query("SELECT * FROM s__dead").rows()) == 1
