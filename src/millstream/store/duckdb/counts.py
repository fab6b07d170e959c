"""Count windows in the store: the last so many rows of a key, complete by their count.

The rows of a key are numbered from 1: in the order of event time, partition and offset within an
epoch, and in the order of the epochs. The state has the rows of each key that a window to come
needs, with number `__i`, event time `__ws` and the accumulators of the one row, and always the last
row, whose number is the count. A window is published once, when its last row comes.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pyarrow as pa

from millstream.plan.nodes import AggregateView
from millstream.plan.windows import CountWindow
from millstream.store.duckdb.aggregate import MERGED, StateSQL, create_state
from millstream.store.duckdb.moment import NAMED
from millstream.store.duckdb.published import Published
from millstream.store.duckdb.writing import Statements


@dataclass(frozen=True, slots=True)
class CountAggregate:
    view: AggregateView

    @property
    def _window(self) -> CountWindow:
        assert isinstance(self.view.window, CountWindow)
        return self.view.window

    @property
    def _published(self) -> Published:
        return Published(self.view)

    @property
    def _by_key(self) -> str:
        return f"PARTITION BY {', '.join(keys)} " if (keys := StateSQL(self.view).keys) else ""

    def create(self, connection: duckdb.DuckDBPyConnection, delta: pa.Schema, epoch: int, now: int) -> None:
        create_state(connection, self.view, delta, ", CAST(0 AS BIGINT) AS __we, CAST(0 AS BIGINT) AS __i")
        self._published.create(connection)

    def show(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._published.show(connection)

    def merge(self, statements: Statements, delta: pa.Table | None) -> None:
        if delta is not None and delta.num_rows:
            with statements.handed(delta) as relation:
                statements.make(MERGED, self._numbered(relation))
            self._published.find(statements, self._complete())
            self._published.publish(statements, delta.num_rows, self._kept())
        self._published.forget(statements, None)

    def _numbered(self, delta: str) -> str:
        """The rows of the epoch with their numbers, and what the state has of their keys."""
        sql = StateSQL(self.view)
        same = " AND ".join(f"s.{key} IS NOT DISTINCT FROM d.{key}" for key in sql.keys) or "true"
        names = [*sql.group, *sql.accumulators]
        kept = (
            f"SELECT {', '.join(f's.{name}' for name in names)}, __i, s.rowid AS __rid "
            f"FROM {sql.table} s SEMI JOIN {delta} d ON {same}"
        )
        group = f" GROUP BY {', '.join(sql.keys)}" if sql.keys else ""
        counts = f"SELECT {', '.join([*sql.keys, 'max(__i) AS __count'])} FROM __kept{group}"
        fresh = (
            f"SELECT {', '.join([*sql.keys, '__t AS __ws', *sql.loads()])}, "
            f"row_number() OVER ({self._by_key}ORDER BY __t, __p, __o, __pane) AS __n FROM {delta}"
        )
        return (
            f"WITH __kept AS MATERIALIZED ({kept}) SELECT * FROM __kept UNION ALL "
            f"SELECT {', '.join(f'd.{name}' for name in names)}, coalesce(__count, 0) + __n, NULL "
            f"FROM ({fresh}) d LEFT JOIN ({counts}) s ON {same}"
        )

    def _complete(self) -> str:
        """The windows that end with a row of the epoch."""
        window, sql = self._window, StateSQL(self.view)
        frame = f"({self._by_key}ORDER BY __i ROWS BETWEEN {window.rows - 1} PRECEDING AND CURRENT ROW)"
        columns = [
            *sql.keys,
            "__i",
            "__rid",
            "first_value(__ws) OVER held AS __ws",
            "__ws AS __we",
            *sql.combined_over("held"),
        ]
        values = f"SELECT {', '.join(columns)} FROM {MERGED} WINDOW held AS {frame}"
        outputs = ", ".join(f"{out} AS __n{index}" for index, out in enumerate(sql.outputs()))
        return (
            f"SELECT __i AS __sid, __we AS __end, 0 AS __fired, 'on_time' AS __kind, true AS __final, "
            f"{sql.having()} AS __show, {outputs} "
            f"FROM ({values}) WHERE __rid IS NULL AND {window.ends_at_sql('__i')}"
        )

    def _kept(self) -> list[str]:
        """What keeps the rows that windows to come need."""
        sql = StateSQL(self.view)
        over = f"OVER ({self._by_key.strip()})"
        needed = f"__i = __count OR __i > {self._window.next_end_sql('__count')} - {self._window.rows}"
        return [
            f"DELETE FROM {sql.table} WHERE rowid IN (SELECT __rid FROM {MERGED})",
            f"INSERT INTO {sql.table} BY NAME SELECT * EXCLUDE (__rid, __count), 0 AS __fired, {NAMED.now} AS __at "
            f"FROM (SELECT *, max(__i) {over} AS __count FROM {MERGED}) WHERE {needed}",
        ]

    def next_due_at(self, connection: duckdb.DuckDBPyConnection) -> int | None:
        return None
