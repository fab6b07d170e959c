"""The DuckDB file: opening it, its settings, its functions, and what a relation in it is like.

What always holds: external access is off and the configuration is locked before any user's SQL
can arrive; Python variables are never found by name.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from datasketches import hll_sketch, hll_union, tgt_hll_type

from millstream.duck.connection import give_meaning, lock_down
from millstream.duck.forms import FAILED, REFUSED
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.store.protocol import UnknownColumnError

_SKETCH_BITS = 12
_OF_THE_STORE = (
    duckdb.OperationalError,
    duckdb.FatalException,
    duckdb.InterruptException,
    duckdb.PermissionException,
)
"""Errors of disk, memory or the database as a whole, which no statement is to blame for."""
_FULL = ("No space left", "disk quota", "out of disk", "could not allocate disk")


def open_database(path: Path, memory: str) -> duckdb.DuckDBPyConnection:
    """Open or create the store's file, locked down."""
    is_new = not path.exists()
    try:
        connection = duckdb.connect(str(path))
    except duckdb.IOException as error:
        if is_new:
            # Half a file would be taken for a broken store the next time.
            path.unlink(missing_ok=True)
        if _is_full(error):
            raise store_error(error) from None
        raise MillstreamError(
            "STORE_UNAVAILABLE",
            "the store cannot be opened",
            detail=str(error).splitlines()[0],
            hint="is another process using this data directory?",
        ) from None
    connection.execute(f"SET memory_limit = '{memory}'")
    # A checkpoint rewrites whole row groups; with a small threshold it would happen all the time.
    connection.execute("SET checkpoint_threshold = '256MB'")
    # Trying this one triples the time of writing text, for files of half the size.
    connection.execute("SET disabled_compression_methods = 'dict_fsst'")
    # For the connection that writes, not for readers (`store/duckdb/writing.py`).
    connection.execute("SET SESSION late_materialization_max_rows = 0")
    give_meaning(connection)
    _create_functions(connection)
    lock_down(connection)
    return connection


def _is_full(error: duckdb.Error) -> bool:
    return any(sign.lower() in str(error).lower() for sign in _FULL)


def store_error(error: duckdb.Error) -> MillstreamError:
    """The store's error in our words."""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    text = re.sub(r"^(?:[A-Z]\w+ )+Error: ", "", text)
    if REFUSED in text:
        reason = text.split(REFUSED, 1)[1].removesuffix("!").removesuffix(" does not exist")
        return MillstreamError("ARGUMENT_NOT_ALLOWED", reason)
    missing = re.search(r"Function with name udf_(\w+) does not exist", text)
    if missing is not None:
        return UnavailableError(
            "FUNCTION_MISSING",
            f"function {missing.group(1)!r} is not there",
            hint="pass it with create_function, as before the restart",
        )
    failed = re.search(f"{FAILED[0]}(.*){FAILED[1]}", text)
    if failed is not None:
        return MillstreamError("EXPRESSION_FAILED", failed.group(1))
    unknown = re.search(r'column "([^"]+)" not found', text, re.IGNORECASE)
    if unknown is not None:
        return UnknownColumnError(unknown.group(1))
    if isinstance(error, duckdb.BinderException | duckdb.ConversionException | duckdb.OutOfRangeException):
        # Not of a keyword: ORDER.
        return MillstreamError("INVALID_QUERY", text[:1].lower() + text[1:] if text[1:2].islower() else text)
    if _is_full(error):
        return UnavailableError(
            "DISK_FULL",
            "the store could not write: the disk is full",
            detail=text,
            hint="free some space and start again; every committed epoch is safe",
        )
    kind = UnavailableError if isinstance(error, _OF_THE_STORE) else MillstreamError
    return kind("STORE_FAILED", text)


def _create_functions(connection: duckdb.DuckDBPyConnection) -> None:
    """Merging and reading of the HyperLogLog sketches that Spark builds."""
    options: dict[str, Any] = {"type": "arrow", "null_handling": "special", "exception_handling": "default"}
    connection.create_function("hll_union", _hll_union, ["BLOB[]"], "BLOB", **options)
    connection.create_function("hll_estimate", _hll_estimate, ["BLOB"], "BIGINT", **options)


def _hll_union(lists: pa.ChunkedArray) -> pa.Array:
    return pa.array([_union(sketches) for sketches in lists.to_pylist()], pa.binary())


def _union(sketches: list[bytes | None] | None) -> bytes | None:
    present = [sketch for sketch in sketches or () if sketch is not None]
    if len(present) <= 1:
        return present[0] if present else None
    union = hll_union(_SKETCH_BITS)
    for sketch in present:
        union.update(hll_sketch.deserialize(sketch))
    result: bytes = union.get_result(tgt_hll_type.HLL_8).serialize_compact()
    return result


def _hll_estimate(sketches: pa.ChunkedArray) -> pa.Array:
    return pa.array(
        [
            None if sketch is None else round(hll_sketch.deserialize(sketch).get_estimate())
            for sketch in sketches.to_pylist()
        ],
        pa.int64(),
    )


def tables_of(connection: duckdb.DuckDBPyConnection, name: str) -> dict[str, str]:
    """What a relation has in the schema `ms`, by what follows its name: `VIEW` or `TABLE`. Views come first: one may be
    over a table of the same relation."""
    found = connection.execute(
        "SELECT table_name, if(table_type = 'VIEW', 'VIEW', 'TABLE') AS kind FROM information_schema.tables "
        "WHERE table_schema = 'ms' AND starts_with(table_name, ?) ORDER BY kind DESC, table_name",
        [f"{name}."],
    ).fetchall()
    return {table.removeprefix(f"{name}."): kind for table, kind in found}


def count_rows(connection: duckdb.DuckDBPyConnection, relation: str) -> int:
    rows: list[tuple[int]] = connection.execute(f"SELECT count(*) FROM {relation}").fetchall()
    return rows[0][0]


def column_types(connection: duckdb.DuckDBPyConnection, relation: str) -> dict[str, str]:
    """The columns of a relation in their order, and their types."""
    described = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    return {name: type_ for name, type_, *_ in described}
