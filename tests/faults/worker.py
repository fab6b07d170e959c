"""A program that inserts and drains until it is killed; started by the tests, never imported by them.

    worker.py DIRECTORY MODE

It gets ready, reads from standard input the number of the batch to begin with, and only then opens
the directory, so that the next worker can be started while one is still at it. It says on standard
output, a line each, what it has done: `open`, `ack <batch>` once `insert` has returned,
`epoch <number>` once `drain` has. With `PYSPARK_GATEWAY_PORT` and `PYSPARK_GATEWAY_SECRET` it uses
the JVM of the test instead of starting one: a kill takes the process that holds the log and the
store, and the next one is there at once.

Modes: `loop` goes on for ever; `once` does one batch and ends; `hold` opens the directory and waits;
`before-commit` and `in-commit` do a batch and stop just before, or in the middle of, the store's
transaction.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

START = datetime(2024, 3, 1)
BATCH_ROWS = 40

STATEMENTS = """
CREATE STREAM IF NOT EXISTS s (id BIGINT, k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)
WITH (partitions = 3, key = 'k');
CREATE MATERIALIZED VIEW IF NOT EXISTS ids AS SELECT id, k FROM s;
CREATE MATERIALIZED VIEW IF NOT EXISTS per_key AS
SELECT k, count(*) AS n, sum(v) AS sv, count(DISTINCT id) AS ids FROM s GROUP BY k;
CREATE MATERIALIZED VIEW IF NOT EXISTS per_window AS
SELECT window_start, k, count(*) AS n, sum(v) AS sv FROM TUMBLE(s, ts, INTERVAL 10 SECONDS)
GROUP BY window_start, k EMIT ON EPOCH RETRACTING;
CREATE MATERIALIZED VIEW IF NOT EXISTS complete AS
SELECT window_start, count(*) AS n, sum(v) AS sv FROM HOP(s, ts, INTERVAL 5 SECONDS, INTERVAL 10 SECONDS)
GROUP BY window_start EMIT ON WATERMARK;
"""


def rows_of(batch: int) -> list[dict[str, object]]:
    """Batch n is always the same rows, in event-time order within the slack."""
    numbers = range(batch * BATCH_ROWS, (batch + 1) * BATCH_ROWS)
    return [
        {
            "id": number,
            "k": f"key-{number % 7}",
            "v": number % 101 - 50,
            "ts": START + timedelta(milliseconds=100 * number - 37 * (number % 11)),
        }
        for number in numbers
    ]


def message_ids(batch: int) -> list[str]:
    return [f"row-{row['id']}" for row in rows_of(batch)]


def share_jvm() -> None:
    """Use the Spark of the process that started this one."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    launch: Any = launch_gateway
    gateway = launch()
    context = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    java = gateway.jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(context)
    conf = SparkConf(loadDefaults=False, _jconf=context.conf())
    SparkSession(SparkContext(gateway=gateway, jsc=java, conf=conf))


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def pause_in(owner: object, method: str) -> None:
    """Stop, and say so, where a method or a function is called."""
    assert hasattr(owner, method), f"{owner} has no {method}"

    def stop(*_: object, **__: object) -> None:
        say("held")
        time.sleep(600)

    setattr(owner, method, stop)


def main(directory: Path, mode: str) -> None:
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        share_jvm()
    import millstream as ms
    from millstream.store.duckdb import commits

    batch = int(sys.stdin.readline())
    db = ms.connect(directory)
    say("open")
    if mode == "hold":
        time.sleep(600)
    db.sql(STATEMENTS)
    if mode == "before-commit":
        pause_in(commits.Commits, "commit")
    if mode == "in-commit":
        pause_in(commits, "_record")
    while True:
        db.insert("s", rows_of(batch), message_ids=message_ids(batch))
        say("ack", batch)
        batch += 1
        if batch % 3:
            say("epoch", db.drain())
        if mode == "once":
            db.close()
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
