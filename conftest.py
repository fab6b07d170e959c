"""What the doctests share: `ms` is Millstream, and one that speaks of `db` has a database with a stream of bids."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import millstream


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _speaks_of_a_database(item):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(autouse=True)
def _database_of_a_doctest(
    request: pytest.FixtureRequest, doctest_namespace: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    if isinstance(request.node, pytest.DoctestItem):
        doctest_namespace["ms"] = millstream
    if not _speaks_of_a_database(request.node):
        yield
        return
    with _database(tmp_path_factory.mktemp("doctest")) as db:
        doctest_namespace["db"] = db
        yield
    del doctest_namespace["db"]


def _speaks_of_a_database(item: pytest.Item) -> bool:
    examples = item.dtest.examples if isinstance(item, pytest.DoctestItem) and item.dtest is not None else ()
    return any("db." in example.source and "+SKIP" not in example.source for example in examples)


def _database(path: Path) -> Any:
    db = millstream.connect(path / "data")
    db.sql("CREATE STREAM bids (auction BIGINT, price BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts)")
    db.insert("bids", [{"auction": 1, "price": 100, "ts": 0}, {"auction": 2, "price": 250, "ts": 30}])
    return db
