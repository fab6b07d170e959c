"""Streaming queries come and go with their streams, without a JVM."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import millstream as ms
from millstream.engine.surface.database import Database
from tests.inprocess_compute import InProcessCompute
from tests.parts import parts_of


def batch(count: int) -> pa.Table:
    return pa.table({"k": pa.array([1] * count, pa.int64())})


def stream(name: str) -> str:
    return f"CREATE STREAM {name} (k BIGINT) WITH (source = 'spark', format = 'rate', path = '{name}')"


def counts(name: str) -> str:
    return f"CREATE MATERIALIZED VIEW v_{name} AS SELECT count(*) AS n FROM {name}"


def total(db: Database, view: str) -> int:
    return int(db.query(f"SELECT n FROM {view}").rows()[0]["n"])


def states(db: Database) -> dict[str, str]:
    return {each["name"]: each["state"] for each in db.status()["streams"]}


def test_a_stream_that_is_created_while_running_is_read(db: Database, compute: InProcessCompute) -> None:
    source = compute.push("p", batch(2))
    db.start()
    db.sql(stream("p"))
    assert source.deliver is not None
    db.stop()
    assert source.deliver is None


def test_a_stream_that_is_dropped_while_running_ends(db: Database, compute: InProcessCompute) -> None:
    first, second = compute.push("p", batch(2)), compute.push("q", batch(1))
    db.sql(f"{stream('p')}; {stream('q')}; {counts('q')}")
    db.start()
    entry = parts_of(db).catalog.stream("p")
    checkpoint = parts_of(db).definitions.holdings.checkpoint(entry)
    checkpoint.mkdir(parents=True)
    db.sql("DROP STREAM p")
    assert first.deliver is None
    assert second.deliver is not None
    assert not checkpoint.exists()
    assert db.status()["failure"] is None
    db.stop()


def test_the_checkpoint_of_a_query_stays_until_it_has_ended(
    db: Database, compute: InProcessCompute, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = compute.push("p")
    db.sql(stream("p"))
    db.start()
    checkpoint: Path = parts_of(db).definitions.holdings.checkpoint(parts_of(db).catalog.stream("p"))
    checkpoint.mkdir(parents=True)
    there: list[bool] = []
    monkeypatch.setattr(source, "stop", lambda: there.append(checkpoint.exists()))
    db.sql("DROP STREAM p")
    assert there == [True]
    assert not checkpoint.exists()


def test_a_stream_that_is_replaced_has_a_query_of_its_own(db: Database, compute: InProcessCompute) -> None:
    old, new = compute.push("p", batch(2)), compute.push("q", batch(3))
    db.start()
    db.sql(stream("p"))
    db.sql("CREATE OR REPLACE STREAM p (k BIGINT) WITH (source = 'spark', format = 'rate', path = 'q')")
    assert old.deliver is None
    assert new.deliver is not None
    db.sql(counts("p"))
    new.push(batch(4))
    assert total(db, "v_p") == 4
    db.stop()


def test_a_query_that_cannot_start_stops_no_other(
    db: Database, compute: InProcessCompute, clock: ms.ManualClock
) -> None:
    bad, good = compute.push("bad"), compute.push("good", batch(2))
    bad.ended = ms.MillstreamError("SPARK_SOURCE_FAILED", "no such format")
    db.sql(f"{stream('bad')}; {stream('good')}; {counts('good')}; {counts('bad')}; CREATE STREAM s (k BIGINT)")
    db.sql(counts("s"))
    db.insert("s", [{"k": 1}])
    with pytest.raises(ms.MillstreamError, match="no such format"):
        db.drain()
    assert (total(db, "v_good"), total(db, "v_s")) == (2, 1)
    assert states(db) == {"bad": "failing", "good": "live", "s": "live"}
    db.start()
    good.push(batch(5))
    assert total(db, "v_good") == 7
    assert db.status()["failure"] is None
    (shown,) = [row for row in db.sql("SHOW STREAMS").rows() if row["name"] == "bad"]  # type: ignore[union-attr]
    assert (shown["state"], "no such format" in shown["error"]) == ("failing", True)
    bad.ended = None
    db._running.reconcile()
    assert bad.deliver is None, "it rests"
    clock.advance(60)
    db._running.reconcile()
    bad.push(batch(3))
    assert total(db, "v_bad") == 3
    assert states(db)["bad"] == "live"
    db.stop()


def test_a_query_that_ends_by_itself_begins_again(
    db: Database, compute: InProcessCompute, clock: ms.ManualClock
) -> None:
    source = compute.push("p", batch(1))
    db.sql(f"{stream('p')}; {counts('p')}")
    db.start()
    source.ended = ms.MillstreamError("SPARK_SOURCE_FAILED", "the broker is gone")
    db._running.reconcile()
    assert states(db) == {"p": "failing"}
    assert source.deliver is None
    source.ended = None
    clock.advance(60)
    db._running.reconcile()
    source.push(batch(2))
    assert (total(db, "v_p"), states(db)) == (3, {"p": "live"})
    db.stop()


def test_a_batch_that_is_not_taken_is_delivered_again(db: Database, compute: InProcessCompute) -> None:
    compute.push("p", batch(2))
    db.sql(f"{stream('p')}; {counts('p')}")
    failing = [ms.MillstreamError("SPARK_FAILED", "no")] * 2

    def fail(_: object) -> None:
        if failing:
            raise failing.pop()

    compute.on_read = fail
    with pytest.raises(ms.MillstreamError):
        db.drain()
    with pytest.raises(ms.MillstreamError):
        db.drain()
    db.drain()
    assert (total(db, "v_p"), states(db)) == (2, {"p": "live"})
