"""`ms.connect`: the one way in.

Owns which implementations a database consists of; the rest of the engine knows protocols.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from types import NoneType

from millstream.engine.surface.database import Database
from millstream.model.errors import MillstreamError
from millstream.model.settings import EngineSettings, SparkSettings
from millstream.model.time import Clock
from millstream.spark.compute import SparkCompute


def connect(
    path: str | os.PathLike[str] = "./data",
    *,
    clock: Clock | None = None,
    spark: SparkSettings | None = None,
    settings: EngineSettings | None = None,
    token: str | None = None,
) -> Database:
    """Open the database in a directory, creating it if it is not there.

    `clock` puts processing time under the caller's control (`ms.ManualClock`), `spark` says how
    Spark is started if this process has not started it yet.
    """
    _check("path", path, str, os.PathLike)
    _check("clock", clock, Clock, NoneType)
    _check("spark", spark, SparkSettings, NoneType)
    _check("settings", settings, EngineSettings, NoneType)
    text = os.fspath(path)
    if text.startswith(("http://", "https://")):
        raise MillstreamError("NOT_SUPPORTED", "connecting to a server is not supported yet", hint="pass a directory")
    if token is not None:
        raise MillstreamError("BAD_OPTION", "a token is for connecting to a server")
    spark = spark if spark is not None else SparkSettings()
    settings = settings if settings is not None else EngineSettings()
    open_compute = partial(SparkCompute, spark, settings.kernel)
    return Database(Path(text), open_compute, clock=clock, settings=settings)


def _check(name: str, value: object, *expected: type) -> None:
    if not isinstance(value, expected):
        raise MillstreamError("BAD_SETTING", f"{name} cannot be of type {type(value).__name__}")
