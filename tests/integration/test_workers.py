"""Python workers: what they load before they are forked, so that no task pays for it."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.conftest import Connect

_FEW = 5_000
"""Far more objects than a task makes, and far fewer than a module of any size has."""


def test_workers_have_nothing_to_look_through_after_a_task(connect: Connect) -> None:
    # PySpark has workers collect garbage after every task. Whatever they import costs each later task some time.
    from pyspark import SparkContext

    database = connect()
    database.sql("CREATE STREAM s (k BIGINT, v STRING)")
    # One view for the kernel, and one that only Spark SQL can compute.
    database.sql("CREATE MATERIALIZED VIEW counted AS SELECT k, count(*) AS n FROM s GROUP BY k")
    database.sql("CREATE MATERIALIZED VIEW spelled AS SELECT k, regexp_extract_all(v, '([a-z])', 1) AS letters FROM s")
    database.insert("s", [{"k": 1, "v": "Bob"}])
    database.drain()
    assert database.query("SELECT letters FROM spelled").rows() == [{"letters": ["o", "b"]}]

    context = SparkContext.getOrCreate()
    cores = context.defaultParallelism
    counts = context.parallelize(range(cores), cores).mapPartitions(_count_objects).collect()
    assert all(unfrozen < _FEW < frozen for unfrozen, frozen in counts)


def _count_objects(rows: Iterable[int]) -> Iterator[tuple[int, int]]:
    list(rows)
    gc.collect()
    yield len(gc.get_objects()), gc.get_freeze_count()
