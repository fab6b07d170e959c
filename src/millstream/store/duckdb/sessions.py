"""Session windows in the store: segments of an epoch merged with the open sessions of their keys.

The state has a row per open session: keys, `__sid`, its bounds `__ws` and `__we`, accumulators and
what its trigger needs. What always holds: the open sessions of a key are disjoint. A row of the
delta is a *segment*, the events of a key in one pane, `[first, last + gap)`; segments and sessions
that overlap become one session, which takes over the published rows of all of them. A closed
session leaves the state and is never merged again; its published rows stay.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pyarrow as pa

from millstream.plan.nodes import AggregateView
from millstream.plan.windows import SessionWindow
from millstream.store.duckdb.aggregate import MERGED, StateSQL, clamped, create_state
from millstream.store.duckdb.firing import TRIGGER_COLUMNS, due_sql, kind_sql, next_due_at
from millstream.store.duckdb.moment import NAMED
from millstream.store.duckdb.published import Published, new_id
from millstream.store.duckdb.writing import Statements


@dataclass(frozen=True, slots=True)
class SessionAggregate:
    view: AggregateView

    @property
    def _window(self) -> SessionWindow:
        assert isinstance(self.view.window, SessionWindow)
        return self.view.window

    @property
    def _published(self) -> Published:
        return Published(self.view)

    def create(self, connection: duckdb.DuckDBPyConnection, delta: pa.Schema, epoch: int, now: int) -> None:
        create_state(
            connection,
            self.view,
            delta,
            f"{TRIGGER_COLUMNS}, CAST(0 AS BIGINT) AS __we, CAST(0 AS BIGINT) AS __sid",
        )
        self._published.create(connection)

    def show(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._published.show(connection)

    def merge(self, statements: Statements, delta: pa.Table | None) -> None:
        if delta is not None and delta.num_rows:
            with statements.handed(delta) as relation:
                statements.make(MERGED, f"WITH __d AS MATERIALIZED ({self._segments(relation)}) {self._sessions()}")
            statements.run(self._kept(), delta.num_rows)
        self._fire(statements)
        self._close(statements)
        self._published.forget(statements, StateSQL(self.view).table)

    def _kept(self) -> list[str]:
        """What puts the sessions of `MERGED` in the place of those that have become them."""
        table = StateSQL(self.view).table
        return [
            f"DELETE FROM {table} WHERE rowid IN (SELECT unnest(__rids) FROM {MERGED})",
            self._published.follow(f"SELECT unnest(__sids) AS __old, __sid FROM {MERGED}"),
            f"INSERT INTO {table} BY NAME SELECT * EXCLUDE (__sids, __rids) FROM {MERGED}",
        ]

    def _segments(self, delta: str) -> str:
        """The rows of the delta as segments `[__ws, __we)`."""
        sql = StateSQL(self.view)
        first, last = "__first", "__last"
        if self._window.on_clock:
            first, last = clamped(first), clamped(last)
        columns = [*sql.keys, f"{first} AS __ws", f"{last} + {self._window.gap} AS __we", "__rows", *sql.loads()]
        return f"SELECT {', '.join(columns)} FROM {delta}"

    def _sessions(self) -> str:
        """The sessions that the segments of `__d` are part of now, with those that they were before."""
        sql = StateSQL(self.view)
        keys = sql.keys
        by_key = f"PARTITION BY {', '.join(keys)} " if keys else ""
        carried = ["__ws", "__we", *sql.accumulators]
        trigger = ["__sid", "__fired", "__pending", "__due", "__on_time"]
        fresh = "NULL AS __rid, NULL AS __sid, 0 AS __fired, __rows AS __pending, NULL AS __due, false AS __on_time"
        # Sessions elsewhere in the time of a key are not touched, so a long lateness costs nothing.
        reach = f"SELECT {', '.join([*keys, 'min(__ws) AS __low', 'max(__we) AS __high'])} FROM __d" + (
            f" GROUP BY {', '.join(keys)}" if keys else ""
        )
        near = " AND ".join(
            [*(f"s.{key} IS NOT DISTINCT FROM r.{key}" for key in keys), "s.__ws < r.__high", "s.__we > r.__low"]
        )
        kept = ", ".join(f"s.{name}" for name in [*keys, *carried, "rowid", *trigger])
        parts = (
            f"SELECT {', '.join([*keys, *carried])}, {fresh}, true AS __new FROM __d "
            f"UNION ALL SELECT {kept}, false FROM {sql.table} s JOIN ({reach}) r ON {near}"
        )
        reached = f"max(__we) OVER ({by_key}ORDER BY __ws ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        # Ends are exclusive: an event exactly the gap after the last one begins a session.
        marked = f"SELECT *, coalesce(__ws >= {reached}, true) AS __begins FROM ({parts})"
        # By RANGE, so that parts that begin together are in one session whatever their order.
        begin = f"max(IF(__begins, __ws, NULL)) OVER ({by_key}ORDER BY __ws RANGE UNBOUNDED PRECEDING)"
        found = f"SELECT * EXCLUDE (__ws), {begin} AS __ws FROM ({marked})"
        past = f"bool_or(__on_time) AND max(__we) <= {NAMED.before}" if self.view.windows_close else "false"
        early, late = (f"min(__due) FILTER (WHERE {'' if on else 'NOT '}__on_time)" for on in (False, True))
        columns = [
            *keys,
            "__ws",
            "max(__we) AS __we",
            *sql.combined(),
            f"coalesce(min(__sid), {new_id(['__ws', *keys])}) AS __sid",
            "list(__sid) FILTER (WHERE __sid IS NOT NULL) AS __sids",
            "list(__rid) FILTER (WHERE __rid IS NOT NULL) AS __rids",
            "max(__fired) AS __fired",
            "CAST(sum(__pending) AS BIGINT) AS __pending",
            f"{due_sql(self.view, past, early, late)} AS __due",
            f"coalesce({past}, false) AS __on_time",
            f"{NAMED.now} AS __at",
        ]
        group = ", ".join([*keys, "__ws"])
        return f"SELECT {', '.join(columns)} FROM ({found}) GROUP BY {group} HAVING bool_or(__new)"

    def _fire(self, statements: Statements) -> None:
        view, sql = self.view, StateSQL(self.view)
        outputs = ", ".join(f"{out} AS __n{index}" for index, out in enumerate(sql.outputs()))
        ends = (sql.ends_at(), sql.closes_at()) if view.windows_close else ("NULL", "NULL")
        fired = self._published.find(
            statements,
            f"SELECT __rid, __sid, __we AS __end, __fired, __kind, {sql.final()} AS __final, {sql.having()} AS __show, "
            f"{outputs} FROM (SELECT *, rowid AS __rid, {kind_sql(view, *ends)} AS __kind FROM {sql.table}) "
            f"WHERE __kind IS NOT NULL",
        )
        if fired:
            reset = sql.accumulators if view.trigger.accumulation == "discarding" else []
            self._published.publish(statements, fired, [self._published.note_fired(reset)])

    def _close(self, statements: Statements) -> None:
        """Let go of sessions that no row can reach any more."""
        sql = StateSQL(self.view)
        if not self.view.windows_close:
            return
        closed = f"{sql.closes_at()} <= {NAMED.after}"
        self._published.close(statements, f"SELECT __sid FROM {sql.table} WHERE {closed}")
        statements.execute(f"DELETE FROM {sql.table} WHERE {closed}")

    def next_due_at(self, connection: duckdb.DuckDBPyConnection) -> int | None:
        sql = StateSQL(self.view)
        return next_due_at(connection, self.view, sql.table, self._window.complete_sql)
