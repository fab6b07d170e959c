"""Sliding windows in the store: for every instant of a key, what came in the time up to it.

The state has a row per key and instant: `__ws` (the instant less the size), the accumulators of the
rows *at* that instant, and what the trigger of the window that ends there needs. The value of a
window is combined from the instants that it covers when it fires, by window frames: as fast for one
busy key as for many quiet ones. A row changes exactly the windows from its instant to less than
the size after it. A window that is closed is not computed again, but its row stays as
long as an open window reaches back to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pyarrow as pa

from millstream.plan.nodes import AggregateView
from millstream.plan.windows import SlideWindow
from millstream.store.duckdb.aggregate import MERGED, StateSQL, clamped, create_state
from millstream.store.duckdb.firing import TRIGGER_COLUMNS, due_sql, kind_sql, next_due_at
from millstream.store.duckdb.moment import NAMED
from millstream.store.duckdb.published import Published, new_id
from millstream.store.duckdb.writing import Statements


@dataclass(frozen=True, slots=True)
class SlideAggregate:
    view: AggregateView

    @property
    def _window(self) -> SlideWindow:
        assert isinstance(self.view.window, SlideWindow)
        return self.view.window

    @property
    def _published(self) -> Published:
        return Published(self.view)

    @property
    def _frame(self) -> str:
        """The instants that the window of a row covers."""
        by_key = f"PARTITION BY {', '.join(keys)} " if (keys := StateSQL(self.view).keys) else ""
        return f"({by_key}ORDER BY __ws RANGE BETWEEN {self._window.size - 1} PRECEDING AND CURRENT ROW)"

    def create(self, connection: duckdb.DuckDBPyConnection, delta: pa.Schema, epoch: int, now: int) -> None:
        create_state(connection, self.view, delta, f"{TRIGGER_COLUMNS}, CAST(0 AS BIGINT) AS __sid")
        self._published.create(connection)

    def show(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._published.show(connection)

    def merge(self, statements: Statements, delta: pa.Table | None) -> None:
        if delta is not None and delta.num_rows:
            table = StateSQL(self.view).table
            with statements.handed(delta) as relation:
                statements.make(MERGED, f"WITH __d AS MATERIALIZED ({self._instants(relation)}) {self._touched()}")
            steps = [
                f"DELETE FROM {table} WHERE rowid IN (SELECT __rid FROM {MERGED})",
                f"INSERT INTO {table} BY NAME SELECT * EXCLUDE (__rid) FROM {MERGED}",
            ]
            statements.run(steps, delta.num_rows)
        self._fire(statements)
        self._close(statements)
        self._published.forget(statements, StateSQL(self.view).table)

    def _instants(self, delta: str) -> str:
        """The delta per key and instant."""
        sql, size = StateSQL(self.view), self._window.size
        if not self._window.on_clock:
            columns = [*sql.keys, f"__pane - {size} AS __ws", "__rows", *sql.loads()]
            return f"SELECT {', '.join(columns)} FROM {delta}"
        instant = clamped("__pane")
        loaded = f"SELECT {', '.join([*sql.keys, f'{instant} - {size} AS __ws', '__rows', *sql.loads()])} FROM {delta}"
        group = ", ".join(sql.group)
        total = "CAST(sum(__rows) AS BIGINT) AS __rows"
        return f"SELECT {', '.join([group, total, *sql.combined()])} FROM ({loaded}) GROUP BY {group}"

    def _touched(self) -> str:
        """The rows of the state whose windows hold a row of `__d`, with it."""
        sql = StateSQL(self.view)
        group, trigger = ", ".join(sql.group), ["__sid", "__fired", "__pending", "__due", "__on_time"]
        near = _near(sql.keys, "s.__ws >= r.__low", f"s.__ws < r.__high + {self._window.size}")
        kept = ", ".join(f"s.{name}" for name in [*sql.group, *sql.accumulators, "rowid", *trigger])
        parts = (
            f"SELECT {', '.join([group, *sql.accumulators])}, NULL AS __rid, NULL AS __sid, 0 AS __fired, "
            f"0 AS __pending, NULL AS __due, false AS __on_time, __rows FROM __d "
            f"UNION ALL SELECT {kept}, 0 FROM {sql.table} s JOIN ({_reach(sql.keys, '__d')}) r ON {near}"
        )
        by_instant = (
            f"SELECT {', '.join([group, *sql.combined()])}, max(__rid) AS __rid, max(__sid) AS __sid, "
            "max(__fired) AS __fired, "
            "max(__pending) AS __pending, max(__due) AS __due, bool_or(__on_time) AS __on_time, sum(__rows) AS __rows "
            f"FROM ({parts}) GROUP BY {group}"
        )
        came = f"SELECT *, CAST(sum(__rows) OVER {self._frame} AS BIGINT) AS __came FROM ({by_instant})"
        past = f"{sql.ends_at()} <= {NAMED.before}" if self.view.windows_close else "false"
        columns = [
            *sql.group,
            *sql.accumulators,
            "__rid",
            f"coalesce(__sid, {new_id(sql.group)}) AS __sid",
            "__fired",
            "__pending + __came AS __pending",
            f"coalesce(__due, {due_sql(self.view, past)}) AS __due",
            "__on_time",
            f"{NAMED.now} AS __at",
        ]
        return f"SELECT {', '.join(columns)} FROM ({came}) WHERE __came > 0"

    def _fire(self, statements: Statements) -> None:
        view, sql = self.view, StateSQL(self.view)
        ends = (sql.ends_at(), sql.closes_at()) if view.windows_close else ("NULL", "NULL")
        fired = (
            f"SELECT {', '.join(sql.group)}, __sid, __kind FROM "
            f"(SELECT *, {kind_sql(view, *ends)} AS __kind FROM {sql.table}) WHERE __kind IS NOT NULL"
        )
        near = _near(sql.keys, f"s.__ws > r.__low - {self._window.size}", "s.__ws <= r.__high")
        sources = f"SELECT s.*, s.rowid AS __rid FROM {sql.table} s JOIN ({_reach(sql.keys, '__f')}) r ON {near}"
        columns = ", ".join([*sql.group, "__rid", "__sid", "__fired", *sql.combined_over("covered")])
        values = f"SELECT {columns} FROM ({sources}) WINDOW covered AS {self._frame}"
        outputs = ", ".join(f"{out} AS __n{index}" for index, out in enumerate(sql.outputs()))
        count = self._published.find(
            statements,
            f"WITH __f AS MATERIALIZED ({fired}) SELECT __rid, __sid, {self._window.end_sql} AS __end, __fired, "
            f"__kind, {sql.final()} AS __final, {sql.having()} AS __show, {outputs} "
            f"FROM ({values}) JOIN (SELECT __sid, __kind FROM __f) USING (__sid)",
        )
        if count:
            self._published.publish(statements, count, [self._published.note_fired()])

    def _close(self, statements: Statements) -> None:
        """Let go of windows that are closed, and of instants that no open window reaches back to."""
        view, sql = self.view, StateSQL(self.view)
        if not view.windows_close:
            return
        self._published.close(statements, f"SELECT __sid FROM {sql.table} WHERE {sql.closes_at()} <= {NAMED.after}")
        unreached = f"{self._window.end_sql} + {self._window.size + view.lateness} <= {NAMED.after}"
        statements.execute(f"DELETE FROM {sql.table} WHERE {unreached}")

    def next_due_at(self, connection: duckdb.DuckDBPyConnection) -> int | None:
        return next_due_at(connection, self.view, StateSQL(self.view).table, self._window.complete_sql)


def _reach(keys: list[str], table: str) -> str:
    """The first and the last window of each key in a table."""
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join([*keys, 'min(__ws) AS __low', 'max(__ws) AS __high'])} FROM {table}{group}"


def _near(keys: list[str], *bounds: str) -> str:
    return " AND ".join([*(f"s.{key} IS NOT DISTINCT FROM r.{key}" for key in keys), *bounds])
