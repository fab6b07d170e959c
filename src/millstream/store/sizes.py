"""How rows of a table had better be changed: in place and in order, or by deleting and inserting them.

For DuckDB a change in place costs about as much as the 2,048 rows that a value is stored with, in its log too; rows
that are written anew leave gaps, which a checkpoint closes. So few rows are changed in place, and many are
written anew; in a large table, where rows that change lie far apart, from fewer on.
"""

from __future__ import annotations

import duckdb

MANY = 50_000
SOME, LARGE = 1_000, 500_000


def in_order(rows: str, row_id: str, name: str) -> str:
    """Rows that say what to change, in the order in which it is stored: in no order it takes DuckDB ten times as long.

    >>> in_order("temp.moves", "__rid", "m")
    '(SELECT * FROM temp.moves ORDER BY __rid) AS m'
    """
    return f"(SELECT * FROM {rows} ORDER BY {row_id}) AS {name}"


class Sizes:
    """Which tables are large. They are counted when enough was changed in them that it may be otherwise."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int]] = {}
        """By table: the rows that were counted, and those that were changed since."""

    def writes_anew(self, connection: duckdb.DuckDBPyConnection, table: str, changed: int) -> bool:
        """Whether so many rows of a table, which are about to be changed, are deleted and inserted."""
        rows, since = self._known.get(table, (-1, 0))
        since += changed
        if rows < 0 or since >= max(rows, LARGE - rows):
            ((rows,),) = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
            since = 0
        self._known[table] = (rows, since)
        return changed >= MANY or (changed >= SOME and rows >= LARGE)

    def forget(self) -> None:
        """Tables may have gone, or have become others of the same name."""
        self._known.clear()
