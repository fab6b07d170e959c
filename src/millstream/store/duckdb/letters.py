"""Rows that were set aside: `<stream>__late` and `<stream>__dead`, readable like tables."""

from __future__ import annotations

from collections.abc import Iterable

import duckdb
import pyarrow as pa

from millstream.duck import quote
from millstream.model.schema import store_type
from millstream.plan.nodes import Stream
from millstream.store.duckdb.moment import Moment
from millstream.store.duckdb.naming import internal, literal, public

_ROWS = "__letters"
# A row that was late for a hidden part was late for its view.
_OF_VIEW = r"regexp_replace(__view, '\$[0-9]+$', '')"


def create_letters(connection: duckdb.DuckDBPyConnection, stream: Stream) -> None:
    own = ", ".join(f"{quote(c.name)} {store_type(c.type)}" for c in stream.schema.columns)
    for kind, extra in (("late", ""), ("dead", "__reason VARCHAR, __raw VARCHAR, ")):
        table = internal(stream.name, kind)
        connection.execute(
            f"CREATE TABLE {table} (__epoch BIGINT, __at BIGINT, __view VARCHAR, __p INTEGER, __o BIGINT, {extra}{own})"
        )
        reason = "__reason AS reason, __raw AS raw, " if kind == "dead" else ""
        columns = ", ".join(quote(name) for name in stream.schema.names())
        connection.execute(
            f"CREATE VIEW {public(f'{stream.name}__{kind}')} AS SELECT __epoch AS _epoch, {_OF_VIEW} AS _view, "
            f"__p AS _partition, __o AS _offset, {reason}{columns} FROM {table}"
        )


def drop_letters(connection: duckdb.DuckDBPyConnection, stream: str) -> None:
    for kind in ("late", "dead"):
        connection.execute(f"DROP VIEW IF EXISTS {public(f'{stream}__{kind}')}")
        connection.execute(f"DROP TABLE IF EXISTS {internal(stream, kind)}")


def drop_letters_for(connection: duckdb.DuckDBPyConnection, streams: Iterable[str], views: Iterable[str]) -> None:
    """Drop the letters of some streams that are there because of some views."""
    listed = ", ".join(literal(view) for view in views) or "NULL"
    for stream in streams:
        for kind in ("late", "dead"):
            connection.execute(f"DELETE FROM {internal(stream, kind)} WHERE __view IN ({listed})")


def keep_late(connection: duckdb.DuckDBPyConnection, stream: Stream, view: str, at: Moment, rows: pa.Table) -> None:
    _keep(connection, stream, "late", view, at, "", rows)


def keep_dead(
    connection: duckdb.DuckDBPyConnection, stream: Stream, view: str | None, at: Moment, rows: pa.Table
) -> None:
    """Keep rows that could not be decoded or, for a view, computed."""
    _keep(connection, stream, "dead", view, at, "__reason, __raw, ", rows)


def _keep(
    connection: duckdb.DuckDBPyConnection,
    stream: Stream,
    kind: str,
    view: str | None,
    at: Moment,
    extra: str,
    rows: pa.Table,
) -> None:
    columns = ", ".join(quote(name) for name in stream.schema.names())
    of_view = "NULL" if view is None else literal(view)
    connection.register(_ROWS, rows)
    connection.execute(
        f"INSERT INTO {internal(stream.name, kind)} "
        f"SELECT {at.epoch}, {at.now}, {of_view}, __p, __o, {extra}{columns} FROM {_ROWS}"
    )
    connection.unregister(_ROWS)


def forget_letters(connection: duckdb.DuckDBPyConnection, stream: Stream, now: int, epoch: int) -> None:
    """Drop letters, up to those of an epoch, that are older than the stream keeps them."""
    if stream.letters_retain is not None:
        for kind in ("late", "dead"):
            old = f"__at <= {now - stream.letters_retain} AND __epoch <= {epoch}"
            connection.execute(f"DELETE FROM {internal(stream.name, kind)} WHERE {old}")
