"""Running in the background and for a caller who waits, without a JVM. Tests wait for events, never for time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import millstream as ms
from millstream.engine.surface.database import Database
from millstream.model.errors import UnavailableError
from millstream.plan.compute import Portion
from millstream.sources import Source
from millstream.store.commands import Command, Retain
from tests.inprocess_compute import InProcessCompute
from tests.parts import parts_of

COUNTS = "CREATE STREAM s (k BIGINT); CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM s GROUP BY k"
PATIENCE = 120


def until(db: Database, is_so: Callable[[], bool]) -> None:
    """Wait for commits until something is so."""
    with parts_of(db).loop.committed:
        assert parts_of(db).loop.committed.wait_for(is_so, PATIENCE)


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for something that no commit tells of."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def total(db: Database, view: str = "v") -> int:
    return sum(row["n"] for row in db.query(f"SELECT n FROM {view}").rows())


def test_rows_are_processed_as_they_arrive(db: Database) -> None:
    db.sql(COUNTS)
    db.start()
    db.insert("s", [{"k": 1}])
    until(db, lambda: parts_of(db).store.last_epoch() >= 1)
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
    assert parts_of(db).store.last_epoch() == 0
    go_on.set()
    stopping.join(PATIENCE)
    assert parts_of(db).store.last_epoch() == 1
    assert total(db) == 1


def test_rows_that_arrive_during_a_drain_are_for_the_next(db: Database, compute: InProcessCompute) -> None:
    db.sql(COUNTS)
    db.insert("s", [{"k": 1}])

    def more(_: Portion) -> None:
        db.insert("s", [{"k": 2}])

    compute.on_read = more
    assert db.drain() == 1
    assert total(db) == 1


# -- failures ---------------------------------------------------------------------------------------


class Faulty:
    """A source that raises where it is told to."""

    def __init__(self, source: Source, where: str) -> None:
        self._source, self.where = source, where

    def __getattr__(self, name: str) -> Any:
        if name == self.where:
            raise OSError(5, "Input/output error", "/mnt/rows")
        return getattr(self._source, name)


@pytest.mark.parametrize("where", ["end", "waiting", "cut"])
def test_a_source_that_fails_stops_no_other(db: Database, where: str) -> None:
    db.sql(
        f"{COUNTS}; CREATE STREAM t (k BIGINT); CREATE MATERIALIZED VIEW w AS SELECT k, count(*) AS n FROM t GROUP BY k"
    )
    entry = parts_of(db).catalog.stream("s")
    entry.source = faulty = Faulty(entry.source, where)
    db.insert("s", [{"k": 1}])
    db.insert("t", [{"k": 1}, {"k": 2}])
    for _ in range(2):
        with pytest.raises(ms.MillstreamError) as caught:
            db.drain()
        assert (caught.value.code, caught.value.message) == ("SOURCE_UNREADABLE", "input/output error")
        assert (total(db, "v"), total(db, "w")) == (0, 2)
    streams = {each["name"]: each for each in db.status()["streams"]}
    assert (streams["s"]["state"], streams["t"]["state"]) == ("failing", "live")
    assert "/mnt/rows" in (streams["s"]["error"] or "")
    faulty.where = ""
    db.drain()
    assert (total(db, "v"), db.status()["streams"][0]["state"]) == (1, "live")


def test_a_source_that_fails_in_the_background_is_tried_again(db: Database, clock: ms.ManualClock) -> None:
    db.sql(
        f"{COUNTS}; CREATE STREAM t (k BIGINT); CREATE MATERIALIZED VIEW w AS SELECT k, count(*) AS n FROM t GROUP BY k"
    )
    entry = parts_of(db).catalog.stream("s")
    entry.source = faulty = Faulty(entry.source, "cut")
    db.start()
    db.insert("s", [{"k": 1}])
    for number in range(1, 4):
        db.insert("t", [{"k": 1}])
        until(db, lambda number=number: total(db, "w") == number)  # type: ignore[misc]
    assert db.status()["streams"][0]["state"] == "failing"
    assert (db.status()["running"], db.status()["failure"]) == (True, None)
    faulty.where = ""
    clock.advance(60)
    until(db, lambda: total(db, "v") == 1)
    assert db.status()["streams"][0]["state"] == "live"
    db.stop()


def test_a_stream_that_fails_is_not_idle(db: Database, clock: ms.ManualClock) -> None:
    db.sql(
        "CREATE STREAM s (k BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND) "
        "WITH (idle_timeout = '10 seconds', partitions = 2); CREATE MATERIALIZED VIEW v AS SELECT k FROM s"
    )
    db.insert("s", [{"k": n, "ts": "1970-01-01 00:00:10"} for n in range(20)])
    db.drain()
    db.insert("s", [{"k": 1, "ts": "1970-01-01 00:01:00"}])
    db.drain()
    entry = parts_of(db).catalog.stream("s")
    entry.source = faulty = Faulty(entry.source, "cut")
    db.insert("s", [{"k": n, "ts": "1970-01-01 00:00:20"} for n in range(20)])
    clock.advance(60)
    with pytest.raises(ms.MillstreamError):
        db.drain()
    progress = parts_of(db).store.progress("s")
    assert progress is not None
    assert progress.watermark == 9_000_000
    faulty.where = ""
    db.drain()
    assert db.query("SELECT count(*) AS n FROM v").rows() == [{"n": 41}]


def test_a_failure_of_the_background_ends_nothing_and_is_raised_once(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.sql(COUNTS)
    with monkeypatch.context() as patch:

        def full(*_: object) -> int:
            raise UnavailableError("DISK_FULL", "no space left")

        patch.setattr(type(parts_of(db).store), "apply", full)
        db.start()
        db.insert("s", [{"k": 1}])
        wait_until(lambda: db.status()["failure"] is not None)
        assert "DISK_FULL" in str(db.status()["failure"])
        assert db.status()["running"]
        with pytest.raises(UnavailableError):
            db.stop()
        db.stop()
        assert "DISK_FULL" in str(db.status()["failure"]), "as long as it lasts"
        db.start()
        wait_until(lambda: db.status()["failure"] is not None)
    # What waits for its next attempt need not be stopped and started.
    until(db, lambda: total(db) == 1)
    wait_until(lambda: db.status()["failure"] is None)
    db.stop()


def test_upkeep_that_fails_stops_nothing(db: Database, monkeypatch: pytest.MonkeyPatch, clock: ms.ManualClock) -> None:
    db.sql(COUNTS)
    with monkeypatch.context() as patch:
        apply = type(parts_of(db).store).apply

        def fail(store: Any, command: Command) -> int:
            if isinstance(command, Retain):
                raise KeyError("expired")
            return apply(store, command)

        patch.setattr(type(parts_of(db).store), "apply", fail)
        db.start()
        wait_until(lambda: db.status()["failure"] is not None)
        db.insert("s", [{"k": 1}])
        until(db, lambda: total(db) == 1)
    clock.advance(120)
    wait_until(lambda: db.status()["failure"] is None)
    db.stop()


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
