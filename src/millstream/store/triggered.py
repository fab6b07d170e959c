"""Aggregating views that publish by trigger: panes fire early, on time and late.

The state has, besides the accumulators: `__pending` (rows since the last firing), `__due` (when a
processing-time trigger is due), `__on_time` (whether the on-time pane has fired), `__shown` and
`__p0`… (what was last published). It holds open windows only; a closed window moves to the
`rows` table. With DISCARDING, every pane is a row of that table and the accumulators start anew.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pyarrow as pa

from millstream.plan.nodes import AggregateView
from millstream.sql import quote
from millstream.store.aggregate import DELTA, MERGED, StateSQL, at_once, create_state
from millstream.store.changelog import ADD, FORGET, LATE, REMOVE, create_changelog, header, noted
from millstream.store.deltas import begin_changes, note_changes
from millstream.store.firing import PANE, TRIGGER_COLUMNS, due_sql, kind_sql, next_due_at
from millstream.store.moment import Moment
from millstream.store.naming import internal, public
from millstream.store.sizes import in_order


@dataclass(frozen=True, slots=True)
class TriggeredAggregate:
    view: AggregateView

    @property
    def _rows(self) -> str:
        return internal(self.view.name, "rows")

    @property
    def _discarding(self) -> bool:
        return self.view.trigger.accumulation == "discarding"

    @property
    def _retracting(self) -> bool:
        return self.view.trigger.accumulation == "retracting"

    @property
    def _published(self) -> list[str]:
        return [f"__p{index}" for index in range(len(self.view.outputs))]

    def create(self, connection: duckdb.DuckDBPyConnection, delta: pa.Schema, epoch: int, now: int) -> None:
        view, sql = self.view, StateSQL(self.view)
        create_state(
            connection,
            view,
            delta,
            f"{TRIGGER_COLUMNS}, false AS __shown",
        )
        # The types of what is published follow from the outputs.
        names = ", ".join(f"{out} AS __p{index}" for index, out in enumerate(sql.outputs()))
        connection.execute(f"CREATE OR REPLACE TEMP TABLE __types AS SELECT {names} FROM {sql.table} LIMIT 0")
        for name, type_, *_ in connection.execute("DESCRIBE __types").fetchall():
            connection.execute(f"ALTER TABLE {sql.table} ADD COLUMN {name} {type_}")
        named = ", ".join(f"{p} AS {quote(out.name)}" for p, out in zip(self._published, view.outputs, strict=True))
        window = "__ws" if view.window is not None else "CAST(NULL AS BIGINT) AS __ws"
        connection.execute(
            f"CREATE TABLE {self._rows} AS SELECT {window}, CAST(0 AS BIGINT) AS __at, {named} FROM {sql.table} LIMIT 0"
        )
        self.show(connection)
        if not view.hidden:
            create_changelog(connection, view.name, public(view.name))

    def show(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create what readers see."""
        view, sql = self.view, StateSQL(self.view)
        named = ", ".join(f"{p} AS {quote(out.name)}" for p, out in zip(self._published, view.outputs, strict=True))
        own = ", ".join(quote(out.name) for out in view.outputs)
        open_rows = "" if self._discarding else f" UNION ALL SELECT {named} FROM {sql.table} WHERE __shown"
        connection.execute(f"CREATE VIEW {public(view.name)} AS SELECT {own} FROM {self._rows}{open_rows}")

    def merge(
        self,
        connection: duckdb.DuckDBPyConnection,
        delta: pa.Table | None,
        at: Moment,
        feeds: bool,
        *,
        repeats: bool = False,
    ) -> None:
        if feeds:
            begin_changes(connection, self.view.name)
        if delta is not None and delta.num_rows:
            connection.register(DELTA, delta)
            self._merge(connection, delta, at, repeats)
            connection.unregister(DELTA)
        self._fire(connection, at, feeds)
        self._close(connection, at)
        self._forget(connection, at, feeds)

    def _merge(self, connection: duckdb.DuckDBPyConnection, delta: pa.Table, at: Moment, repeats: bool) -> None:
        sql = StateSQL(self.view)
        past = f"d.{sql.ends_at()} <= {at.before}" if self.view.windows_close else "false"
        columns = [
            *(f"d.{name}" for name in sql.group),
            "s.rowid AS __rid",
            *sql.merged(),
            "coalesce(s.__pending, 0) + d.__rows AS __pending",
            f"coalesce(s.__due, {due_sql(self.view, at, past)}) AS __due",
        ]
        names = [*sql.accumulators, "__pending", "__due"]
        assign = ", ".join(f"{name} = {MERGED}.{name}" for name in names)
        merged = f"WITH d AS ({sql.loaded(at, repeats)}) SELECT {', '.join(columns)} FROM {sql.joined(delta)}"
        source = in_order(MERGED, "__rid", MERGED)
        update = (
            f"UPDATE {sql.table} SET {assign}, __at = {at.now} FROM {source} WHERE {sql.table}.rowid = {MERGED}.__rid"
        )
        insert = (
            f"INSERT INTO {sql.table} BY NAME SELECT {', '.join([*sql.group, *names])}, 0 AS __fired, "
            f"{at.now} AS __at, false AS __on_time, false AS __shown FROM {MERGED} WHERE __rid IS NULL"
        )
        connection.execute(at_once(merged, [update, insert]))

    def _fire(self, connection: duckdb.DuckDBPyConnection, at: Moment, feeds: bool) -> None:
        view, sql = self.view, StateSQL(self.view)
        outputs = ", ".join(f"{out} AS __n{index}" for index, out in enumerate(sql.outputs()))
        last = ", ".join(self._published)
        window = "__ws, " if view.window is not None else ""
        ends = (sql.ends_at(), sql.closes_at()) if view.windows_close else ("NULL", "NULL")
        kind = kind_sql(view, at, *ends)
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE __f AS SELECT __rid, {window}__fired, __kind, __shown, {last}, "
            f"{outputs}, {sql.having()} AS __show, {sql.final(at.after)} AS __final "
            f"FROM (SELECT *, rowid AS __rid, {kind} AS __kind FROM {sql.table}) WHERE __kind IS NOT NULL"
        )
        if not connection.execute("SELECT 1 FROM __f LIMIT 1").fetchall():
            return
        if feeds:
            shown = f"SELECT {', '.join(self._published)} FROM __f WHERE __shown"
            new = ", ".join(f"__n{index}" for index in range(len(view.outputs)))
            note_changes(
                connection,
                view.name,
                removed_sql=None if self._discarding else shown,
                added_sql=f"SELECT {new} FROM __f WHERE __show",
            )
        self._publish(connection, at)
        published = "__f.__show" if self._discarding else "(__f.__show OR __f.__shown)"
        updates = [
            f"__fired = __f.__fired + CAST({published} AS BIGINT)",
            "__pending = 0",
            "__due = NULL",
            "__on_time = __on_time OR __f.__kind = 'on_time'",
        ]
        if self._discarding:
            updates += [f"{name} = NULL" for name in sql.accumulators]
        else:
            updates.append("__shown = __f.__show")
            updates += [f"__p{index} = __f.__n{index}" for index in range(len(view.outputs))]
        source = in_order("__f", "__rid", "__f")
        connection.execute(
            f"UPDATE {sql.table} SET {', '.join(updates)} FROM {source} WHERE {sql.table}.rowid = __f.__rid"
        )

    def _publish(self, connection: duckdb.DuckDBPyConnection, at: Moment) -> None:
        view = self.view
        new = ", ".join(f"__n{index}" for index in range(len(view.outputs)))
        old = ", ".join(self._published)
        if self._discarding:
            window = "__ws" if view.window is not None else "NULL"
            connection.execute(f"INSERT INTO {self._rows} SELECT {window}, {at.now}, {new} FROM __f WHERE __show")
        elif not view.hidden:
            op, condition = ("retract", "__shown") if self._retracting else ("delete", "__shown AND NOT __show")
            head = header(at, REMOVE, op, *PANE)
            connection.execute(noted(view.name, head, f"{old} FROM __f WHERE {condition}"))
        if view.hidden:
            return
        op = "insert" if self._discarding or self._retracting else "upsert"
        order = "ORDER BY __ws, __rid" if view.window is not None else "ORDER BY __rid"
        connection.execute(noted(view.name, header(at, ADD, op, *PANE), f"{new} FROM __f WHERE __show {order}"))

    def _close(self, connection: duckdb.DuckDBPyConnection, at: Moment) -> None:
        """Move windows that no row can reach any more out of the state."""
        sql = StateSQL(self.view)
        if not self.view.windows_close:
            return
        closed = f"{sql.closes_at()} <= {at.after}"
        if not self._discarding:
            connection.execute(
                f"INSERT INTO {self._rows} SELECT __ws, {at.now}, {', '.join(self._published)} "
                f"FROM {sql.table} WHERE {closed} AND __shown"
            )
        connection.execute(f"DELETE FROM {sql.table} WHERE {closed}")

    def _forget(self, connection: duckdb.DuckDBPyConnection, at: Moment, feeds: bool) -> None:
        """Drop what is older than the view retains, and say so in the changelog."""
        view, sql = self.view, StateSQL(self.view)
        if view.retain is None:
            return
        own = ", ".join(quote(out.name) for out in view.outputs)
        if view.windows_close:
            old = f"{sql.ends_at()} <= {at.after - view.retain}"
        else:
            old = f"__at <= {at.now - view.retain}"
        op = "retract" if self._retracting or self._discarding else "delete"
        head = header(at, FORGET, op, LATE, final="true")
        if feeds:
            note_changes(connection, view.name, removed_sql=f"SELECT {own} FROM {self._rows} WHERE {old}")
        connection.execute(noted(view.name, head, f"{own} FROM {self._rows} WHERE {old}"))
        connection.execute(f"DELETE FROM {self._rows} WHERE {old}")
        if not view.windows_close:
            shown = f"{', '.join(self._published)} FROM {sql.table} WHERE {old} AND __shown"
            if feeds:
                note_changes(connection, view.name, removed_sql=f"SELECT {shown}")
            connection.execute(noted(view.name, head, shown))
            connection.execute(f"DELETE FROM {sql.table} WHERE {old}")

    def next_due_at(self, connection: duckdb.DuckDBPyConnection) -> int | None:
        sql = StateSQL(self.view)
        return next_due_at(connection, self.view, sql.table, sql.ends_at() if self.view.windows_close else "NULL")
