"""Running in the background and for a caller who waits, without a JVM. Tests wait for events, never for time."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

import millstream as ms
from millstream.engine.surface.database import Database
from millstream.plan.compute import Portion
from tests.inprocess_compute import InProcessCompute

COUNTS = "CREATE STREAM s (k BIGINT); CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM s GROUP BY k"
PATIENCE = 120


def until(db: Database, is_so: Callable[[], bool]) -> None:
    """Wait for commits until something is so."""
    with db.loop.committed:
        assert db.loop.committed.wait_for(is_so, PATIENCE)


def total(db: Database, view: str = "v") -> int:
    return sum(row["n"] for row in db.query(f"SELECT n FROM {view}").rows())


def test_rows_are_processed_as_they_arrive(db: Database) -> None:
    db.sql(COUNTS)
    db.start()
    db.insert("s", [{"k": 1}])
    until(db, lambda: db.store.last_epoch() >= 1)
    db.insert("s", [{"k": 1}, {"k": 2}])
    until(db, lambda: total(db) == 3)
    db.stop()
    assert not db.status()["running"]


def test_draining_waits_for_history_that_the_background_reads(db: Database, compute: InProcessCompute) -> None:
    db.sql("CREATE STREAM s (k BIGINT)")
    db.insert("s", [{"k": 1}, {"k": 1}])
    db.drain()
    db.start()
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM s GROUP BY k")
    db.drain()
    assert total(db) == 2
    db.stop()
    assert compute.open == 0


def test_stopping_finishes_the_epoch_under_way(db: Database, compute: InProcessCompute) -> None:
    db.sql(COUNTS)
    begun, go_on = threading.Event(), threading.Event()

    def hold(_: Portion) -> None:
        begun.set()
        assert go_on.wait(PATIENCE)

    compute.on_read = hold
    db.start()
    db.insert("s", [{"k": 1}])
    assert begun.wait(PATIENCE)
    stopping = threading.Thread(target=db.stop)
    stopping.start()
    assert db.store.last_epoch() == 0
    go_on.set()
    stopping.join(PATIENCE)
    assert db.store.last_epoch() == 1
    assert total(db) == 1


def test_rows_that_arrive_during_a_drain_are_for_the_next(db: Database, compute: InProcessCompute) -> None:
    db.sql(COUNTS)
    db.insert("s", [{"k": 1}])

    def more(_: Portion) -> None:
        db.insert("s", [{"k": 2}])

    compute.on_read = more
    assert db.drain() == 1
    assert total(db) == 1


# -- rows that are pushed --------------------------------------------------------------------------

PUSHED = (
    "CREATE STREAM p (k BIGINT) WITH (source = 'spark', format = 'rate'); "
    "CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM p GROUP BY k"
)


def batch(count: int) -> pa.Table:
    return pa.table({"k": pa.array([1] * count, pa.int64())})


def test_draining_takes_the_batches_that_are_there(db: Database, compute: InProcessCompute) -> None:
    db.sql(PUSHED)
    source = compute.push("p", batch(2), batch(3))
    db.drain()
    assert total(db) == 5
    source.batches.append(batch(4))
    db.drain()
    assert total(db) == 9, "batches that were taken are not taken again"


def test_batches_are_taken_while_running(db: Database, compute: InProcessCompute) -> None:
    db.sql(PUSHED)
    source = compute.push("p", batch(2))
    db.start()
    until(db, lambda: total(db) == 2)
    assert source.deliver is not None
    db.stop()
    assert source.deliver is None


# -- views that are about to change ----------------------------------------------------------------


def test_a_reader_of_a_view_that_gets_other_columns_sees_the_new_ones(db: Database) -> None:
    db.sql(COUNTS)
    db.insert("s", [{"k": 1}])
    db.drain()
    db.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT k, count(*) AS n, max(k) AS most FROM s GROUP BY k")
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT most AS n FROM v")
    db.drain()
    assert total(db, "w") == 1


def test_what_was_closed_does_not_run(db: Database) -> None:
    db.close()
    with pytest.raises(ms.MillstreamError) as refused:
        db.drain()
    assert refused.value.code == "CLOSED"
