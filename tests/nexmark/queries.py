"""The queries of `examples/nexmark`, and which of them must wait for the planner."""

from __future__ import annotations

from pathlib import Path

import pytest

import millstream as ms

# Refused by today's planner. Whoever teaches it takes the name out: until then these are strict
# expected failures, of a refusal of the view and nothing else.
PENDING: set[str] = set()

EXAMPLES = Path(__file__).parents[2] / "examples" / "nexmark"
QUERIES = [f"q{number}" for number in range(23) if number not in (10, 13)]


class RefusedError(Exception):
    """The planner does not know how to keep this view yet."""


def create(db: ms.Database, *queries: str) -> None:
    """Make the streams and the views of some queries, as far as they are not there yet."""
    if "bid" not in {stream["name"] for stream in db.status()["streams"]}:
        db.sql((EXAMPLES / "streams.sql").read_text("utf-8"), source="streams.sql")
    for query in queries:
        if query in {view["name"] for view in db.status()["views"]}:
            continue
        try:
            db.sql((EXAMPLES / f"{query}.sql").read_text("utf-8"), source=f"{query}.sql")
        except ms.MillstreamError as error:
            if error.code in ("NOT_SUPPORTED", "BAD_WINDOW", "NO_SOURCE"):
                raise RefusedError(str(error)) from error
            raise


def marked(queries: list[str]) -> list[object]:
    """The queries as parameters of a test; those that must wait are expected to be refused."""
    refused = pytest.mark.xfail(raises=RefusedError, strict=True, reason="the planner refuses it so far")
    return [pytest.param(query, marks=[refused] if query in PENDING else []) for query in queries]
