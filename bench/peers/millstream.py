"""Millstream: the files as a stream, the question as a durable view.

Measured from CREATE STREAM to the last epoch's commit, in a process that has run the same
statements over another input. The result is read from the database after it was closed and opened
again, and the accounting must say that every row was used and none was late.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import millstream as ms
from bench.digest import digest
from bench.job import CORES, DRIVER_MEMORY, SLACK_SECONDS, Answer, Job, main
from bench.peers.duckdb_once import connect

SPARK = ms.SparkSettings(
    master=f"local[{CORES}]",
    driver_memory=DRIVER_MEMORY,
    conf={"spark.sql.shuffle.partitions": str(CORES)},
)

FILES = "source = 'files', path = '{path}', format = '{format}'{more}"
EPOCHS = {
    "tuned": ", files_per_epoch = '1'",
    # As many files per epoch as the defaults allow.
    "own_epochs": "",
}
LOG = "source = 'log'"

STREAM = f"""
CREATE STREAM bids (
    auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, ts TIMESTAMP,
    WATERMARK FOR ts AS ts - INTERVAL {SLACK_SECONDS} SECONDS
) WITH ({{options}})"""

TUMBLING = """
CREATE MATERIALIZED VIEW answer AS
SELECT window_start, window_end, auction, count(*) AS n, sum(price) AS total, max(price) AS top
FROM TUMBLE(bids, ts, INTERVAL 10 SECONDS)
GROUP BY window_start, window_end, auction"""

HOPPING = """
CREATE MATERIALIZED VIEW answer AS
SELECT window_start, window_end, auction, count(*) AS n
FROM HOP(bids, ts, INTERVAL 2 SECONDS, INTERVAL 10 SECONDS)
GROUP BY window_start, window_end, auction"""

VIEWS = {"tumbling": TUMBLING, "hopping": HOPPING, "small_epochs": TUMBLING}


def open_database(directory: Path) -> ms.Database:
    return ms.connect(directory, spark=SPARK)


def check(job: Job, directory: Path) -> tuple[dict[str, int], dict[str, Any]]:
    """The digest of the view and the sums of the accounting, after a restart of the database."""
    with open_database(directory) as db:
        answer = db.query("SELECT * FROM answer").to_arrow()
        shown = db.sql("SHOW EPOCHS")
    assert isinstance(shown, ms.Result)
    epochs = shown.to_pandas()
    connection = connect()
    connection.register("answer", answer)
    found = digest(connection, job.question, "(SELECT * REPLACE (epoch_us(window_start) AS window_start) FROM answer)")
    sums = {name: int(epochs[name].sum()) for name in ("rows_in", "rows_dead", "rows_used", "rows_late")}
    spark_ms = sum(json.loads(timings).get("spark_ms", 0.0) for timings in epochs["timings"])
    return found, {"epochs": len(epochs), "spark_seconds": round(spark_ms / 1000, 3), **sums}


def read_files(job: Job, path: str, directory: Path) -> tuple[float, float]:
    """Everything in a directory of files; when it began, and the seconds it took."""
    with open_database(directory) as db:
        began, started_at = time.perf_counter(), time.time()
        db.sql(STREAM.format(options=FILES.format(path=path, format=job.format, more=EPOCHS[job.settings])))
        db.sql(VIEWS[job.question])
        db.drain()
        return started_at, time.perf_counter() - began


def insert_epochs(job: Job, directory: Path) -> tuple[float, list[float]]:
    """One epoch per file, from insert to committed; when it began, and the milliseconds of each."""
    tables: list[pa.Table] = [pq.read_table(path) for path in sorted(Path(job.path).glob("*.parquet"))]
    with open_database(directory) as db:
        db.sql(STREAM.format(options=LOG))
        db.sql(VIEWS[job.question])
        started_at, taken = time.time(), []
        for table in tables:
            began = time.perf_counter()
            db.insert("bids", table)
            db.drain()
            taken.append((time.perf_counter() - began) * 1000)
        return started_at, taken


def run(job: Job) -> Answer:
    work = Path(job.work)
    if job.question == "small_epochs":
        started_at, epochs_ms = insert_epochs(job, work / "data")
        seconds = sum(epochs_ms) / 1000
    else:
        read_files(job, job.warm_up_path, work / "warm")
        started_at, seconds = read_files(job, job.path, work / "data")
        epochs_ms = []
    ended_at = time.time()
    found, notes = check(job, work / "data") if job.verify else (None, {})
    return Answer(started_at, ended_at, seconds, tuple(epochs_ms[job.warm_up_epochs :]), found, notes)


if __name__ == "__main__":
    main(run)
