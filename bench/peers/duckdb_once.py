"""DuckDB, one query over all files: the limit of this machine, and the truth that results are checked against."""

from __future__ import annotations

import time
from pathlib import Path

import duckdb

from bench.digest import digest
from bench.job import CORES, Answer, Job, main

_WINDOW = 10_000_000
_SLIDE = 2_000_000

QUERIES = {
    "tumbling": f"""
        SELECT auction, us - us % {_WINDOW} AS window_start, count(*) AS n, sum(price) AS total, max(price) AS top
        FROM bids GROUP BY ALL""",
    # Two-second panes first, each then counted in the five windows it belongs to.
    "hopping": f"""
        SELECT auction, window_start, sum(n) AS n
        FROM (SELECT auction, n, unnest(range(pane, pane - {_WINDOW}, -{_SLIDE})) AS window_start
              FROM (SELECT auction, us - us % {_SLIDE} AS pane, count(*) AS n FROM bids GROUP BY ALL))
        GROUP BY ALL""",
}
QUERIES["small_epochs"] = QUERIES["tumbling"]


def bids(path: str, format_: str) -> str:
    """The files as a relation (auction, price, us)."""
    if format_ == "parquet":
        source = f"read_parquet('{path}/*.parquet')"
    else:
        columns = "{auction: 'BIGINT', bidder: 'BIGINT', price: 'BIGINT', channel: 'VARCHAR', ts: 'TIMESTAMP'}"
        source = f"read_csv('{path}/*.csv', header = false, columns = {columns})"
    return f"(SELECT auction, price, epoch_us(ts) AS us FROM {source})"


def connect() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": CORES})


def query(job: Job, path: str) -> str:
    return f"WITH bids AS {bids(path, job.format)} {QUERIES[job.question]}"


def run(job: Job) -> Answer:
    connection = connect()
    connection.execute(f"CREATE TEMP TABLE warm AS {query(job, job.warm_up_path)}")
    began, started_at = time.perf_counter(), time.time()
    connection.execute(f"CREATE TEMP TABLE result AS {query(job, job.path)}")
    seconds = time.perf_counter() - began
    return Answer(started_at, time.time(), seconds, digest=digest(connection, job.question, "result"))


def expected(question: str, path: Path, format_: str) -> dict[str, int]:
    """The digest that every contender has to arrive at."""
    job = Job(question, format_, str(path), "", "")
    return digest(connect(), question, f"({query(job, str(path))})")


if __name__ == "__main__":
    main(run)
