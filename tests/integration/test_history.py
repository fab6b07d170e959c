"""History and live rows are one thing: backfill beside live epochs, rebuilding, and where streams begin."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import millstream as ms
from millstream.cli.formats import Format
from millstream.cli.run import run_pipeline
from millstream.cli.status import show_status
from tests.conftest import Connect
from tests.parts import parts_of, store_of

T0 = datetime(2024, 5, 1)
PAST = 120_000
WRITTEN = 1_714_530_000

STREAMS = """
CREATE STREAM bids (id BIGINT, auction BIGINT, price BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)
WITH (partitions = 2);
CREATE STREAM auctions (auction BIGINT, seller BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS);
CREATE MATERIALIZED VIEW live AS
SELECT auction % 10 AS k, count(*) AS n, sum(price) AS total FROM bids GROUP BY auction % 10;
"""
PER_AUCTION = "SELECT auction, count(*) AS n, max(price) AS top FROM bids GROUP BY auction"
WINDOWED = """SELECT window_start, auction, sum(price) AS total
FROM TUMBLE(bids, ts, INTERVAL 10 SECONDS) GROUP BY window_start, auction"""
JOINED = """SELECT b.id, b.price, a.seller FROM bids AS b JOIN auctions AS a
ON a.auction = b.auction AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 MINUTE"""
OVER = "SELECT n, count(*) AS auctions, max(top) AS top FROM per_auction GROUP BY n"

# The same questions, asked once of all rows.
BATCH = {
    "live": "SELECT auction % 10 AS k, count(*) AS n, sum(price) AS total FROM bids GROUP BY 1",
    "per_auction": PER_AUCTION,
    "windowed": "SELECT time_bucket(INTERVAL 10 SECONDS, ts) AS window_start, auction, sum(price) AS total "
    "FROM bids GROUP BY ALL",
    "joined": JOINED,
    "over": f"SELECT n, count(*) AS auctions, max(top) AS top FROM ({PER_AUCTION}) GROUP BY n",
}


def bids(first: int, count: int) -> pa.Table:
    ids = list(range(first, first + count))
    return pa.table(
        {
            "id": ids,
            "auction": [n // 50 for n in ids],
            "price": [n * 7 % 1_001 for n in ids],
            "ts": pa.array([T0 + timedelta(milliseconds=n) for n in ids], pa.timestamp("us")),
        }
    )


def auctions(first: int, count: int) -> pa.Table:
    """The auctions that bids of a range begin: every other one."""
    ids = [n for n in range(first // 50, (first + count) // 50) if n % 2 == 0]
    opened = [T0 + timedelta(milliseconds=50 * n) for n in ids]
    return pa.table({"auction": ids, "seller": [n % 13 for n in ids], "ts": pa.array(opened, pa.timestamp("us"))})


def contents(db: ms.Database, view: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in db.query(f"SELECT * FROM {view}").rows())


def batch(view: str, count: int) -> Counter[tuple[Any, ...]]:
    connection = duckdb.connect()
    connection.register("bids", bids(0, count))
    connection.register("auctions", auctions(0, count))
    return Counter(connection.execute(BATCH[view]).fetchall())


def states(db: ms.Database) -> dict[str, str]:
    return {row["name"]: row["state"] for row in db.sql("SHOW VIEWS").rows()}  # type: ignore[union-attr]


def insert(db: ms.Database, first: int, count: int) -> None:
    db.insert("auctions", auctions(first, count))
    db.insert("bids", bids(first, count))


@contextmanager
def feeding(db: ms.Database, first: int, count: int = 500, every: float = 0.1) -> Iterator[list[int]]:
    """Rows that arrive at a steady rate; the list says how many there are."""
    done, stop = [first], threading.Event()

    def feed() -> None:
        while not stop.wait(every):
            insert(db, done[0], count)
            done[0] += count

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join()


def wait_until(condition: Any, seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def filled(connect: Connect) -> ms.Database:
    db: ms.Database = connect()
    db.sql(STREAMS)
    insert(db, 0, PAST)
    db.drain()
    return db


def test_views_read_history_while_rows_arrive(connect: Connect) -> None:
    """Several views at once, of all kinds: nothing is lost, nothing is counted twice, and others do not wait."""
    db = filled(connect)
    db.start()
    with feeding(db, PAST) as count:
        wait_until(lambda: count[0] > PAST + 1_000)
        db.sql(f"CREATE MATERIALIZED VIEW per_auction AS {PER_AUCTION}")
        db.sql(f"CREATE MATERIALIZED VIEW windowed AS {WINDOWED}")
        db.sql(f"CREATE MATERIALIZED VIEW joined AS {JOINED}")
        db.sql(f"CREATE MATERIALIZED VIEW over AS {OVER}")
        assert any("reading history" in state for state in states(db).values())
        seen = set()
        while set(states(db).values()) != {"live"}:
            seen.add(db.query("SELECT sum(n) AS n FROM live").rows()[0]["n"])
            time.sleep(0.05)
        assert len(seen) > 2, "the live view went on meanwhile"
    db.drain()
    for view in BATCH:
        assert contents(db, view) == batch(view, count[0]), view
    db.stop()
    epochs = [row["epoch"] for row in db.sql("SHOW EPOCHS").rows()]  # type: ignore[union-attr]
    assert epochs == list(range(1, len(epochs) + 1))


def test_a_rebuild_while_rows_arrive(connect: Connect) -> None:
    db = filled(connect)
    db.sql(f"CREATE MATERIALIZED VIEW per_auction AS {PER_AUCTION}")
    db.sql(f"CREATE MATERIALIZED VIEW over AS {OVER}")
    db.sql(f"CREATE MATERIALIZED VIEW joined AS {JOINED}")
    db.drain()
    db.start()
    with feeding(db, PAST) as count:
        db.sql("ALTER MATERIALIZED VIEW per_auction REBUILD")
        db.sql("ALTER MATERIALIZED VIEW joined REBUILD")
        seen = set()
        while set(states(db).values()) != {"live"}:
            seen.add(db.query("SELECT sum(n) AS n FROM per_auction").rows()[0]["n"])
            time.sleep(0.02)
        assert min(seen) >= PAST, "the old contents stay, and stay live"
        assert len(seen) > 1
        # Another definition, whose contents flow into the view over it.
        filtered = PER_AUCTION.replace("GROUP", "WHERE price >= 0 GROUP")
        db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW per_auction AS {filtered}")
        wait_until(lambda: set(states(db).values()) == {"live"})
    db.drain()
    for view in ("live", "per_auction", "over", "joined"):
        assert contents(db, view) == batch(view, count[0]), view
    changed = db.changes("per_auction").rows()
    replayed = {row["auction"]: (row["auction"], row["n"], row["top"]) for row in changed}
    assert {row["op"] for row in changed} == {"upsert"}
    assert Counter(replayed.values()) == contents(db, "per_auction")


def test_a_view_is_dropped_while_it_reads_history(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    db = filled(connect)
    reading, go_on = threading.Event(), threading.Event()
    read = parts_of(db).history.beside.read

    def held(jobs: Any) -> Any:
        reads = read(jobs)
        reading.set()
        assert go_on.wait(60)
        return reads

    monkeypatch.setattr(parts_of(db).history.beside, "read", held)
    db.start()
    for statement in (f"CREATE MATERIALIZED VIEW per_auction AS {PER_AUCTION}", "ALTER MATERIALIZED VIEW live REBUILD"):
        reading.clear()
        go_on.clear()
        db.sql(statement)
        assert reading.wait(60)
        db.sql("DROP VIEW " + ("live" if "REBUILD" in statement else "per_auction"))
        go_on.set()
        wait_until(parts_of(db).history.is_done)
    db.drain()
    left = store_of(db).query("SELECT table_name FROM information_schema.tables").column(0).to_pylist()
    assert not [name for name in left if name.startswith(("live", "per_auction"))]
    db.stop()


def test_a_failure_while_reading_history_is_told(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    db = filled(connect)

    def fail(jobs: Any) -> Any:
        raise ms.MillstreamError("SPARK_FAILED", "the disk of an executor is gone")

    with monkeypatch.context() as patch:
        patch.setattr(parts_of(db).history.beside, "read", fail)
        db.start()
        db.sql(f"CREATE MATERIALIZED VIEW per_auction AS {PER_AUCTION}")
        wait_until(lambda: db.status()["failure"] is not None)
        assert "the disk of an executor is gone" in (db.status()["failure"] or "")
        insert(db, PAST, 100)
        wait_until(lambda: db.query("SELECT sum(n) AS n FROM live").rows()[0]["n"] == PAST + 100)
        with pytest.raises(ms.MillstreamError, match="the disk of an executor is gone"):
            db.drain()
    # What it could not read in the background, drain reads itself.
    db.drain()
    assert contents(db, "per_auction") == batch("per_auction", PAST + 100)
    db.stop()


# -- one answer, however the rows come -------------------------------------------------------------

PIPELINE = """
CREATE STREAM bids (id BIGINT, auction BIGINT, price BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)
WITH ({bids});
CREATE STREAM auctions (auction BIGINT, seller BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)
WITH ({auctions});
"""
QUESTIONS = f"""
CREATE MATERIALIZED VIEW windowed AS {WINDOWED};
CREATE MATERIALIZED VIEW joined AS {JOINED};
CREATE MATERIALIZED VIEW per_auction AS {PER_AUCTION};
CREATE MATERIALIZED VIEW over AS {OVER};
"""


def write_files(directory: Path, pieces: int, size: int) -> None:
    for name, rows in (("bids", bids), ("auctions", auctions)):
        (directory / name).mkdir(parents=True)
        for piece in range(pieces):
            lines = "".join(json.dumps(row, default=str) + "\n" for row in rows(piece * size, size).to_pylist())
            path = directory / name / f"{piece:03}.json"
            path.write_text(lines)
            # Not before the events in it: those would be ahead of their arrival.
            os.utime(path, (WRITTEN + piece * 100,) * 2)


def script(tmp_path: Path) -> Path:
    files = {
        n: f"source = 'files', path = '{tmp_path / 'in' / n}', format = 'json', files_per_epoch = '2'"
        for n in ("bids", "auctions")
    }
    path = tmp_path / "pipeline.sql"
    path.write_text(PIPELINE.format(**files) + QUESTIONS)
    return path


def test_files_read_once_give_what_live_rows_give(connect: Connect, tmp_path: Path, capsys: Any) -> None:
    write_files(tmp_path / "in", pieces=5, size=1_000)
    run_pipeline(script(tmp_path), tmp_path / "once", once=True, format=Format.JSON)
    capsys.readouterr()
    live = connect("live")
    live.sql(PIPELINE.format(bids="partitions = 3", auctions="source = 'log'") + QUESTIONS)
    live.start()
    for piece in range(10):
        insert(live, piece * 500, 500)
    live.drain()
    once = connect("once")
    for view in ("windowed", "joined", "per_auction", "over"):
        assert contents(once, view) == contents(live, view) == batch(view, 5_000), view
    live.stop()


def test_a_pipeline_begins_where_it_is_told(tmp_path: Path, connect: Connect, capsys: Any) -> None:
    write_files(tmp_path / "in", pieces=4, size=100)
    pipeline = script(tmp_path)

    def ids(data: str) -> set[int]:
        db = connect(data)
        rows = {row["auction"] for row in db.query("SELECT auction FROM per_auction").rows()}
        db.close()
        return rows

    since = datetime.fromtimestamp(WRITTEN + 200, tz=UTC).replace(tzinfo=None).isoformat(sep=" ")
    for data, start, first in (
        ("earliest", ["earliest"], 0),
        ("since", [since], 200),
        ("placed", ["bids:0=3", "auctions:latest"], 300),
    ):
        run_pipeline(pipeline, tmp_path / data, once=True, format=Format.JSON, start_from=start)
        assert ids(data) == set(range(first // 50, 8)), data
        # The same script goes on without --from, and refuses to begin elsewhere.
        run_pipeline(pipeline, tmp_path / data, once=True, format=Format.JSON)
        with pytest.raises(ms.MillstreamError) as caught:
            run_pipeline(pipeline, tmp_path / data, once=True, format=Format.JSON, start_from=["latest"])
        assert caught.value.code == "ALREADY_READ"
        assert "REBUILD" in (caught.value.hint or "")
    with pytest.raises(ms.MillstreamError, match="UNKNOWN_STREAM"):
        run_pipeline(pipeline, tmp_path / "other", once=True, format=Format.JSON, start_from=["bid:latest"])
    capsys.readouterr()
    show_status(tmp_path / "since")
    assert "live" in capsys.readouterr().out


def test_a_stream_that_was_not_read_yet_can_begin_elsewhere(tmp_path: Path, connect: Connect, capsys: Any) -> None:
    db = connect("data")
    db.sql("CREATE STREAM s (v BIGINT) WITH (partitions = 2)")
    db.insert("s", [{"v": n} for n in range(6)])
    db.close()
    pipeline = tmp_path / "p.sql"
    pipeline.write_text(
        "CREATE STREAM s (v BIGINT) WITH (partitions = 2); CREATE VIEW n AS SELECT count(*) AS n FROM s;"
        "INSERT INTO s VALUES (100), (101), (102)"
    )
    run_pipeline(pipeline, tmp_path / "data", once=True, format=Format.JSON, start_from=["s:0=2,1=1"])
    capsys.readouterr()
    db = connect("data")
    assert db.query("SELECT n FROM n").rows() == [{"n": 6}]
