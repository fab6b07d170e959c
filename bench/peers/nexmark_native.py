"""Structured Streaming over the CSV files, one file of each stream per micro-batch, RocksDB state store, no-op sink.

Measured from `start()` to the end of the query, in a JVM that has run the same query over another
input. Rows are counted in an extra run that keeps what it writes.
"""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from bench.job import SLACK_SECONDS
from bench.nexmark.job import Question, RefusedError, Reply, Stopwatch, serve
from bench.nexmark.native_sql import QUERIES, REFUSED
from bench.nexmark.truth import Truth
from bench.peers.duckdb_once import connect
from bench.peers.native import session
from millstream.nexmark.files import KINDS

_TYPES = {"int64": "BIGINT", "string": "STRING", "timestamp[us]": "TIMESTAMP"}


def columns(kind: str) -> str:
    """Of the files of a kind, as Spark declares them."""
    return ", ".join(f"{field.name} {_TYPES[str(field.type)]}" for field in KINDS[kind])


def stream(spark: SparkSession, query: str, path: str) -> DataStreamWriter:
    """A query over the files, one of each kind per micro-batch, until all are read."""
    for kind in KINDS:
        reader = spark.readStream.format("csv").schema(columns(kind)).option("maxFilesPerTrigger", 1)
        files = reader.load(f"{path}/{kind}")
        files.withWatermark("date_time", f"{SLACK_SECONDS} seconds").createOrReplaceTempView(kind)
    chosen = QUERIES[query]
    return spark.sql(chosen.text).writeStream.outputMode(chosen.mode).trigger(availableNow=True)


def execute(writer: DataStreamWriter, checkpoint: Path) -> StreamingQuery:
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination()
    return query


def count(spark: SparkSession, question: Question, work: Path) -> tuple[int, int]:
    """How many rows the result has and should have: of windows, those that the watermark has passed."""

    def keep(rows: DataFrame, batch: int) -> None:
        rows.withColumn("batch", functions.lit(batch)).write.parquet(str(work / "rows" / f"{batch:06d}"))

    ran = execute(stream(spark, question.query, question.path).foreachBatch(keep), work / "counted")
    chosen = QUERIES[question.query]
    counted = f"count(DISTINCT ({', '.join(chosen.keys)}))" if chosen.keys else "count(*)"
    found = connect().execute(f"SELECT {counted} FROM read_parquet('{work}/rows/*/*.parquet')").fetchone()
    assert found is not None
    progress = ran.lastProgress
    watermark = progress["eventTime"].get("watermark", "1970-01-01T00:00:00.000Z") if progress else ""
    instant = datetime.fromisoformat(watermark).strftime("TIMESTAMP '%Y-%m-%d %H:%M:%S.%f'")
    with Truth(Path(question.path)) as truth:
        return int(found[0]), truth.rows(question.query, chosen.complete.format(watermark=instant))


def answer(settings: str, question: Question) -> Reply:
    if question.query not in QUERIES:
        raise RefusedError(REFUSED.get(question.query, "not written for Structured Streaming"))
    work = Path(question.work)
    spark = session(settings, work)
    execute(stream(spark, question.query, question.warm_up_path).format("noop"), work / "warm")
    writer = stream(spark, question.query, question.path).format("noop")
    with Stopwatch() as watch:
        execute(writer, work / "checkpoint")
    # Nobody knows afterwards in which window of processing time a row came.
    verify = question.verify and question.query != "q12"
    rows, expected = count(spark, question, work) if verify else (None, None)
    return Reply(watch.started_at, watch.ended_at, watch.seconds, rows=rows, expected_rows=expected)


if __name__ == "__main__":
    serve(lambda question: answer(sys.argv[2], question))
