"""The parts behind a database, for tests of what no client sees. A program has nothing but `millstream.api`."""

from __future__ import annotations

import millstream as ms
from millstream.engine.run.parts import Parts
from millstream.spark.compute import SparkCompute
from millstream.store.duckdb.store import DuckDBStore


def parts_of(db: ms.Database) -> Parts:
    return db._parts


def store_of(db: ms.Database) -> DuckDBStore:
    store = parts_of(db).store
    assert isinstance(store, DuckDBStore)
    return store


def spark_of(db: ms.Database) -> SparkCompute:
    compute = parts_of(db).compute
    assert isinstance(compute, SparkCompute)
    return compute
