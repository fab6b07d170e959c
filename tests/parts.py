"""The parts behind a database, for tests of what no client sees. A program has nothing but `millstream.api`."""

from __future__ import annotations

import millstream as ms
from millstream.spark.compute import SparkCompute
from millstream.store.duckdb.store import DuckDBStore


def store_of(db: ms.Database) -> DuckDBStore:
    store = db._parts.store
    assert isinstance(store, DuckDBStore)
    return store


def spark_of(db: ms.Database) -> SparkCompute:
    compute = db._parts.compute
    assert isinstance(compute, SparkCompute)
    return compute
