"""DuckDB with Spark's meaning: the settings and functions that the store and the kernels share.

What always holds: UTC, no file or network within reach of SQL, Python variables never found by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from millstream.duck.functions import create_scalar_functions

_SETTINGS = (
    "SET TimeZone = 'UTC'",
    "SET preserve_insertion_order = true",
    # DuckDB computes an expression that two TRY share once, outside of both, and then it fails.
    "SET disabled_optimizers = 'common_subexpressions'",
    "SET python_enable_replacements = false",
    "SET allow_community_extensions = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
)


def give_meaning(connection: duckdb.DuckDBPyConnection) -> None:
    """Make a connection compute as Spark does."""
    for setting in _SETTINGS:
        connection.execute(setting)
    create_scalar_functions(connection)


def lock_down(connection: duckdb.DuckDBPyConnection) -> None:
    """From here on SQL may come from a user."""
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def open_kernel(threads: int) -> duckdb.DuckDBPyConnection:
    """A connection to nothing but what is registered with it."""
    connection = duckdb.connect(":memory:", config={"threads": threads})
    # What does not fit is left to Spark, rather than written to a disk.
    connection.execute("SET memory_limit = '2GB'")
    connection.execute("SET temp_directory = ''")
    give_meaning(connection)
    # DuckDB rewrites v + 1 > 0 as v > -1, and sum(v + 1) as a sum and a count: then nothing overflows that should.
    connection.execute("SET disabled_optimizers = 'common_subexpressions,expression_rewriter'")
    lock_down(connection)
    return connection


class ChangingRows:
    """Rows that are others each time they are read. For DuckDB, one relation."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._table = self._none = schema.empty_table()

    @contextmanager
    def being(self, rows: pa.Table) -> Iterator[None]:
        """Some rows in a block, and none after it."""
        self._table = rows
        try:
            yield
        finally:
            self._table = self._none

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)
