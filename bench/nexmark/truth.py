"""What each query answers over the files: plain DuckDB, by the oracle that the Nexmark tests use.

Owns the reading of the files. The oracle's `bid` has the processing time of its row, which no file
knows: it is NULL here, and q12 is compared by bidder alone.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from bench.job import CORES
from millstream.nexmark.files import KINDS
from tests.nexmark.compare import difference
from tests.nexmark.oracle import ORACLE

QUERIES = tuple(ORACLE)

_TYPES = {"int64": "BIGINT", "string": "VARCHAR", "timestamp[us]": "TIMESTAMP"}
_BY_BIDDER = "SELECT bidder, sum(bid_count)::BIGINT AS bid_count FROM {} GROUP BY bidder"


class Truth:
    """The answers over one directory of files."""

    def __init__(self, path: Path) -> None:
        self._connection = duckdb.connect(config={"threads": CORES})
        self._connection.execute("SET TimeZone = 'UTC'")
        for kind, schema in KINDS.items():
            columns = ", ".join(f"'{field.name}': '{_TYPES[str(field.type)]}'" for field in schema)
            source = f"read_csv('{path}/{kind}/*.csv', header = false, quote = '', columns = {{{columns}}})"
            arrived = ", NULL::TIMESTAMP AS arrived_at" if kind == "bid" else ""
            self._connection.execute(f"CREATE VIEW {kind} AS SELECT *{arrived} FROM {source}")

    def __enter__(self) -> Truth:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def rows(self, query: str, where: str = "true") -> int:
        """How many rows a query has, or those of them that meet a condition."""
        # All rows of it, though there is one: a result that is not read to its end keeps the connection busy.
        ((counted,),) = self._connection.execute(f"SELECT count(*) FROM ({ORACLE[query]}) WHERE {where}").fetchall()
        return int(counted)

    def difference(self, query: str, actual: pa.Table) -> str | None:
        """How a result differs from the truth; None if it does not."""
        if query == "q12":
            self._connection.register("actual", actual)
            actual = self._connection.sql(_BY_BIDDER.format("actual")).to_arrow_table()
            expected = self._connection.sql(_BY_BIDDER.format(f"({ORACLE[query]})")).to_arrow_table()
        else:
            expected = self._connection.sql(ORACLE[query]).to_arrow_table()
        return difference(actual.select(expected.column_names), expected)
