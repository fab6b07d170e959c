"""Users' functions in the sessions of a database: registered once, and again when they change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from millstream.model.settings import SparkSettings
from millstream.model.user_functions import UserFunction
from millstream.spark.sessions import Sessions


class MadeUpSession:
    """Takes attributes, as Spark's does."""


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, list[str]]]:
    found: list[tuple[Any, list[str]]] = []
    monkeypatch.setattr(
        "millstream.spark.sessions.register_functions",
        lambda session, functions: found.append((session, [function.name for function in functions])),
    )
    return found


def function(name: str) -> UserFunction:
    return UserFunction(name, (pa.int64(),), pa.int64(), lambda values: values)


def test_a_session_learns_functions_when_it_is_used(registered: list[tuple[Any, list[str]]], tmp_path: Path) -> None:
    sessions = Sessions(SparkSettings(), tmp_path)
    first: Any = MadeUpSession()
    second: Any = MadeUpSession()
    sessions.prepared(first)
    assert registered == [], "there is none yet"
    sessions.use_functions([function("f")])
    assert registered == []
    assert sessions.prepared(first) is first
    sessions.prepared(first)
    sessions.prepared(second)
    assert registered == [(first, ["f"]), (second, ["f"])]
    sessions.use_functions([function("f"), function("g")])
    sessions.prepared(second)
    assert registered[2:] == [(second, ["f", "g"])]


def test_spark_is_not_started_before_it_is_needed(tmp_path: Path) -> None:
    """The fixture of all unit tests refuses a start."""
    sessions = Sessions(SparkSettings(), tmp_path)
    sessions.use_functions([function("f")])
    with pytest.raises(AssertionError):
        sessions.begin()
