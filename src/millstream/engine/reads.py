"""Spark's side of epochs, run one step ahead of the commits.

While an epoch is judged and committed, Spark already computes the deltas of the next one, if its
rows are there: where a slice begins does not depend on how the one before it ends up. What is
computed ahead is used only if nothing has changed since (offsets, views); otherwise it is dropped,
which costs time and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from millstream.engine.catalog import StreamEntry
from millstream.plan.nodes import View
from millstream.plan.slices import BatchSlice
from millstream.sources import Cut, Offsets
from millstream.sources.options import DAY
from millstream.spark.epoch import OpenEpoch, StreamStats, ViewDelta
from millstream.spark.relation import Decoder


@dataclass(frozen=True, slots=True)
class Job:
    """A cut of a stream to be read for some views."""

    entry: StreamEntry
    start: Offsets
    cut: Cut
    plans: tuple[View, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """What Spark has made of a job. Open until it is committed: late and dead rows may be asked for."""

    job: Job
    opened: OpenEpoch
    stats: StreamStats
    deltas: dict[str, ViewDelta]
    table_rows: pa.Table | None
    seconds: float


class Reader:
    """Reads jobs, at most one set of them ahead."""

    def __init__(self, spark: Callable[[], SparkSession]) -> None:
        self._spark = spark
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="millstream-read-ahead")
        self._ahead: tuple[tuple[Job, ...], Future[list[Read]]] | None = None
        self._generation = 0

    def ahead(self, is_current: Callable[[Job], bool]) -> tuple[Job, ...] | None:
        """The jobs that are being read ahead, if they are still the right ones."""
        if self._ahead is None:
            return None
        jobs, _ = self._ahead
        if all(is_current(job) for job in jobs):
            return jobs
        self.discard()
        return None

    def read(self, jobs: Sequence[Job]) -> list[Read]:
        """The results of jobs, computed now or already ahead."""
        if self._ahead is not None and self._ahead[0] is jobs:
            (_, future), self._ahead = self._ahead, None
            return future.result()
        return self._read_all(jobs)

    def go_ahead(self, jobs: tuple[Job, ...]) -> None:
        """Begin to read jobs while the caller goes on."""
        self._ahead = (jobs, self._pool.submit(self._read_all, jobs))

    def discard(self) -> None:
        """Drop what was read ahead."""
        if self._ahead is None:
            return
        (_, future), self._ahead = self._ahead, None
        if not future.cancel() and future.exception() is None:
            for read in future.result():
                read.opened.close()

    def close(self) -> None:
        self.discard()
        self._pool.shutdown()

    def _read_all(self, jobs: Sequence[Job]) -> list[Read]:
        # Two generations of temporary views: the rows of one epoch may be asked for while the next is read.
        self._generation ^= 1
        reads: list[Read] = []
        try:
            for job in jobs:
                reads.append(self._read(job))  # noqa: PERF401, a failure must find what is open already
        except BaseException:
            for read in reads:
                read.opened.close()
            raise
        return reads

    def _read(self, job: Job) -> Read:
        entry, slice_ = job.entry, job.cut.slice
        started = time.perf_counter()
        spark = slice_.frame.sparkSession if isinstance(slice_, BatchSlice) else self._spark()
        max_ahead = entry.options.max_ahead if entry.options.max_ahead is not None else DAY
        partitions = entry.source.partitions if entry.source is not None else 1
        decoder = Decoder(entry.stream, max_ahead, self._generation)
        opened = OpenEpoch(spark, decoder, slice_, job.plans, partitions)
        try:
            table_rows: pa.Table | None = None
            deltas: dict[str, ViewDelta] = {}
            if entry.is_table:
                stats, table_rows = opened.run_table()
            else:
                stats, deltas = opened.run()
        except BaseException:
            opened.close()
            raise
        return Read(job, opened, stats, deltas, table_rows, time.perf_counter() - started)
