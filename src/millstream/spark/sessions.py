"""The Spark sessions of a database: one for live epochs and one for history that is read meanwhile.

Owns when Spark starts and when sessions are made: when they are first needed, unless Spark was told
to begin before. A session that is handed out knows the users' functions. Must not stop Spark, which
other databases of the process share.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from millstream.model.settings import SparkSettings
from millstream.model.user_functions import UserFunction
from millstream.spark.functions import register_functions
from millstream.spark.session import new_session, start_spark


class Sessions:
    def __init__(self, settings: SparkSettings, log_dir: Path) -> None:
        self._settings = settings
        self._log_dir = log_dir
        self._spark: Future[SparkSession] | None = None
        self._live: SparkSession | None = None
        self._beside: SparkSession | None = None
        self._functions: tuple[UserFunction, ...] = ()
        self._version = 0

    def begin(self) -> Future[SparkSession]:
        """Have Spark start while the caller goes on."""
        if self._spark is None:
            self._spark = start_spark(self._settings, self._log_dir)
        return self._spark

    def live(self) -> SparkSession:
        if self._live is None:
            self._live = new_session(self.begin().result(), self._settings)
        return self.prepared(self._live)

    def beside(self) -> SparkSession:
        """A session whose jobs leave a core to those of live epochs."""
        if self._beside is None:
            running = self.begin().result()
            cores = max(1, running.sparkContext.defaultParallelism - 1)
            self._beside = new_session(running, self._settings, parallelism=cores)
        return self.prepared(self._beside)

    def use_functions(self, functions: Sequence[UserFunction]) -> None:
        self._functions = tuple(functions)
        self._version += 1

    def prepared(self, spark: SparkSession) -> SparkSession:
        """A session to which the functions are known; they are registered if it knows others."""
        session: Any = spark
        version = self._version
        if getattr(session, "_millstream_functions", 0) != version:
            register_functions(spark, self._functions)
            session._millstream_functions = version
        return spark
