"""What the connection that writes knows from one epoch to the next.

Small epochs are the same statements again and again, and DuckDB takes as long to parse one and to make a relation of
a delta as to merge it. So statements are parsed once, with the moment as their parameters, and each view has a
relation of its own whose rows are the delta of the moment. What always holds: all of this can be had again. It
may be forgotten at any time, and it is when a transaction fails, which takes new relations back, or a table goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from millstream.kernel.connection import ChangingRows
from millstream.sql import quote
from millstream.store.moment import Moment
from millstream.store.sizes import Sizes


class Writing:
    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._handed: dict[str, ChangingRows] = {}
        self._parsed: dict[str, dict[str, duckdb.Statement]] = {}
        self.sizes = Sizes()

    @contextmanager
    def handed(self, name: str, delta: pa.Table) -> Iterator[str]:
        """Rows that a view, or what else has this name, gains, as a relation."""
        rows = self._handed.get(name)
        if rows is None or rows.schema != delta.schema:
            rows = self._handed[name] = ChangingRows(delta.schema)
            self._connection.register(_relation(name), rows)
        with rows.being(delta):
            yield quote(_relation(name))

    def execute(self, name: str, sql: str, at: Moment) -> None:
        """Run a statement of a view, in which the `NAMED` moment stands for `at`."""
        parsed = self._parsed.setdefault(name, {})
        if sql not in parsed:
            (parsed[sql],) = self._connection.extract_statements(sql)
        statement = parsed[sql]
        values = {parameter: getattr(at, parameter) for parameter in statement.named_parameters}
        self._connection.execute(statement, values)

    def forget(self, *names: str) -> None:
        """Forget what is known by some names, or everything."""
        for name in names or tuple(self._handed):
            if self._handed.pop(name, None) is not None:
                self._connection.unregister(_relation(name))
        for name in names or tuple(self._parsed):
            self._parsed.pop(name, None)
        self.sizes.forget()


def _relation(name: str) -> str:
    return f"__delta of {name}"
