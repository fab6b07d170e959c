"""One Spark batch job for each query over all CSV files, no-op sink: what Spark itself can do without streaming.

Measured from the listing of the files to the end of the job, in a JVM that has run the same query over
another input. The rows of an extra run are compared with the truth one by one.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from bench.nexmark.batch_sql import QUERIES
from bench.nexmark.job import Question, RefusedError, Reply, Stopwatch, serve
from bench.nexmark.truth import Truth
from bench.peers.native import session
from bench.peers.nexmark_native import columns
from millstream.nexmark.files import KINDS


def batch(spark: SparkSession, query: str, path: str) -> DataFrame:
    """A query over the files."""
    for kind in KINDS:
        spark.read.format("csv").schema(columns(kind)).load(f"{path}/{kind}").createOrReplaceTempView(kind)
    return spark.sql(QUERIES[query])


def execute(spark: SparkSession, query: str, path: str) -> Stopwatch:
    with Stopwatch() as watch:
        batch(spark, query, path).write.format("noop").mode("overwrite").save()
    return watch


def check(spark: SparkSession, question: Question, kept: Path) -> tuple[int, str | None]:
    """The number of rows, and how they differ from the truth."""
    batch(spark, question.query, question.path).write.parquet(str(kept))
    rows = without_zones(pq.read_table(kept))
    with Truth(Path(question.path)) as truth:
        return rows.num_rows, truth.difference(question.query, rows)


def without_zones(rows: pa.Table) -> pa.Table:
    """Instants as the truth has them: Spark's are of UTC, and say so."""
    zoned = (pa.types.is_timestamp(field.type) for field in rows.schema)
    fields = [
        field.with_type(pa.timestamp("us")) if instant else field
        for field, instant in zip(rows.schema, zoned, strict=True)
    ]
    return rows.cast(pa.schema(fields))


def answer(question: Question) -> Reply:
    if question.query not in QUERIES:
        raise RefusedError("not written for Spark")
    work = Path(question.work)
    spark = session("tuned", work)
    execute(spark, question.query, question.warm_up_path)
    watch = execute(spark, question.query, question.path)
    rows, difference = check(spark, question, work / "rows") if question.verify else (None, None)
    return Reply(watch.started_at, watch.ended_at, watch.seconds, rows=rows, difference=difference)


if __name__ == "__main__":
    serve(answer)
