"""The epoch loop without a JVM: what an epoch takes, and what is there after it or after its failure."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import millstream as ms
from millstream.engine.surface.database import Database
from millstream.plan.compute import Portion
from millstream.plan.slices import BatchSlice
from tests.answers import rows_of
from tests.inprocess_compute import InProcessCompute
from tests.parts import parts_of
from tests.unit.engine.conftest import Open

COUNTS = "CREATE STREAM s (k BIGINT); CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM s GROUP BY k"
TIMED = (
    "CREATE STREAM s (k BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS) "
    "WITH (idle_timeout = '30 seconds', partitions = '2', key = 'k')"
)


def rows(*keys: int) -> list[dict[str, Any]]:
    return [{"k": key} for key in keys]


def counts(db: Database) -> dict[int, int]:
    return {row["k"]: row["n"] for row in db.query("SELECT k, n FROM v").rows()}


def test_one_epoch_takes_all_streams(db: Database, compute: InProcessCompute) -> None:
    db.sql("CREATE STREAM a (k BIGINT); CREATE STREAM b (k BIGINT)")
    db.insert("a", rows(1))
    db.insert("b", rows(2, 3))
    assert parts_of(db).loop.run() == 1
    assert compute.lane("present").reads == [(("a", "b"), False)]
    (epoch,) = rows_of(db, "SHOW EPOCHS")
    assert epoch["rows_in"] == 3


def test_nothing_is_recorded_when_nothing_happened(db: Database, compute: InProcessCompute) -> None:
    db.sql(COUNTS)
    assert parts_of(db).loop.run() is None
    assert parts_of(db).store.last_epoch() == 0
    assert compute.lane("present").reads == []


def test_a_backlog_is_read_one_epoch_ahead(open_database: Open, compute: InProcessCompute) -> None:
    db = open_database(compute=compute, max_epoch_rows=10)
    db.sql(COUNTS)
    db.insert("s", rows(*range(25)))
    assert db.drain() == 3
    assert [ahead for _, ahead in compute.lane("present").reads] == [False, True, True]
    assert sum(counts(db).values()) == 25
    assert compute.open == 0


def test_what_was_read_ahead_is_dropped_for_a_new_view(open_database: Open, compute: InProcessCompute) -> None:
    db = open_database(compute=compute, max_epoch_rows=10)
    db.sql(COUNTS)
    db.insert("s", rows(*range(20)))
    until = parts_of(db).loop.ends()
    assert parts_of(db).loop.run(until) == 1
    assert parts_of(db).loop.reader.is_ahead
    db.sql("CREATE MATERIALIZED VIEW w WITH (backfill = 'false') AS SELECT k FROM s")
    assert parts_of(db).loop.run(until) == 2
    assert [ahead for _, ahead in compute.lane("present").reads] == [False, True, False]
    assert len(db.query("SELECT k FROM w").rows()) == 10
    assert compute.open == 0


def test_a_read_that_fails_leaves_nothing_behind(db: Database, compute: InProcessCompute) -> None:
    db.sql(COUNTS)
    db.insert("s", rows(1, 1))

    def fail(_: Portion) -> None:
        raise ms.MillstreamError("SPARK_FAILED", "no")

    compute.on_read = fail
    with pytest.raises(ms.MillstreamError):
        parts_of(db).loop.run()
    assert parts_of(db).store.last_epoch() == 0
    compute.on_read = lambda _: None
    assert parts_of(db).loop.run() == 1
    assert counts(db) == {1: 2}


def test_a_commit_that_fails_closes_its_reads(
    open_database: Open, compute: InProcessCompute, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = open_database(compute=compute, max_epoch_rows=10)
    db.sql(COUNTS)
    db.insert("s", rows(*[7] * 25))

    def fail(_: object) -> int:
        raise ms.MillstreamError("STORE_FAILED", "no")

    with monkeypatch.context() as patch:
        patch.setattr(type(parts_of(db).store), "apply", lambda self, part: fail(part))
        with pytest.raises(ms.MillstreamError):
            parts_of(db).loop.run(parts_of(db).loop.ends())
    assert not parts_of(db).loop.reader.is_ahead
    assert compute.open == 0
    db.drain()
    assert counts(db) == {7: 25}


def test_an_idle_partition_does_not_hold_the_watermark(db: Database, clock: ms.ManualClock) -> None:
    db.sql(TIMED)
    db.insert("s", [{"k": key, "ts": "1970-01-01 00:00:10"} for key in range(20)])
    db.drain()
    clock.advance(20)
    db.insert("s", [{"k": 1, "ts": "1970-01-01 00:01:40"}])
    assert db.drain() == 2
    held = parts_of(db).store.progress("s")
    assert held is not None
    assert held.watermark == 5_000_000
    assert parts_of(db).loop.seconds_until_due() == pytest.approx(10.0)
    clock.advance(10)
    assert parts_of(db).loop.run() == 3
    moved = parts_of(db).store.progress("s")
    assert moved is not None
    assert moved.watermark == 95_000_000


def test_a_timer_is_due_without_rows(db: Database, clock: ms.ManualClock) -> None:
    db.sql("CREATE STREAM s (k BIGINT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM s GROUP BY k EMIT EVERY 10 SECONDS ACCUMULATING")
    db.insert("s", rows(1, 1))
    assert db.drain() == 1
    assert counts(db) == {}
    assert parts_of(db).loop.seconds_until_due() == pytest.approx(10.0)
    clock.advance(10)
    assert parts_of(db).loop.seconds_until_due() == 0
    assert parts_of(db).loop.run() == 2
    assert counts(db) == {1: 2}
    assert parts_of(db).loop.run() is None


def test_timers_survive_a_restart(open_database: Open, clock: ms.ManualClock) -> None:
    db = open_database()
    db.sql("CREATE STREAM s (k BIGINT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM s GROUP BY k EMIT EVERY 10 SECONDS ACCUMULATING")
    db.insert("s", rows(1))
    db.drain()
    db.close()
    clock.advance(10)
    db = open_database()
    assert parts_of(db).loop.run() == 2
    assert counts(db) == {1: 1}


# -- batches that are pushed -----------------------------------------------------------------------

PUSHED = (
    "CREATE STREAM s (k BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 0 SECONDS) "
    "WITH (source = 'spark', format = 'rate', max_ahead = '1 hour'); "
    "CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM s GROUP BY k"
)


def batch(*seconds: int) -> pa.Table:
    times = pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us"))
    return pa.table({"k": pa.array([1] * len(seconds), pa.int64()), "ts": times})


def test_a_repeated_batch_is_known_by_its_number(db: Database) -> None:
    db.sql(PUSHED)
    entry = parts_of(db).catalog.stream("s")
    assert parts_of(db).loop.run_batch(entry, BatchSlice(batch(1, 2), 0)) == 1
    assert parts_of(db).loop.run_batch(entry, BatchSlice(batch(1, 2), 0)) is None
    assert parts_of(db).loop.run_batch(entry, BatchSlice(batch(3), 1)) == 2
    assert counts(db) == {1: 3}


def test_a_batch_lands_by_the_clock_of_the_database(db: Database, clock: ms.ManualClock) -> None:
    """With a bound of its own; the default one is held against the machine's clock."""
    db.sql(PUSHED)
    clock.advance(1_800)
    parts_of(db).loop.run_batch(parts_of(db).catalog.stream("s"), BatchSlice(batch(5_000, 6_000), 0))
    assert counts(db) == {1: 1}
    (dead,) = db.query("SELECT reason FROM s__dead").rows()
    assert "ahead" in dead["reason"]


# -- however epochs are cut ------------------------------------------------------------------------


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=12), min_size=1, max_size=5),
    most=st.integers(1, 12),
    drained=st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_views_do_not_depend_on_where_epochs_end(
    db: Database, compute: InProcessCompute, batches: list[list[int]], most: int, drained: list[bool]
) -> None:
    parts_of(db).loop.settings = parts_of(db).loop.settings.model_copy(update={"max_epoch_rows": most})
    db.sql(COUNTS)
    for keys, drain in zip(batches, drained, strict=False):
        db.insert("s", rows(*keys))
        if drain:
            db.drain()
    db.drain()
    assert counts(db) == Counter(key for keys in batches for key in keys)
    assert compute.open == 0
    db.sql("DROP MATERIALIZED VIEW v; DROP STREAM s")
