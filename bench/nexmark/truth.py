"""What each query answers over the files: plain DuckDB, by the oracle that the Nexmark tests use.

Owns the reading of the files. The oracle's `bid` has the processing time of its row, which no file
knows: it is NULL here, and q12 is compared by bidder alone.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from bench.job import CORES
from bench.nexmark.job import WRAP
from millstream.nexmark.files import KINDS
from tests.nexmark.compare import difference
from tests.nexmark.oracle import ORACLE

QUERIES = tuple(ORACLE)

_TYPES = {"int64": "BIGINT", "string": "VARCHAR", "timestamp[us]": "TIMESTAMP"}
_ADDED = {"BIGINT": "{}", "INTEGER": "{}", "VARCHAR": "strlen({})", "TIMESTAMP": f"epoch_us({{}}) % {WRAP}"}
_BY_BIDDER = "SELECT bidder, sum(bid_count)::BIGINT AS bid_count FROM {} GROUP BY bidder"


def create_views(connection: duckdb.DuckDBPyConnection, path: Path, arrived_at: str = "NULL::TIMESTAMP") -> None:
    """The views `person`, `auction` and `bid` over the files of a directory."""
    connection.execute("SET TimeZone = 'UTC'")
    for kind, schema in KINDS.items():
        columns = ", ".join(f"'{field.name}': '{_TYPES[str(field.type)]}'" for field in schema)
        # What the files are like is said: to find out would take longer than some queries.
        form = "auto_detect = false, delim = ',', header = false, quote = ''"
        source = f"read_csv('{path}/{kind}/*.csv', {form}, columns = {{{columns}}})"
        arrived = f", {arrived_at} AS arrived_at" if kind == "bid" else ""
        connection.execute(f"CREATE VIEW {kind} AS SELECT *{arrived} FROM {source}")


class Truth:
    """The answers over one directory of files."""

    def __init__(self, path: Path) -> None:
        self._connection = duckdb.connect(config={"threads": CORES})
        create_views(self._connection, path)

    def __enter__(self) -> Truth:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def rows(self, query: str, where: str = "true") -> int:
        """How many rows a query has, or those of them that meet a condition."""
        # All rows of it, though there is one: a result that is not read to its end keeps the connection busy.
        ((counted,),) = self._connection.execute(f"SELECT count(*) FROM ({ORACLE[query]}) WHERE {where}").fetchall()
        return int(counted)

    def sums(self, query: str) -> dict[str, int]:
        """Over a query's rows, by column: whole numbers, bytes of texts and what `WRAP` leaves of instants, added up.

        Fractions are left out, and so are columns without a value.
        """
        rows = self._connection.sql(ORACLE[query])
        added = {
            name: _ADDED[str(type_)]
            for name, type_ in zip(rows.columns, rows.types, strict=True)
            if str(type_) in _ADDED
        }
        chosen = ", ".join(f"sum({what.format(name)})::BIGINT AS {name}" for name, what in added.items())
        (found,) = self._connection.execute(f"SELECT {chosen} FROM ({ORACLE[query]})").fetchall()
        return {name: total for name, total in zip(added, found, strict=True) if total is not None}

    def difference(self, query: str, actual: pa.Table) -> str | None:
        """How a result differs from the truth; None if it does not."""
        if query == "q12":
            self._connection.register("actual", actual)
            actual = self._connection.sql(_BY_BIDDER.format("actual")).to_arrow_table()
            expected = self._connection.sql(_BY_BIDDER.format(f"({ORACLE[query]})")).to_arrow_table()
        else:
            expected = self._connection.sql(ORACLE[query]).to_arrow_table()
        return difference(actual.select(expected.column_names), expected)
