"""One Spark batch job over all files: what Spark itself can do without streaming and without state."""

from __future__ import annotations

import time
from pathlib import Path

from bench.job import Answer, Job, main
from bench.peers.native import SCHEMA, aggregate, session


def run(job: Job) -> Answer:
    spark = session("tuned", Path(job.work))

    def batch(path: str) -> None:
        bids = spark.read.format(job.format).schema(SCHEMA).load(path)
        aggregate(job.question, bids).write.format("noop").mode("overwrite").save()

    batch(job.warm_up_path)
    began, started_at = time.perf_counter(), time.time()
    batch(job.path)
    seconds, ended_at = time.perf_counter() - began, time.time()
    spark.stop()
    return Answer(started_at, ended_at, seconds)


if __name__ == "__main__":
    main(run)
