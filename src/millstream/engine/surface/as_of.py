"""Reading a versioned table as it was: `FROM users FOR SYSTEM_TIME AS OF TIMESTAMP '…'` in a SELECT."""

from __future__ import annotations

from sqlglot import exp

from millstream.engine.define.catalog import Catalog, StreamEntry
from millstream.model.errors import MillstreamError
from millstream.sql import position_of


def check_as_of(query: exp.Query, catalog: Catalog, text: str, source: str) -> None:
    """Refuse to read relations as of an instant that keep no versions."""
    for table in query.find_all(exp.Table):
        if table.args.get("version") is None:
            continue
        entry = catalog.find(table.name)
        if not isinstance(entry, StreamEntry) or not entry.stream.rules.versioned:
            raise MillstreamError(
                "NOT_VERSIONED",
                f"{table.name} does not keep what it was",
                hint="a table does with versioned = 'true'",
                position=position_of(table, text, source),
            )
