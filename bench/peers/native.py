"""PySpark Structured Streaming as its guide has it: `groupBy(window)` with a watermark, update mode, no-op sink.

Measured from `start()` to the end of the query, in a JVM that has run the same query over another
input. The result is checked in a second run that writes its updates to Parquet.
"""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from bench.digest import COLUMNS, digest
from bench.job import CORES, DRIVER_MEMORY, SLACK_SECONDS, Answer, Job, main
from bench.peers.duckdb_once import connect

SCHEMA = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, ts TIMESTAMP"

EVERYWHERE = {
    "spark.master": f"local[{CORES}]",
    "spark.driver.memory": DRIVER_MEMORY,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}

SETTINGS = {
    # What a careful user sets. The file system and checkpoint settings are those of Millstream's own session.
    "tuned": {
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
    },
    # The RocksDB state store and nothing else.
    "rocksdb": {
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    },
    # Spark's defaults, but for one shuffle partition per core.
    "default": {},
}


def session(settings: str, work: Path) -> SparkSession:
    builder = SparkSession.builder.appName("native")
    for key, value in {**EVERYWHERE, **SETTINGS[settings]}.items():
        builder = builder.config(key, value)
    return builder.config("spark.sql.warehouse.dir", str(work / "warehouse")).getOrCreate()


def aggregate(question: str, bids: DataFrame) -> DataFrame:
    """The question, of a stream or of a table."""
    if question == "hopping":
        window = functions.window("ts", "10 seconds", "2 seconds")
        grouped = bids.groupBy(window, "auction").agg(functions.count("*").alias("n"))
    else:
        window = functions.window("ts", "10 seconds")
        grouped = bids.groupBy(window, "auction").agg(
            functions.count("*").alias("n"), functions.sum("price").alias("total"), functions.max("price").alias("top")
        )
    start = functions.unix_micros("window.start").alias("window_start")
    return grouped.select(start, *(name for name in COLUMNS[question] if name != "window_start"))


def stream(spark: SparkSession, job: Job, path: str) -> DataStreamWriter:
    """One file of bids per micro-batch, until all are read."""
    files = spark.readStream.format(job.format).schema(SCHEMA).option("maxFilesPerTrigger", 1).load(path)
    watermarked = files.withWatermark("ts", f"{SLACK_SECONDS} seconds")
    return aggregate(job.question, watermarked).writeStream.outputMode("update").trigger(availableNow=True)


def execute(writer: DataStreamWriter, checkpoint: Path) -> StreamingQuery:
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination()
    return query


def verify(spark: SparkSession, job: Job, work: Path) -> dict[str, int]:
    """Run once more, keep every update, and take the last one of each group."""

    def keep(updates: DataFrame, batch: int) -> None:
        updates.withColumn("batch", functions.lit(batch)).write.parquet(str(work / "updates" / f"{batch:06d}"))

    execute(stream(spark, job, job.path).foreachBatch(keep), work / "verify")
    updates = f"read_parquet('{work}/updates/*/*.parquet')"
    newest_first = "row_number() OVER (PARTITION BY auction, window_start ORDER BY batch DESC)"
    last = f"SELECT * FROM {updates} QUALIFY {newest_first} = 1"
    return digest(connect(), job.question, f"({last})")


def run(job: Job) -> Answer:
    work = Path(job.work)
    spark = session(job.settings, work)
    if job.warm_up_path:
        execute(stream(spark, job, job.warm_up_path).format("noop"), work / "warm")
    writer = stream(spark, job, job.path).format("noop")
    began, started_at = time.perf_counter(), time.time()
    query = execute(writer, work / "checkpoint")
    seconds, ended_at = time.perf_counter() - began, time.time()
    triggers = [p["durationMs"]["triggerExecution"] for p in query.recentProgress if p["numInputRows"]]
    checked = verify(spark, job, work) if job.verify else None
    spark.stop()
    return Answer(started_at, ended_at, seconds, tuple(triggers[job.warm_up_epochs :]), checked)


if __name__ == "__main__":
    main(run)
