"""Unit tests start no JVM: one that tries to fails."""

from __future__ import annotations

from typing import NoReturn

import pytest


@pytest.fixture(autouse=True)
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark may be imported, and may even run for other tests of the process; it is not started or joined here."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a unit test must not use Spark")

    monkeypatch.setattr("millstream.spark.sessions.start_spark", refuse)
    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", refuse)
    monkeypatch.setattr("pyspark.core.context.launch_gateway", refuse)
