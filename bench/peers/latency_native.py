"""Structured Streaming: one query per view over files that land at several rates, and how long each takes to be read.

The default trigger (as soon as the last micro-batch is done), update mode, no-op sink. The latency of a file runs
from when it has landed to the end of the micro-batch that contains it, by the query's own progress; every
query counts on its own, so there are as many latencies as files times queries. A file lands every 100 ms: what
its rows waited for before, and the writing of it, is not counted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.data import generate
from bench.job import SLACK_SECONDS, Answer, Job, main
from bench.peers.native import SCHEMA, session
from bench.standing import LATENCY

EVERY_SECONDS = 0.1
WARM_UP_SECONDS = 10
WARM_UP_BATCHES = 3
"""Of every query, at least, after that."""
SETTLE_SECONDS = 2
PATIENCE_SECONDS = 600
SEED = 42


class Landing:
    """A directory into which files are renamed once they are complete."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True)
        self.landed_at: dict[str, float] = {}
        self.rows = 0

    def feed(self, rate: int, seconds: float) -> float:
        """A file whenever one is due; when the first was."""
        count = max(1, round(rate * EVERY_SECONDS))
        tables = [generate(self.rows + n * count, count, SEED) for n in range(round(seconds / EVERY_SECONDS))]
        began, began_at = time.perf_counter(), time.time()
        for place, table in enumerate(tables):
            time.sleep(max(0.0, began + place * EVERY_SECONDS - time.perf_counter()))
            name = f"{len(self.landed_at):06d}.parquet"
            hidden = self.directory / f".{name}"
            pq.write_table(table, hidden)
            hidden.rename(self.directory / name)
            self.landed_at[name] = time.time()
            self.rows += table.num_rows
        return began_at


def start(spark: SparkSession, landing: Landing, work: Path) -> list[StreamingQuery]:
    files = spark.readStream.format("parquet").schema(SCHEMA).load(str(landing.directory))
    files.withWatermark("ts", f"{SLACK_SECONDS} seconds").createOrReplaceTempView("bids")
    queries = []
    for view in LATENCY:
        writer = spark.sql(view.spark_sql()).writeStream.outputMode("update").format("noop")
        queries.append(writer.option("checkpointLocation", str(work / view.name)).start())
    return queries


def rows_read(query: StreamingQuery) -> int:
    failure = query.exception()
    if failure is not None:
        raise failure
    return sum(progress["numInputRows"] for progress in query.recentProgress)


def settle(queries: list[StreamingQuery], rows: int) -> float:
    """Wait until every query has read everything; the seconds that took."""
    began = time.perf_counter()
    while any(rows_read(query) < rows for query in queries):
        if time.perf_counter() - began > PATIENCE_SECONDS:
            raise TimeoutError(f"not everything was read after {PATIENCE_SECONDS} s")
        time.sleep(0.5)
    return time.perf_counter() - began


def ends(progress: Iterable[Any]) -> list[tuple[int, float]]:
    """(how far the source was read, when that was done) of every micro-batch, in order."""
    found = []
    for one in progress:
        offset = one["sources"][0]["endOffset"]
        if offset is None or not one["numInputRows"]:
            continue  # an idle look, or a batch for the watermark alone
        offset = json.loads(offset) if isinstance(offset, str) else offset
        began_at = datetime.fromisoformat(one["timestamp"]).timestamp()
        found.append((int(offset["logOffset"]), began_at + one["durationMs"]["triggerExecution"] / 1000))
    return found


def offsets(checkpoint: Path) -> dict[str, int]:
    """By name of file: the offset of the source at which a query read it, from the source's own log."""
    found: dict[str, int] = {}
    for path in (checkpoint / "sources" / "0").iterdir():
        if path.name.startswith("."):
            continue
        _version, *lines = path.read_text().splitlines()
        for line in lines:
            entry = json.loads(line)
            found[Path(entry["path"]).name] = int(entry["batchId"])
    return found


def latencies(
    landed_at: dict[str, float], offsets: dict[str, int], ends: list[tuple[int, float]], since: float, until: float
) -> list[float]:
    """Milliseconds of every file that landed between two instants."""
    found = []
    for name, at in landed_at.items():
        if since <= at < until:
            done_at = next(ended_at for offset, ended_at in ends if offset >= offsets[name])
            found.append((done_at - at) * 1000)
    return found


def run(job: Job) -> Answer:
    work = Path(job.work)
    spark = session(job.settings, work)
    landing = Landing(work / "input")
    queries = start(spark, landing, work / "checkpoints")
    for seconds in (WARM_UP_SECONDS, *(1,) * WARM_UP_BATCHES):
        landing.feed(job.rates[0], seconds)
        settle(queries, landing.rows)
    started_at = time.time()
    spans: dict[int, tuple[float, float, float]] = {}
    for rate in job.rates:
        since = landing.feed(rate, SETTLE_SECONDS + job.seconds) + SETTLE_SECONDS
        spans[rate] = (since, time.time(), settle(queries, landing.rows))
    ended_at = time.time()
    known = [
        (offsets(work / "checkpoints" / view.name), ends(query.recentProgress))
        for view, query in zip(LATENCY, queries, strict=True)
    ]
    read = [rows_read(query) for query in queries]
    for query in queries:
        query.stop()
    rates = {
        str(rate): {
            "latency_ms": [ms for at, done in known for ms in latencies(landing.landed_at, at, done, since, until)],
            "behind_seconds": behind,
        }
        for rate, (since, until, behind) in spans.items()
    }
    spark.stop()
    wrong = [view.name for view, rows in zip(LATENCY, read, strict=True) if rows != landing.rows]
    notes = {"rates": rates, "rows": landing.rows, "wrong": wrong, "views": len(LATENCY)}
    return Answer(started_at, ended_at, ended_at - started_at, notes=notes)


if __name__ == "__main__":
    main(run)
