"""What tests of the store share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", params=["few", "many"])
def few_and_many(request: pytest.FixtureRequest) -> Iterator[None]:
    """Rows that are taken for few, whose steps are one statement, and for many, with one for each step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("millstream.store.duckdb.writing.MANY", 1_000 if request.param == "few" else 0)
        yield
