"""Millstream: a view created over retained bids while others arrive, and how long another view waits meanwhile.

The latency of a batch runs from before its `insert` to the commit of the epoch that has it, the durable log
included. First without, then with the backfill beside it, in one process.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

import millstream as ms
from bench.data import generate
from bench.digest import digest
from bench.job import Answer, Job, main
from bench.peers.duckdb_once import QUERIES, connect
from bench.peers.millstream import LOG, STREAM, TUMBLING, open_database

ROWS_PER_SECOND = 5_000
BATCHES_PER_SECOND = 10
BEFORE_SECONDS = 20
WARM_UP_SECONDS = 15
CHUNK = 100_000
SEED = 42

LIVE = """
CREATE MATERIALIZED VIEW live AS
SELECT window_start, channel, count(*) AS n, sum(price) AS total
FROM TUMBLE(bids, ts, INTERVAL 10 SECONDS)
GROUP BY window_start, channel"""


@dataclass
class Feed:
    """Bids that arrive at a steady rate; when each batch was sent, and how long it took to be in the views."""

    db: ms.Database
    first: int
    tables: list[pa.Table] = field(default_factory=list)
    taken: list[tuple[float, float]] = field(default_factory=list)
    """(sent at, milliseconds) of every batch that was committed."""
    _waiting: list[tuple[int, float]] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._threads = [threading.Thread(target=work) for work in (self._send, self._watch)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        count, number = ROWS_PER_SECOND // BATCHES_PER_SECOND, self.first
        began = time.perf_counter()
        while not self._stop.is_set():
            batch = generate(number, count, SEED)
            number += count
            due = began + (number - self.first) / ROWS_PER_SECOND
            self._stop.wait(max(0.0, due - time.perf_counter()))
            sent = time.perf_counter()
            self.db.insert("bids", batch)
            self.tables.append(batch)
            self._waiting.append((number, sent))

    def _watch(self) -> None:
        epoch = 0
        while not self._stop.is_set() or self._waiting:
            epoch = self.db.wait_for_epoch(epoch, 0.5)
            now = time.perf_counter()
            # Not by `status`, which asks for much more.
            progress = self.db._parts.store.progress("bids")
            done = progress.offsets.get(0, 0) if progress is not None else 0
            while self._waiting and self._waiting[0][0] <= done:
                _, sent = self._waiting.pop(0)
                self.taken.append((sent, (now - sent) * 1000))

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def between(self, since: float, until: float) -> list[float]:
        return [taken for sent, taken in self.taken if since <= sent < until]


def retain(db: ms.Database, rows: int) -> list[pa.Table]:
    """Fill the log, and let the live view read it."""
    tables = []
    for first in range(0, rows, CHUNK):
        tables.append(generate(first, min(CHUNK, rows - first), SEED))
        db.insert("bids", tables[-1])
    db.drain()
    return tables


def run(job: Job) -> Answer:
    with open_database(Path(job.work) / "data") as db:
        db.sql(STREAM.format(options=LOG))
        db.sql(LIVE)
        tables = retain(db, job.rows)
        db.start()
        feed = Feed(db, job.rows)
        try:
            time.sleep(WARM_UP_SECONDS)
            before_at = time.perf_counter()
            time.sleep(BEFORE_SECONDS)
            started_at, created_at = time.time(), time.perf_counter()
            db.sql(TUMBLING)
            while not db._parts.history.is_done():
                time.sleep(0.05)
            done_at = time.perf_counter()
        finally:
            feed.stop()
        ended_at = time.time()
        db.drain()
        db.stop()
        answer = db.query("SELECT * FROM answer").to_arrow()
    connection = connect()
    connection.register("answer", answer)
    connection.register("rows", pa.concat_tables([*tables, *feed.tables]))
    found = digest(connection, "tumbling", "(SELECT * REPLACE (epoch_us(window_start) AS window_start) FROM answer)")
    bids = "WITH bids AS (SELECT auction, price, epoch_us(ts) AS us FROM rows)"
    truth = digest(connection, "tumbling", f"({bids} {QUERIES['tumbling']})")
    notes = {
        "before_ms": feed.between(before_at, created_at),
        "truth": truth,
        "live_rows": sum(table.num_rows for table in feed.tables),
    }
    during = tuple(feed.between(created_at, done_at))
    return Answer(started_at, ended_at, done_at - created_at, during, found, notes)


if __name__ == "__main__":
    main(run)
