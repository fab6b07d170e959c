"""Reading a versioned table as it was: `FROM users FOR SYSTEM_TIME AS OF TIMESTAMP '…'` in a SELECT."""

from __future__ import annotations

from sqlglot import exp

from millstream.engine.define.catalog import Catalog, StreamEntry
from millstream.model.errors import MillstreamError
from millstream.sql import position_of
from millstream.store.duckdb.naming import internal, listed


def read_as_of(query: exp.Query, catalog: Catalog, text: str, source: str) -> None:
    """Put the versions of an instant in the place of tables that are asked for as of it."""
    for table in list(query.find_all(exp.Table)):
        version = table.args.get("version")
        if version is None:
            continue
        entry = catalog.find(table.name)
        if not isinstance(entry, StreamEntry) or not entry.stream.rules.versioned:
            raise MillstreamError(
                "NOT_VERSIONED",
                f"{table.name} does not keep what it was",
                hint="a table does with versioned = 'true'",
                position=position_of(table, text, source),
            )
        instant = f"epoch_us(CAST({version.expression.sql(dialect='duckdb')} AS TIMESTAMP))"
        columns = listed(entry.stream.stored.names())
        versions: exp.Select = exp.maybe_parse(
            f"SELECT {columns} FROM {internal(entry.name, 'versions')} WHERE __from <= {instant} AND {instant} < __to",
            dialect="duckdb",
        )
        table.replace(versions.subquery(table.alias_or_name))
