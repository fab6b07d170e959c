"""Flink SQL in streaming mode over the bids as CSV, into the blackhole sink: heap state, or RocksDB with checkpoints.

Runs in the Python of `bench/.venv-flink`. Measured is the job's own run time as Flink reports it, without
planning and the start of the cluster, in a JVM that has run the same query over another input. Its file
source hands files to its readers in no order, which would make rows late: `job.path` has one file per reader
(`data.deal`). Counts and sums of the result come from an extra run.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.flink_session import JVM, execute, last_row
from bench.job import SLACK_SECONDS, Answer, Job, main

QUERIES = {
    "tumbling": """
SELECT auction, window_start, count(*) AS n, sum(price) AS total, max(price) AS top
FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(event_time), INTERVAL '10' SECOND))
GROUP BY auction, window_start, window_end""",
    "hopping": """
SELECT auction, window_start, count(*) AS n
FROM TABLE(HOP(TABLE bids, DESCRIPTOR(event_time), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
GROUP BY auction, window_start, window_end""",
}
SUMMED = {"tumbling": ("n", "total", "top"), "hopping": ("n",)}


def tables(path: str) -> list[str]:
    """The statement that makes the table of bids over a directory of CSV files."""
    # Event time has microseconds; Flink's has milliseconds, so it is a column of its own.
    return [
        "CREATE TEMPORARY TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, ts TIMESTAMP(6), "
        "event_time AS CAST(ts AS TIMESTAMP(3)), "
        f"WATERMARK FOR event_time AS event_time - INTERVAL '{SLACK_SECONDS}' SECOND) "
        f"WITH ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'csv')"
    ]


def summary(job: Job, work: Path) -> dict[str, int]:
    """The number of groups and the sums that the digest has; Flink has not its hash."""
    names = SUMMED[job.question]
    sums = ", ".join(f"sum({name})" for name in names)
    row = last_row(job.settings, work, tables(job.path), f"SELECT count(*), {sums} FROM ({QUERIES[job.question]})")
    return dict(zip(("groups", *names), (int(value) for value in row), strict=True))


def run(job: Job) -> Answer:
    work = Path(job.work)
    query = QUERIES[job.question]
    execute(job.settings, work / "warm", tables(job.warm_up_path), query)
    started_at = time.time()
    seconds = execute(job.settings, work / "data", tables(job.path), query)
    ended_at = time.time()
    found = summary(job, work / "summed") if job.verify else None
    notes = {"wall_seconds": round(ended_at - started_at, 3)}
    return Answer(started_at, ended_at, seconds, digest=found, notes=notes)


if __name__ == "__main__":
    os.environ["JVM_ARGS"] = JVM
    main(run)
