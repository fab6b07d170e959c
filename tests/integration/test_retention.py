"""Retention is due by time alone: streams that are quiet do not keep more than busy ones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest

import millstream as ms

pytestmark = pytest.mark.spark

Connect = Callable[..., ms.Database]


def test_quiet_streams_expire_like_busy_ones(connect: Connect) -> None:
    clock = ms.ManualClock(1_750_000_000)
    db = connect(clock=clock)
    retain = "WITH (changelog_retain = '60 seconds')"
    db.sql(
        "CREATE STREAM busy (v BIGINT); CREATE STREAM calm (v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts) "
        "WITH (letters_retain = '60 seconds'); "
        f"CREATE MATERIALIZED VIEW b {retain} AS SELECT count(*) AS n FROM busy; "
        f"CREATE MATERIALIZED VIEW c {retain} AS SELECT count(*) AS n FROM calm; "
        f"CREATE MATERIALIZED VIEW over_c {retain} AS SELECT n + 1 AS m FROM c"
    )
    db.insert("calm", [{"v": 1, "ts": datetime(2025, 1, 1)}, {"v": 1, "ts": None}])
    db.drain()
    assert all(db.changes(name).rows() for name in ("c", "over_c"))
    assert len(db.query("SELECT * FROM calm__dead").rows()) == 1
    clock.advance(61)
    db.insert("busy", [{"v": 1}])
    db.drain()
    assert not any(db.changes(name).rows() for name in ("c", "over_c"))
    assert db.query("SELECT * FROM calm__dead").rows() == []
    assert len(db.changes("b").rows()) == 1
    # No row arrives any more.
    clock.advance(61)
    db.drain()
    assert db.changes("b").rows() == []
    assert db.query("SELECT n FROM b").rows() == [{"n": 1}]
