"""Millstream: so many standing queries over one stream of bids, as durable views.

With the setting `waits` they all have windows, and answer when these are complete. Measured is the processing of all
files, from the first epoch to the last commit, in a process that has done the same over another input; how long it took
to create the views is noted beside it. Every view is compared with a one-shot DuckDB query.
"""

from __future__ import annotations

import time
from pathlib import Path

import millstream as ms
from bench.job import Answer, Job, main
from bench.peers.duckdb_once import connect
from bench.peers.millstream import EPOCHS, FILES, STREAM, open_database
from bench.standing import Standing, standing, wrong_views


def create(db: ms.Database, path: str, views: tuple[Standing, ...]) -> float:
    """The stream and the views; the seconds it took."""
    began = time.perf_counter()
    db.sql(STREAM.format(options=FILES.format(path=path, format="parquet", more=EPOCHS["own_epochs"])))
    for view in views:
        db.sql(view.millstream_sql())
    return time.perf_counter() - began


def run(job: Job) -> Answer:
    work, views = Path(job.work), standing(job.rows, waits=job.settings == "waits")
    with open_database(work / "warm") as db:
        # A hundred are enough for the JVM to know what it will run.
        create(db, job.warm_up_path, views[:100])
        db.drain()
    with open_database(work / "data") as db:
        created = create(db, job.path, views)
        began, started_at = time.perf_counter(), time.time()
        db.drain()
        seconds, ended_at = time.perf_counter() - began, time.time()
        wrong = None
        if job.verify:
            bids = connect()
            bids.execute(f"CREATE TABLE bids AS FROM read_parquet('{job.path}/*.parquet')")
            wrong = wrong_views(db, bids, views)
    return Answer(started_at, ended_at, seconds, notes={"wrong": wrong, "created_seconds": created})


if __name__ == "__main__":
    main(run)
