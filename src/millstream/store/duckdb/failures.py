"""Views that stand still: which, why and since when; and which view an error in a commit belongs to.

Owns `ms.failures`, one row per view that failed or is blocked. What always holds: a row is written in the epoch that
goes on without the view, and removed with the view or in the epoch that swaps a rebuilt one in. Errors of the store as
a whole (`UnavailableError`) belong to no view.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Self

import duckdb

from millstream.model.errors import MillstreamError, own_fault
from millstream.store.commands import Failure
from millstream.store.duckdb.connection import store_error
from millstream.store.protocol import ViewFailedError

FAILURES = """
CREATE TABLE IF NOT EXISTS ms.failures (view VARCHAR, state VARCHAR, code VARCHAR, message VARCHAR, detail VARCHAR,
    epoch BIGINT, offsets VARCHAR, failed_at BIGINT);
"""
_COLUMNS = tuple(field.name for field in fields(Failure))


class SharedFailedError(MillstreamError):
    """Views that are merged by one statement cannot be: one of them is at fault, or their being together."""

    def __init__(self, views: Iterable[str], error: MillstreamError) -> None:
        super().__init__(error.code, error.message, detail=error.detail)
        self.views = tuple(views)


def load_failures(connection: duckdb.DuckDBPyConnection) -> dict[str, Failure]:
    rows = connection.execute(f"SELECT view, {', '.join(_COLUMNS)} FROM ms.failures").fetchall()
    return {view: _failure(values) for view, *values in rows}


def _failure(values: Iterable[object]) -> Failure:
    known: dict[str, object] = dict(zip(_COLUMNS, values, strict=True))
    offsets = json.loads(str(known["offsets"]))
    known["offsets"] = {stream: {int(p): offset for p, offset in by.items()} for stream, by in offsets.items()}
    return Failure(**known)  # type: ignore[arg-type]


def save_failures(connection: duckdb.DuckDBPyConnection, failed: Mapping[str, Failure]) -> None:
    forget_failures(connection, failed)
    for view, failure in failed.items():
        values = [getattr(failure, column) for column in _COLUMNS]
        values[_COLUMNS.index("offsets")] = json.dumps(failure.offsets)
        connection.execute(f"INSERT INTO ms.failures VALUES (?{', ?' * len(_COLUMNS)})", [view, *values])


def forget_failures(connection: duckdb.DuckDBPyConnection, views: Iterable[str]) -> None:
    for view in views:
        connection.execute("DELETE FROM ms.failures WHERE view = ?", [view])


class Blame:
    """Who is at fault if something fails in the block: the views that were named last, unless it is the store itself.

    Names are noted rather than blocks nested: an epoch may have a thousand views.
    """

    __slots__ = ("views",)

    def __init__(self) -> None:
        self.views: Sequence[str] = ()

    def on(self, *views: str) -> None:
        """From here on these are worked on; of several, one is at fault or their being together."""
        self.views = views

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not self.views or not isinstance(error, Exception):
            return
        fault = own_fault(store_error(error) if isinstance(error, duckdb.Error) else error)
        if fault is None:
            return
        if len(self.views) > 1:
            raise SharedFailedError(self.views, fault) from error
        raise ViewFailedError(self.views[0], fault) from error
