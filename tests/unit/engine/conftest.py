"""Databases without a JVM: the kernel computes deltas in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import millstream as ms
from millstream.engine.surface.database import Database
from tests.inprocess_compute import InProcessCompute

Open = Callable[..., Database]


@pytest.fixture
def clock() -> ms.ManualClock:
    return ms.ManualClock(0)


@pytest.fixture
def compute() -> InProcessCompute:
    """What the database of `db` computes with."""
    return InProcessCompute()


@pytest.fixture
def open_database(tmp_path: Path, clock: ms.ManualClock) -> Iterator[Open]:
    """A factory of databases; the same name is the same directory. Each must be closed before it is opened again."""
    opened: list[Database] = []

    def open_one(name: str = "db", compute: InProcessCompute | None = None, **settings: Any) -> Database:
        made = compute if compute is not None else InProcessCompute()
        # Not validated: epochs of a test may be smaller than a user may ask for.
        given = ms.EngineSettings(eager_spark=False).model_copy(update=settings)
        opened.append(Database(tmp_path / name, lambda _: made, clock=clock, settings=given))
        return opened[-1]

    yield open_one
    for database in reversed(opened):
        database.close()


@pytest.fixture
def db(open_database: Open, compute: InProcessCompute) -> Database:
    return open_database(compute=compute)
