"""Running a SELECT over views and tables, in the store.

Owns the way from a query to one over the store's names. What always holds: a query sees one committed
epoch, and reaches nothing but what a reader may see.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
from sqlglot import exp

from millstream.engine.define.catalog import StreamEntry
from millstream.engine.run.parts import Parts
from millstream.engine.surface.as_of import check_as_of
from millstream.model.errors import MillstreamError, did_you_mean
from millstream.sql import check_query, position_of
from millstream.store.protocol import UnknownColumnError

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Selecting:
    parts: Parts

    def select(self, query: exp.Query, text: str, source: str) -> tuple[pa.Table, int]:
        """The rows of a query, and the last epoch that they reflect."""
        return self._asked(self.parts.store.read, query, text, source)

    def describe(self, query: exp.Query, text: str, source: str) -> None:
        """Refuse a query that cannot run, without running it."""
        self._asked(self.parts.store.check, query, text, source)

    def _asked(self, ask: Callable[[exp.Query], Answer], query: exp.Query, text: str, source: str) -> Answer:
        """Check a query and ask the store for it by the names that it has there."""
        checked = self._checked(query, text, source)
        try:
            return ask(checked)
        except UnknownColumnError as error:
            node = next((c for c in checked.find_all(exp.Column) if c.name.lower() == error.column.lower()), None)
            error.position = position_of(node, text, source) if node is not None else None
            raise

    def _checked(self, query: exp.Query, text: str, source: str) -> exp.Query:
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
        check_as_of(query, catalog, text, source)
        return query
