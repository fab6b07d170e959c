"""`source = 'spark'`: any `readStream` format, through Structured Streaming.

Spark plans and reads the micro-batches; each is handed over as an epoch. Spark's checkpoint only
makes a batch repeatable; whether it has been processed is known by the store alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from millstream.model.errors import LostPartError, MillstreamError
from millstream.model.schema import Schema, spark_type
from millstream.plan.compute import Deliver
from millstream.plan.slices import BatchSlice
from millstream.spark.errors import reported, spark_error

# Formats that bring a schema of their own and refuse to be given one.
_SELF_DESCRIBING = frozenset({"rate", "rate-micro-batch", "socket", "kafka", "delta"})


class StreamingSource:
    """One streaming query over one format."""

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        format_: str,
        path: str | None,
        options: Mapping[str, str],
        schema: Schema,
        checkpoint: Path,
    ) -> None:
        self._spark = spark
        self._format = format_
        self._path = path
        self._options = dict(options)
        self._schema = schema
        self._checkpoint = checkpoint
        self._query: StreamingQuery | None = None
        self._failure: BaseException | None = None
        self._deliver: Deliver | None = None

    def run_available(self, deliver: Deliver) -> None:
        """Deliver what is there now, then stop."""
        self._start(deliver, available_now=True)
        self._wait()

    def start(self, deliver: Deliver) -> None:
        """Deliver batches until `stop`."""
        self._start(deliver, available_now=False)

    def stop(self) -> None:
        query, self._query = self._query, None
        if query is not None:
            # A Spark that is gone has no queries.
            with suppress(LostPartError), reported("SPARK_SOURCE_FAILED"):
                query.stop()
        self._deliver = None

    def failure(self) -> MillstreamError | None:
        """Why a running query has ended, if it has."""
        if isinstance(self._failure, MillstreamError):
            return self._failure
        query = self._query
        if query is None:
            return None
        try:
            with reported():
                error = query.exception()
                if error is None and not query.isActive:
                    return MillstreamError("SPARK_SOURCE_FAILED", "the streaming query has ended")
        except MillstreamError as lost:
            return lost
        return spark_error(error, "SPARK_SOURCE_FAILED") if error is not None else None

    def _start(self, deliver: Deliver, available_now: bool) -> None:
        self._failure = None
        # The JVM keeps the callback for good; what it leads to must not be kept with it.
        self._deliver = deliver

        def hand_over(frame: DataFrame, batch_id: int) -> None:
            if self._deliver is None:
                return
            try:
                self._deliver(BatchSlice(frame, batch_id))
            except BaseException as error:
                self._failure = error
                raise

        with reported("SPARK_SOURCE_FAILED"):
            writer = self._open(self._spark()).writeStream.foreachBatch(hand_over)
            writer = writer.option("checkpointLocation", str(self._checkpoint))
            if available_now:
                writer = writer.trigger(availableNow=True)
            self._query = writer.start()

    def _open(self, spark: SparkSession) -> DataFrame:
        reader = spark.readStream.format(self._format).options(**self._options)
        if self._format not in _SELF_DESCRIBING:
            columns = ", ".join(f"`{c.name}` {spark_type(c.type)}" for c in self._schema.columns)
            reader = reader.schema(columns)
        return reader.load(self._path) if self._path else reader.load()

    def _wait(self) -> None:
        assert self._query is not None
        try:
            with reported("SPARK_SOURCE_FAILED"):
                self._query.awaitTermination()
        except MillstreamError:
            if isinstance(self._failure, MillstreamError):
                raise self._failure from None
            raise
        finally:
            self._query = None
            self._deliver = None
