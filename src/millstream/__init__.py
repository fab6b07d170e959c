"""Millstream: SQL views over streams, kept continuously correct, on Apache Spark.

>>> import millstream as ms
>>> db = ms.connect("./data")  # doctest: +SKIP

Names are loaded when they are first used: executors and `millstream --help` need little of this.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millstream.engine.connect import connect
    from millstream.engine.database import Database
    from millstream.engine.result import Result
    from millstream.engine.subscription import Subscription
    from millstream.model.errors import MillstreamError
    from millstream.model.settings import EngineSettings, SparkSettings
    from millstream.model.time import ManualClock, SystemClock

__version__ = "0.1.0"

_HOMES = {
    "Database": "millstream.engine.database",
    "EngineSettings": "millstream.model.settings",
    "ManualClock": "millstream.model.time",
    "MillstreamError": "millstream.model.errors",
    "Result": "millstream.engine.result",
    "SparkSettings": "millstream.model.settings",
    "Subscription": "millstream.engine.subscription",
    "SystemClock": "millstream.model.time",
    "connect": "millstream.engine.connect",
}

__all__ = [
    "Database",
    "EngineSettings",
    "ManualClock",
    "MillstreamError",
    "Result",
    "SparkSettings",
    "Subscription",
    "SystemClock",
    "connect",
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
