"""Millstream: SQL views over streams, kept continuously correct, on Apache Spark.

>>> import millstream as ms
>>> db = ms.connect("./data")  # doctest: +SKIP

Names are loaded when they are first used: executors and `millstream --help` need little of this.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millstream.builder.aggregates import (
        Aggregate,
        aggregate,
        any_value,
        approx_count_distinct,
        avg,
        bool_and,
        bool_or,
        collect_list,
        collect_set,
        count,
        count_distinct,
        count_if,
        first,
        last,
        max,
        max_by,
        min,
        min_by,
        stddev,
        sum,
    )
    from millstream.builder.expressions import Expression, Ordering, asc, col, desc, expr, lit
    from millstream.builder.functions import call, case, fn
    from millstream.builder.origins import stream, table, view
    from millstream.builder.relations import Relation, View
    from millstream.builder.triggers import every, on_epoch, on_watermark
    from millstream.builder.windows import CountWindow, Hop, Session, Slide, Tumble
    from millstream.engine.surface.connect import connect
    from millstream.engine.surface.database import Database
    from millstream.engine.surface.result import Result
    from millstream.engine.surface.subscription import Subscription
    from millstream.model.errors import MillstreamError, MillstreamWarning
    from millstream.model.settings import EngineSettings, SparkSettings
    from millstream.model.time import ManualClock, SystemClock

__version__ = "0.1.0"

_HOMES = {
    "Aggregate": "millstream.builder.aggregates",
    "CountWindow": "millstream.builder.windows",
    "Database": "millstream.engine.surface.database",
    "EngineSettings": "millstream.model.settings",
    "Expression": "millstream.builder.expressions",
    "Hop": "millstream.builder.windows",
    "ManualClock": "millstream.model.time",
    "MillstreamError": "millstream.model.errors",
    "MillstreamWarning": "millstream.model.errors",
    "Ordering": "millstream.builder.expressions",
    "Relation": "millstream.builder.relations",
    "Result": "millstream.engine.surface.result",
    "Session": "millstream.builder.windows",
    "Slide": "millstream.builder.windows",
    "SparkSettings": "millstream.model.settings",
    "Subscription": "millstream.engine.surface.subscription",
    "SystemClock": "millstream.model.time",
    "Tumble": "millstream.builder.windows",
    "View": "millstream.builder.relations",
    "aggregate": "millstream.builder.aggregates",
    "any_value": "millstream.builder.aggregates",
    "approx_count_distinct": "millstream.builder.aggregates",
    "asc": "millstream.builder.expressions",
    "avg": "millstream.builder.aggregates",
    "bool_and": "millstream.builder.aggregates",
    "bool_or": "millstream.builder.aggregates",
    "call": "millstream.builder.functions",
    "case": "millstream.builder.functions",
    "col": "millstream.builder.expressions",
    "collect_list": "millstream.builder.aggregates",
    "collect_set": "millstream.builder.aggregates",
    "connect": "millstream.engine.surface.connect",
    "count": "millstream.builder.aggregates",
    "count_distinct": "millstream.builder.aggregates",
    "count_if": "millstream.builder.aggregates",
    "desc": "millstream.builder.expressions",
    "every": "millstream.builder.triggers",
    "expr": "millstream.builder.expressions",
    "first": "millstream.builder.aggregates",
    "fn": "millstream.builder.functions",
    "last": "millstream.builder.aggregates",
    "lit": "millstream.builder.expressions",
    "max": "millstream.builder.aggregates",
    "max_by": "millstream.builder.aggregates",
    "min": "millstream.builder.aggregates",
    "min_by": "millstream.builder.aggregates",
    "on_epoch": "millstream.builder.triggers",
    "on_watermark": "millstream.builder.triggers",
    "stddev": "millstream.builder.aggregates",
    "stream": "millstream.builder.origins",
    "sum": "millstream.builder.aggregates",
    "table": "millstream.builder.origins",
    "view": "millstream.builder.origins",
}

__all__ = [
    "Aggregate",
    "CountWindow",
    "Database",
    "EngineSettings",
    "Expression",
    "Hop",
    "ManualClock",
    "MillstreamError",
    "MillstreamWarning",
    "Ordering",
    "Relation",
    "Result",
    "Session",
    "Slide",
    "SparkSettings",
    "Subscription",
    "SystemClock",
    "Tumble",
    "View",
    "aggregate",
    "any_value",
    "approx_count_distinct",
    "asc",
    "avg",
    "bool_and",
    "bool_or",
    "call",
    "case",
    "col",
    "collect_list",
    "collect_set",
    "connect",
    "count",
    "count_distinct",
    "count_if",
    "desc",
    "every",
    "expr",
    "first",
    "fn",
    "last",
    "lit",
    "max",
    "max_by",
    "min",
    "min_by",
    "on_epoch",
    "on_watermark",
    "stddev",
    "stream",
    "sum",
    "table",
    "view",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'millstream' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
