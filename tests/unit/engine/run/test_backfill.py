"""The past, read for new views and views that are built again, without a JVM."""

from __future__ import annotations

from typing import Any

import pytest

import millstream as ms
from millstream.engine.surface.database import Database
from millstream.plan.compute import Portion
from tests.inprocess_compute import InProcessCompute
from tests.parts import parts_of
from tests.unit.engine.conftest import Open

STREAM = "CREATE STREAM s (k BIGINT, v BIGINT)"
SUMS = "SELECT k, sum(v) AS n FROM s GROUP BY k"


@pytest.fixture
def past(open_database: Open, compute: InProcessCompute) -> Database:
    """A stream of thirty rows, all of them processed, in a database whose epochs have ten."""
    db = open_database(compute=compute, max_epoch_rows=10)
    db.sql(STREAM)
    db.insert("s", [{"k": n % 3, "v": n} for n in range(30)])
    db.drain()
    return db


def content(db: Database, view: str = "v") -> dict[int, int]:
    return {row["k"]: row["n"] for row in db.query(f"SELECT * FROM {view}").rows()}


WHOLE = {key: sum(range(key, 30, 3)) for key in range(3)}


def test_a_new_view_reads_the_past_in_slices(past: Database, compute: InProcessCompute) -> None:
    past.sql(f"CREATE MATERIALIZED VIEW v AS {SUMS}")
    entry = parts_of(past).catalog.view("v")
    assert parts_of(past).history.state(entry) == "reading history, 0 % done"
    assert parts_of(past).history.step()
    assert parts_of(past).history.state(entry) == "reading history, 33 % done"
    while parts_of(past).history.step():
        pass
    assert parts_of(past).history.state(entry) == "live"
    assert parts_of(past).history.is_done()
    assert content(past) == WHOLE
    assert len(compute.lane("past").reads) == 3
    assert compute.open == 0


def test_rows_that_arrive_meanwhile_are_counted_once(past: Database) -> None:
    past.sql(f"CREATE MATERIALIZED VIEW v AS {SUMS}")
    parts_of(past).history.step()
    past.insert("s", [{"k": 0, "v": 1000}])
    while parts_of(past).loop.run() is not None:
        pass
    while parts_of(past).history.step():
        pass
    assert content(past) == {**WHOLE, 0: WHOLE[0] + 1000}


def test_without_backfill_a_view_begins_now(past: Database, compute: InProcessCompute) -> None:
    past.sql(f"CREATE MATERIALIZED VIEW v WITH (backfill = 'false') AS {SUMS}")
    assert not parts_of(past).history.step()
    past.insert("s", [{"k": 0, "v": 5}])
    past.drain()
    assert content(past) == {0: 5}


def test_beside_live_epochs_another_lane_reads(past: Database, compute: InProcessCompute) -> None:
    past.sql(f"CREATE MATERIALIZED VIEW v AS {SUMS}")
    assert parts_of(past).history.step(beside=True)
    assert len(compute.lane("beside").reads) == 1
    assert compute.lane("past").reads == []


def test_a_view_that_is_dropped_meanwhile_gets_nothing(past: Database, compute: InProcessCompute) -> None:
    past.sql(f"CREATE MATERIALIZED VIEW v AS {SUMS}")
    before = parts_of(past).store.last_epoch()

    def drop(_: Portion) -> None:
        compute.on_read = lambda portion: None
        past.sql("DROP MATERIALIZED VIEW v")

    compute.on_read = drop
    assert parts_of(past).history.step()
    assert parts_of(past).store.last_epoch() == before
    assert not parts_of(past).history.step()
    assert compute.open == 0


def test_a_stream_that_is_dropped_while_it_is_read_is_no_failure(past: Database, compute: InProcessCompute) -> None:
    past.sql(f"CREATE MATERIALIZED VIEW v AS {SUMS}")

    def drop(_: Portion) -> None:
        past.sql("DROP MATERIALIZED VIEW v; DROP STREAM s")
        raise ms.MillstreamError("SPARK_FAILED", "the files are gone")

    compute.on_read = drop
    assert parts_of(past).history.step()
    assert not parts_of(past).history.step()


def test_a_slice_that_fails_is_read_again(past: Database, compute: InProcessCompute) -> None:
    past.sql(f"CREATE MATERIALIZED VIEW v AS {SUMS}")
    parts_of(past).history.step()

    def fail(_: Portion) -> None:
        raise ms.MillstreamError("SPARK_FAILED", "no")

    compute.on_read = fail
    with pytest.raises(ms.MillstreamError):
        parts_of(past).history.step()
    compute.on_read = lambda portion: None
    past.drain()
    assert content(past) == WHOLE


def test_a_history_that_cannot_be_read_stops_no_other(
    past: Database, compute: InProcessCompute, clock: ms.ManualClock
) -> None:
    past.sql(f"CREATE STREAM t (k BIGINT, v BIGINT); CREATE MATERIALIZED VIEW bad AS {SUMS}")
    past.sql("CREATE MATERIALIZED VIEW live AS SELECT k, sum(v) AS n FROM t GROUP BY k")
    past.sql(f"CREATE MATERIALIZED VIEW good AS {SUMS}")
    past.insert("t", [{"k": 1, "v": 1}])

    def fail(portion: Portion) -> None:
        if any(view.name == "bad" for view in portion.views):
            raise ms.MillstreamError("FILE_GONE", "archived")

    compute.on_read = fail
    for _ in range(2):
        with pytest.raises(ms.MillstreamError, match="archived"):
            past.drain()
        assert (content(past, "live"), content(past, "good"), content(past, "bad")) == ({1: 1}, WHOLE, {})
    states = {view["name"]: view["state"] for view in past.status()["views"]}
    assert states == {"bad": "reading history, 0 % done; failing: archived", "live": "live", "good": "live"}
    past.start()
    past.sql("CREATE MATERIALIZED VIEW late AS SELECT k, count(*) AS n FROM s GROUP BY k")
    with pytest.raises(ms.MillstreamError, match="archived"):
        past.drain()
    assert content(past, "late") == dict.fromkeys(range(3), 10)
    assert "archived" in str(past.status()["failure"])
    compute.on_read = lambda portion: None
    past.drain()
    assert (content(past, "bad"), past.status()["failure"]) == (WHOLE, None)
    past.stop()


def test_history_goes_on_after_a_restart(open_database: Open, past: Database) -> None:
    past.sql(f"CREATE MATERIALIZED VIEW v AS {SUMS}")
    parts_of(past).history.step()
    past.close()
    compute = InProcessCompute()
    db = open_database(compute=compute, max_epoch_rows=10)
    db.drain()
    assert content(db) == WHOLE
    assert len(compute.lane("past").reads) == 2


def test_what_is_rebuilt_is_the_same(past: Database) -> None:
    past.sql(f"CREATE MATERIALIZED VIEW v AS {SUMS}")
    past.drain()
    past.sql("ALTER MATERIALIZED VIEW v REBUILD")
    assert parts_of(past).history.state(parts_of(past).catalog.view("v")).startswith("rebuilding")
    past.drain()
    assert parts_of(past).history.state(parts_of(past).catalog.view("v")) == "live"
    assert content(past) == WHOLE


def test_the_old_contents_are_read_until_the_new_ones_are_there(past: Database) -> None:
    past.sql("CREATE MATERIALIZED VIEW v AS SELECT k, min(v) AS n FROM s GROUP BY k")
    past.drain()
    old: dict[int, Any] = content(past)
    past.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {SUMS}")
    parts_of(past).history.step()
    assert content(past) == old
    past.drain()
    assert content(past) == WHOLE
