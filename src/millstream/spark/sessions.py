"""The Spark sessions of a database: one for live epochs and one for history that is read meanwhile.

Owns when Spark starts and when sessions are made: when they are first needed, unless Spark was told
to begin before; and made again when Spark is gone. A session that is handed out knows the users' functions. Must
not stop Spark, which other databases of the process share.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from millstream.model.settings import SparkSettings
from millstream.model.user_functions import UserFunction
from millstream.spark.errors import reported
from millstream.spark.functions import register_functions
from millstream.spark.session import is_up, new_session, start_spark


class Sessions:
    def __init__(self, settings: SparkSettings, log_dir: Path) -> None:
        self._settings = settings
        self._log_dir = log_dir
        self._lock = threading.Lock()
        self._spark: Future[SparkSession] | None = None
        self._live: SparkSession | None = None
        self._beside: SparkSession | None = None
        self._functions: tuple[UserFunction, ...] = ()

    def begin(self) -> Future[SparkSession]:
        """Have Spark start while the caller goes on; again, if it is gone."""
        with self._lock:
            return self._begin()

    def live(self) -> SparkSession:
        with self._lock:
            running = self._begin()
            if self._live is None:
                self._live = _made(running, self._settings)
            live = self._live
        return self.prepared(live)

    def beside(self) -> SparkSession:
        """A session whose jobs leave a core to those of live epochs."""
        with self._lock:
            running = self._begin()
            if self._beside is None:
                self._beside = _made(running, self._settings, leaves_a_core=True)
            beside = self._beside
        return self.prepared(beside)

    def _begin(self) -> Future[SparkSession]:
        if self._spark is None or not is_up(self._spark):
            # Sessions end with the Spark that they are of.
            self._live = self._beside = None
            self._spark = start_spark(self._settings, self._log_dir)
        return self._spark

    def use_functions(self, functions: Sequence[UserFunction]) -> None:
        self._functions = tuple(functions)

    def prepared(self, spark: SparkSession) -> SparkSession:
        """A session to which the functions are known; they are registered if it knows others."""
        session: Any = spark
        functions = self._functions
        # The tuple itself: those of another database of the process may be as many.
        if getattr(session, "_millstream_functions", ()) is not functions:
            with reported():
                register_functions(spark, functions)
            session._millstream_functions = functions
        return spark


def _made(starting: Future[SparkSession], settings: SparkSettings, *, leaves_a_core: bool = False) -> SparkSession:
    with reported():
        running = starting.result()
        cores = max(1, running.sparkContext.defaultParallelism - 1) if leaves_a_core else None
        return new_session(running, settings, parallelism=cores)
