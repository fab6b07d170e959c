"""Millstream: SQL views over streams, kept continuously correct, on Apache Spark.

>>> import millstream as ms
>>> db = ms.connect("./data")  # doctest: +SKIP
"""

from millstream.connect import connect
from millstream.engine.database import Database
from millstream.engine.result import Result
from millstream.engine.subscription import Subscription
from millstream.model.errors import MillstreamError
from millstream.model.settings import EngineSettings, SparkSettings
from millstream.model.time import ManualClock, SystemClock

__version__ = "0.1.0"

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
