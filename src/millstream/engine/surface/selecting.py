"""Running a SELECT over views and tables, in the store.

Owns the way from a checked query to the store's SQL. What always holds: a query sees one committed epoch, and reaches
nothing but what a reader may see.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from millstream.duck import store_sql, with_truths
from millstream.engine.define.catalog import StreamEntry
from millstream.engine.run.parts import Parts
from millstream.engine.surface.as_of import read_as_of
from millstream.model.errors import MillstreamError, did_you_mean
from millstream.sql import check_query, position_of


@dataclass(frozen=True, slots=True)
class Selecting:
    parts: Parts

    def select(self, query: exp.Query, text: str, source: str) -> tuple[pa.Table, int]:
        """The rows of a query, and the last epoch that they reflect."""
        checked = self._checked(query, text, source)
        try:
            return self.parts.store.read(store_sql(checked))
        except MillstreamError as error:
            raise _located(error, checked, text, source) from None

    def describe(self, query: exp.Query, text: str, source: str) -> None:
        """Refuse a query that cannot run, without running it."""
        checked = self._checked(query, text, source)
        try:
            self.parts.store.read(f"DESCRIBE {store_sql(checked)}")
        except MillstreamError as error:
            raise _located(error, checked, text, source) from None

    def _checked(self, query: exp.Query, text: str, source: str) -> exp.Expr:
        """The query over the names of the store."""
        functions, catalog = self.parts.functions, self.parts.catalog
        check_query(query, text=text, source=source, continuous=False, udfs=functions.names())
        readable = catalog.readable()
        query = functions.bind(query.copy(), text, source)
        defined = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
        for table in query.find_all(exp.Table):
            name = table.name.lower()
            if name in readable:
                table.set("this", exp.to_identifier(readable[name], quoted=True))
            elif name not in defined and table.name:
                known = isinstance(catalog.find(table.name), StreamEntry)
                raise MillstreamError(
                    "STREAM_NOT_READABLE" if known else "UNKNOWN_RELATION",
                    f"{table.name} is a stream: its rows pass by and are not kept"
                    if known
                    else f"there is no view or table {table.name!r}",
                    hint="create a view over it and read that" if known else did_you_mean(table.name, readable),
                    position=position_of(table, text, source),
                )
        read_as_of(query, catalog, text, source)
        return with_truths(query)


def _located(error: MillstreamError, query: exp.Expr, text: str, source: str) -> MillstreamError:
    """The store's complaint about a column, pointing at it in the user's text."""
    missing = re.search(r'column "([^"]+)" not found', error.message, re.IGNORECASE)
    if missing is None:
        return error
    name = missing.group(1)
    node = next((c for c in query.find_all(exp.Column) if c.name.lower() == name.lower()), None)
    return MillstreamError(
        "UNKNOWN_COLUMN",
        f"there is no column {name!r} here",
        hint="see DESCRIBE for the columns of a view",
        position=position_of(node, text, source) if node is not None else None,
    )
