"""Structured Streaming: so many standing queries over the same files, one streaming query each, all at the same time.

One file per micro-batch, update mode, no-op sink, default settings. Measured from the first `start()` to the end of
the last query, in a JVM that has run some of them over another input. Of every query the rows it read are counted.
"""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.job import SLACK_SECONDS, Answer, Job, main
from bench.peers.native import SCHEMA, session
from bench.standing import Standing, standing


def execute(spark: SparkSession, path: str, views: tuple[Standing, ...], work: Path) -> list[StreamingQuery]:
    """Run all queries at once until all files are read."""
    files = spark.readStream.format("parquet").schema(SCHEMA).option("maxFilesPerTrigger", 1).load(path)
    files.withWatermark("ts", f"{SLACK_SECONDS} seconds").createOrReplaceTempView("bids")
    queries = []
    for view in views:
        writer = spark.sql(view.spark_sql()).writeStream.outputMode("update").format("noop").trigger(availableNow=True)
        queries.append(writer.option("checkpointLocation", str(work / view.name)).start())
    for query in queries:
        query.awaitTermination()
    return queries


def run(job: Job) -> Answer:
    work, views = Path(job.work), standing(job.rows)
    spark = session(job.settings, work)
    expected = spark.read.parquet(job.path).count()
    execute(spark, job.warm_up_path, views[:10], work / "warm")
    began, started_at = time.perf_counter(), time.time()
    queries = execute(spark, job.path, views, work / "data")
    seconds, ended_at = time.perf_counter() - began, time.time()
    read = [sum(progress["numInputRows"] for progress in query.recentProgress) for query in queries]
    wrong = [view.name for view, rows in zip(views, read, strict=True) if rows != expected]
    spark.stop()
    return Answer(started_at, ended_at, seconds, notes={"wrong": wrong})


if __name__ == "__main__":
    main(run)
