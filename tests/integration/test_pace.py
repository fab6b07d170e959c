"""Epochs sized and paced by their measured cost, in a database that runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import millstream as ms
from millstream.engine.run.pace import LEAST_ROWS, Cost
from tests.conftest import Connect
from tests.parts import parts_of

COUNTS = "CREATE MATERIALIZED VIEW counts AS SELECT k, count(*) AS n, sum(id) AS total FROM s GROUP BY k"


class Stopwatch:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def rows(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table({"k": [str(i % 7) for i in ids], "id": pa.array(ids, pa.int64())})


def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)


def seen(db: ms.Database) -> int:
    return int(db.query("SELECT coalesce(sum(n), 0) AS n FROM counts").rows()[0]["n"])


def epochs(db: ms.Database) -> list[dict[str, Any]]:
    shown = db.sql("SHOW EPOCHS")
    assert isinstance(shown, ms.Result)
    return shown.rows()


def test_a_backlog_is_cut_by_cost_when_running_and_not_when_drained(connect: Connect) -> None:
    """The costs are told here, so that sizes do not depend on the machine: 100,000 rows in parts of some 20,000."""
    answers = []
    for name in ("running", "drained"):
        db = connect(name)
        db.sql(f"CREATE STREAM s (k STRING, id BIGINT) WITH (partitions = 2); {COUNTS}")
        db.insert("s", rows(0, 100_000))
        parts_of(db).loop.pace.cost = Cost(0.4, 1e-4)
        parts_of(db).loop.timer = Stopwatch()
        if name == "running":
            db.start()
            until(lambda db=db: seen(db) == 100_000)  # type: ignore[misc]
            db.stop()
        else:
            db.drain()
        taken = [epoch["rows_in"] for epoch in epochs(db)]
        assert sum(taken) == 100_000
        if name == "running":
            assert 4 <= len(taken) <= 100_000 / LEAST_ROWS
            assert all(LEAST_ROWS - 2 <= count < 40_000 for count in taken[:-1]), taken
        else:
            assert taken == [100_000]
        answers.append(sorted(tuple(row.values()) for row in db.query("SELECT k, n, total FROM counts").rows()))
    assert answers[0] == answers[1]


def test_an_epoch_says_what_it_was_predicted_to_cost(connect: Connect) -> None:
    db = connect()
    db.sql(f"CREATE STREAM s (k STRING, id BIGINT); {COUNTS}")
    parts_of(db).loop.pace.cost = Cost(0.25, 1e-5)
    db.insert("s", rows(0, 5_000))
    db.drain()
    assert json.loads(epochs(db)[0]["timings"])["predicted_ms"] == pytest.approx(300)
    figures = db.status()["pace"]
    assert figures["fixed_ms"] != pytest.approx(250), "it has learnt from the epoch"
    assert figures["target_latency_ms"] is None


def test_rows_gather_as_long_as_the_target_allows(connect: Connect) -> None:
    """While the stopwatch stands, all that comes after the first epoch waits for the same one."""
    db = connect(settings=ms.EngineSettings(target_latency="30 seconds"))
    db.sql(f"CREATE STREAM s (k STRING, id BIGINT); {COUNTS}")
    parts_of(db).loop.timer = stopwatch = Stopwatch()
    db.start()
    db.insert("s", rows(0, 10))
    until(lambda: seen(db) == 10)
    for number in range(1, 21):
        db.insert("s", rows(10 * number, 10))
    stopwatch.now += 30
    until(lambda: seen(db) == 210)
    assert [epoch["rows_in"] for epoch in epochs(db)] == [10, 200]
    db.insert("s", rows(210, 10))
    # Who asks for everything does not wait.
    assert db.drain() == 3
    db.insert("s", rows(220, 10))
    db.sql("SET target_latency = 'none'")
    db.insert("s", rows(230, 10))
    until(lambda: seen(db) == 240)
    db.insert("s", rows(240, 10))
    # Nor does a database that stops.
    db.sql("SET target_latency = '1 hour'")
    db.stop()


def test_a_timer_is_not_kept_waiting(connect: Connect) -> None:
    clock = ms.ManualClock(0)
    db = connect(clock=clock, settings=ms.EngineSettings(target_latency="1 hour"))
    db.sql("CREATE STREAM s (k STRING, id BIGINT)")
    db.sql("CREATE MATERIALIZED VIEW counts AS SELECT k, count(*) AS n FROM s GROUP BY k EMIT EVERY 5 SECONDS")
    parts_of(db).loop.timer = Stopwatch()
    db.start()
    db.insert("s", rows(0, 7))
    until(lambda: parts_of(db).store.last_epoch() == 1)
    assert seen(db) == 0
    db.insert("s", rows(7, 7))
    clock.advance(5)
    until(lambda: seen(db) == 14)
    db.stop()


def test_set_target_latency(connect: Connect) -> None:
    db = connect()
    db.sql("SET target_latency = '500 ms'")
    assert db.status()["pace"]["target_latency_ms"] == 500
    for wrong in ("fast", "0 seconds", "-1 second", "7"):
        with pytest.raises(ms.MillstreamError) as error:
            db.sql(f"SET target_latency = '{wrong}'")
        assert (error.value.code, error.value.hint) == ("BAD_SETTING", "a duration such as '500 ms', or 'none'")
    with pytest.raises(ms.MillstreamError, match="did you mean 'target_latency'"):
        db.sql("SET target_latence = '1 second'")
    assert db.status()["pace"]["target_latency_ms"] == 500
    db.sql("SET target_latency = 'none'")
    assert db.status()["pace"]["target_latency_ms"] is None


def test_the_environment_may_set_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLSTREAM_TARGET_LATENCY", "2 seconds")
    assert ms.EngineSettings().target_latency == "2 seconds"
    assert ms.EngineSettings(target_latency=None).target_latency is None
    monkeypatch.setenv("MILLSTREAM_TARGET_LATENCY", "soon")
    with pytest.raises(ms.MillstreamError) as error:
        ms.EngineSettings()
    assert "'soon' is not a duration" in (error.value.detail or "")


def test_files_are_taken_by_the_rows_they_have(connect: Connect, tmp_path: Path) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    db = connect()
    db.sql(f"CREATE STREAM s (k STRING, id BIGINT) WITH (source = 'files', path = '{directory}', format = 'parquet')")
    db.sql(COUNTS)
    parts_of(db).loop.pace.cost = Cost(0.4, 1e-4)
    parts_of(db).loop.timer = Stopwatch()
    pq.write_table(rows(0, 5_000), directory / "00.parquet")
    db.drain()
    for number in range(1, 21):
        pq.write_table(rows(5_000 * number, 5_000), directory / f".{number:02}.parquet")
    for number in range(1, 21):
        (directory / f".{number:02}.parquet").rename(directory / f"{number:02}.parquet")
    db.start()
    until(lambda: seen(db) == 105_000)
    db.stop()
    taken = [epoch["rows_in"] for epoch in epochs(db)]
    assert sum(taken) == 105_000
    assert max(taken) <= 40_000
    assert all(count % 5_000 == 0 for count in taken)
