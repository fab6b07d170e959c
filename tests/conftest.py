"""What all tests share: databases in temporary directories, on one Spark session per run.

The first `ms.connect` of the process starts Spark and every later one joins it, so nothing here
starts or stops a session. A test that asks for `connect` is marked `spark` without saying so.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest


class Connect(Protocol):
    """Opens the database of a name; the same name is the same directory."""

    def __call__(self, name: str = "db", **arguments: Any) -> Any: ...


_WHEN_ASKED_FOR = ("large", "thorough")
"""Tests with these marks run only where `-m` names the mark."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "connect" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    left_out = [mark for mark in _WHEN_ASKED_FOR if mark not in config.option.markexpr]
    unasked = [item for item in items if any(item.get_closest_marker(mark) for mark in left_out)]
    if unasked:
        config.hook.pytest_deselected(items=unasked)
        items[:] = [item for item in items if item not in set(unasked)]


@pytest.fixture(autouse=True)
def _registered_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails whatever raises an error with a code that the registry lacks."""
    from millstream.model.error_codes import CODES
    from millstream.model.errors import MillstreamError

    made = MillstreamError.__init__

    def checked(self: MillstreamError, code: str, *arguments: Any, **options: Any) -> None:
        assert code in CODES, f"{code} is not in model/error_codes.py"
        made(self, code, *arguments, **options)

    monkeypatch.setattr(MillstreamError, "__init__", checked)


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    """A factory of databases under `tmp_path`; whatever is still open is closed after the test."""
    import millstream as ms

    opened: list[ms.Database] = []

    def open_database(name: str = "db", **arguments: Any) -> ms.Database:
        database = ms.connect(tmp_path / name, **arguments)
        opened.append(database)
        return database

    yield open_database
    for database in reversed(opened):
        database.close()
    _stop_streaming_queries()


def _stop_streaming_queries() -> None:
    """A query that a failing test left behind must not run into the next one."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    for query in session.streams.active if session is not None else ():
        query.stop()
