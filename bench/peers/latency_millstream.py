"""Millstream: ten views, rows inserted every 20 ms at several rates, and how long each batch takes to be visible.

The latency of a batch runs from the instant it was due to the commit of the epoch that has it. Due, not sent:
if an insert has to wait, the batches behind it wait too, and that counts. Committed is visible: all views change in one
transaction, and a query or subscriber that looks from then on sees the batch in every one of them. A thread that is
notified of commits, as subscriptions are, notes the instant.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

import millstream as ms
from bench.data import generate
from bench.job import Answer, Job, main
from bench.peers.duckdb_once import connect
from bench.peers.millstream import LOG, STREAM, open_database
from bench.standing import LATENCY, wrong_views

EVERY_SECONDS = 0.02
WARM_UP_SECONDS = 10
SETTLE_SECONDS = 2
"""Of the beginning of every rate: not measured."""
PATIENCE_SECONDS = 120
SEED = 42


@dataclass
class Watch:
    """Which batches are still on their way, and how long those took that are not."""

    db: ms.Database
    taken: list[tuple[float, float]] = field(default_factory=list)
    """(due, milliseconds) of every batch that is visible."""
    waiting: list[tuple[int, float]] = field(default_factory=list)
    """(the offset after its last row, due) of the others."""
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        epoch = 0
        while not self._stop.is_set():
            epoch = self.db.wait_for_epoch(epoch, 0.2)
            now = time.perf_counter()
            # Not by `status`, which asks for much more.
            progress = self.db._parts.store.progress("bids")
            done = progress.offsets.get(0, 0) if progress is not None else 0
            while self.waiting and self.waiting[0][0] <= done:
                _, due = self.waiting.pop(0)
                self.taken.append((due, (now - due) * 1000))

    def settle(self) -> float:
        """Wait until everything is visible; the seconds that took."""
        began = time.perf_counter()
        while self.waiting:
            if time.perf_counter() - began > PATIENCE_SECONDS:
                raise TimeoutError(f"{len(self.waiting)} batches are not visible after {PATIENCE_SECONDS} s")
            time.sleep(0.02)
        return time.perf_counter() - began

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def batches(first: int, rate: int, seconds: float) -> list[pa.Table]:
    count = max(1, round(rate * EVERY_SECONDS))
    return [generate(first + n * count, count, SEED) for n in range(round(seconds / EVERY_SECONDS))]


def feed(watch: Watch, first: int, tables: list[pa.Table]) -> float:
    """Insert batches, each when it is due; when the first was."""
    number, began = first, time.perf_counter()
    for place, table in enumerate(tables):
        due = began + place * EVERY_SECONDS
        time.sleep(max(0.0, due - time.perf_counter()))
        number += table.num_rows
        # First: it may be visible before the insert returns.
        watch.waiting.append((number, due))
        watch.db.insert("bids", table)
    return began


def run(job: Job) -> Answer:
    everything: list[pa.Table] = []
    rates: dict[str, dict[str, object]] = {}
    with open_database(Path(job.work) / "data") as db:
        db.sql(STREAM.format(options=LOG))
        for view in LATENCY:
            db.sql(view.millstream_sql())
        db.start()
        watch = Watch(db)
        started_at = time.time()
        try:
            first = 0
            for rate in (job.rates[0], *job.rates):
                warming_up = first == 0
                seconds = WARM_UP_SECONDS if warming_up else SETTLE_SECONDS + job.seconds
                tables = batches(first, rate, seconds)
                began = feed(watch, first, tables)
                behind = watch.settle()
                everything += tables
                first += sum(table.num_rows for table in tables)
                if warming_up:
                    started_at = time.time()
                    continue
                since = began + SETTLE_SECONDS
                taken = [taken for due, taken in watch.taken if since <= due]
                rates[str(rate)] = {"latency_ms": taken, "behind_seconds": behind, "pace": db.status()["pace"]}
        finally:
            watch.stop()
        ended_at = time.time()
        db.stop()
        bids = connect()
        bids.register("bids", pa.concat_tables(everything))
        wrong = wrong_views(db, bids, LATENCY)
    notes = {"rates": rates, "rows": first, "wrong": wrong, "views": len(LATENCY)}
    return Answer(started_at, ended_at, ended_at - started_at, notes=notes)


if __name__ == "__main__":
    main(run)
