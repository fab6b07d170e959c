"""Whether two results are the same rows: counts, sums and a hash over all of them, by DuckDB.

Every contender's result is brought to (auction, window_start in microseconds, n[, total, top]).
The hash is the exclusive or of the hashes of the rows: it does not depend on their order.
"""

from __future__ import annotations

from typing import Any

import duckdb

COLUMNS = {
    "tumbling": ("auction", "window_start", "n", "total", "top"),
    "hopping": ("auction", "window_start", "n"),
    "small_epochs": ("auction", "window_start", "n", "total", "top"),
}


def digest(connection: duckdb.DuckDBPyConnection, question: str, relation: str) -> dict[str, int]:
    """The digest of a relation (SQL that can follow FROM) that has the columns of the question."""
    columns = COLUMNS[question]
    values = {name: f"CAST({name} AS BIGINT)" for name in columns}
    sums = [f"coalesce(sum({values[name]}), 0) AS {name}" for name in columns[2:]]
    # 60 bits of the hash: a number every JSON reader and every signed integer can take.
    row_hash = f"coalesce(bit_xor(hash({', '.join(values.values())}) >> 4), 0) AS hash"
    cursor = connection.execute(f"SELECT count(*) AS groups, {', '.join(sums)}, {row_hash} FROM {relation}")
    names = [column[0] for column in cursor.description or ()]
    row: tuple[Any, ...] = cursor.fetchone() or ()
    return {name: int(value) for name, value in zip(names, row, strict=True)}
