"""Windows on processing time, with every way in which rows can land."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import millstream as ms

from ..conftest import Connect

NOW = 1_700_000_000
COUNTS = (
    "CREATE MATERIALIZED VIEW {name} AS SELECT unix_seconds(window_start) AS at, count(*) AS n "
    "FROM TUMBLE(s, PROCTIME(), INTERVAL 10 SECONDS) GROUP BY window_start {emit}"
)


def counts(db: ms.Database, view: str = "v") -> dict[int, int]:
    return {row["at"]: row["n"] for row in db.query(f"SELECT * FROM {view}").rows()}


def test_generated_rows_land_when_their_epoch_reads_them(connect: Connect) -> None:
    clock = ms.ManualClock(0)
    db = connect(clock=clock)
    db.sql("CREATE STREAM s (id BIGINT) WITH (source = 'datagen', rate = '10', 'fields.id.kind' = 'sequence')")
    db.sql(COUNTS.format(name="v", emit="EMIT ON WATERMARK"))
    for seconds, expected in ((1, {}), (9, {0: 10}), (10, {0: 10, 10: 90}), (9, {0: 10, 10: 90})):
        clock.advance(seconds)
        db.drain()
        assert counts(db) == expected


def test_rows_of_a_file_land_when_it_was_written(connect: Connect, tmp_path: Path) -> None:
    """A file that is older than what is closed already counts from now; one from the future as well."""
    folder = tmp_path / "in"
    folder.mkdir()

    def write(name: str, rows: int, written_at: int) -> None:
        path = folder / name
        path.write_text("".join(f'{{"v": {n}}}\n' for n in range(rows)))
        os.utime(path, (written_at, written_at))

    clock = ms.ManualClock(NOW)
    db = connect(clock=clock)
    db.sql(f"CREATE STREAM s (v BIGINT) WITH (source = 'files', path = '{folder}', format = 'json')")
    db.sql(COUNTS.format(name="v", emit=""))
    write("a.json", 1, NOW - 5)
    write("b.json", 2, NOW - 25)
    db.drain()
    assert counts(db) == {NOW - 10: 1, NOW - 30: 2}
    write("c.json", 4, NOW - 25)
    write("d.json", 8, NOW + 1_000)
    db.drain()
    assert counts(db) == {NOW - 10: 1, NOW - 30: 2, NOW: 12}


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_backlog_holds_the_clock(connect: Connect, partitions: int) -> None:
    """Rows that landed long ago are in the windows of then, also when several epochs read them."""
    clock = ms.ManualClock(0)
    db = connect(clock=clock, settings=ms.EngineSettings(max_epoch_rows=10_000))
    db.sql(f"CREATE STREAM s (v BIGINT) WITH (partitions = {partitions})")
    db.sql(COUNTS.format(name="v", emit="EMIT ON WATERMARK"))
    db.sql(COUNTS.format(name="live", emit=""))
    for _ in range(4):
        db.insert("s", [{"v": n} for n in range(6_000)])
        clock.advance(10)
    assert db.drain() >= 3
    assert counts(db) == {0: 6_000, 10: 6_000, 20: 6_000, 30: 6_000}
    assert counts(db, "live") == counts(db)
    late = db.query("SELECT * FROM s__late").rows()
    assert late == []


def test_history_is_grouped_by_when_it_had_landed(connect: Connect) -> None:
    clock = ms.ManualClock(0)
    db = connect(clock=clock)
    db.sql("CREATE STREAM s (v BIGINT); CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM s")
    for _ in range(3):
        db.insert("s", [{"v": 1}])
        db.drain()
        clock.advance(10)
    db.sql(COUNTS.format(name="v", emit="EMIT ON WATERMARK"))
    db.drain()
    assert counts(db) == {0: 1, 10: 1, 20: 1}
    db.insert("s", [{"v": 1}])
    db.drain()
    clock.advance(10)
    db.drain()
    assert counts(db) == {0: 1, 10: 1, 20: 1, 30: 1}


def test_a_window_closes_without_new_rows_while_the_engine_runs(connect: Connect) -> None:
    db = connect()
    db.sql("CREATE STREAM s (k STRING)")
    db.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT window_start, window_end, k, count(*) AS n "
        "FROM SESSION(s PARTITION BY k, PROCTIME(), INTERVAL 2 SECONDS) GROUP BY window_start, window_end, k "
        "EMIT ON WATERMARK"
    )
    db.start()
    db.insert("s", [{"k": "a"}, {"k": "a"}])
    deadline = time.monotonic() + 120
    while not db.changes("v").rows() and time.monotonic() < deadline:
        time.sleep(0.1)
    db.stop()
    (change,) = db.changes("v").rows()
    assert (change["pane"], change["final"], change["k"], change["n"]) == ("on_time", True, "a", 2)
    assert (change["window_end"] - change["window_start"]).total_seconds() == 2
