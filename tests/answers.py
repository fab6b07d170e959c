"""Short ways to say, in typed tests, what is put in and what comes out."""

from __future__ import annotations

from typing import Any

from millstream.api import Connection, Result


def rows_of(db: Connection, text: str) -> list[dict[str, Any]]:
    """The rows of a statement that has rows."""
    result = db.sql(text)
    assert isinstance(result, Result)
    return result.rows()


def untyped(value: object) -> Any:
    """A value as it comes from a program whose types nobody checks."""
    return value
