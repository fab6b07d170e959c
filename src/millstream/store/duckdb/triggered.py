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

from millstream.duck import quote
from millstream.plan.nodes import AggregateView
from millstream.plan.windows import Window
from millstream.store.duckdb.aggregate import MERGED, TAKEN, StateSQL, create_state
from millstream.store.duckdb.changelog import ADD, FORGET, LATE, REMOVE, create_changelog, header, noted
from millstream.store.duckdb.firing import PANE, TRIGGER_COLUMNS, due_sql, kind_sql, next_due_at, note_fired
from millstream.store.duckdb.moment import NAMED
from millstream.store.duckdb.naming import internal, public
from millstream.store.duckdb.writing import Statements, are_few, chained

_FIRED = "__f"


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

    def merge(self, statements: Statements, delta: pa.Table | None, *, repeats: bool = False) -> None:
        if delta is not None and delta.num_rows:
            with statements.handed(delta) as relation:
                self._merge(statements, delta, relation, repeats)
        reached = statements.writing.reached(self.view.name, statements.at.after)
        if self._may_fire(reached, statements.at.after):
            self._fire(statements)
        if self._ends(reached, statements.at.after, self.view.lateness):
            self._close(statements)
        self._forget(statements)

    def _merge(self, statements: Statements, delta: pa.Table, relation: str, repeats: bool) -> None:
        sql, rows = StateSQL(self.view), delta.num_rows
        past = f"d.{sql.ends_at()} <= {NAMED.before}" if self.view.windows_close else "false"
        values = {
            "__pending": "coalesce(s.__pending, 0) + d.__rows",
            "__due": f"coalesce(s.__due, {due_sql(self.view, past)})",
            "__fired": "coalesce(s.__fired, 0)",
            "__on_time": "coalesce(s.__on_time, false)",
            "__shown": "coalesce(s.__shown, false)",
            **{name: f"s.{name}" for name in self._published},
        }
        groups = (f"d.{name}" for name in sql.group)
        columns = ", ".join([*groups, *sql.merged(), *(f"{value} AS {name}" for name, value in values.items())])
        kept = ", ".join([*sql.group, *sql.accumulators, *values, f"{NAMED.now} AS __at"])
        put = f"INSERT INTO {sql.table} BY NAME SELECT {kept} FROM {MERGED}"
        loaded, nullable = sql.loaded(relation, repeats), sql.nullable(delta)
        if are_few(rows):
            merged = f"{MERGED} AS MATERIALIZED (SELECT {columns} FROM {sql.joined(nullable, TAKEN)})"
            statements.execute(chained([put], *sql.taking(loaded, nullable), merged))
        else:
            found = sql.joined(nullable, sql.table)
            statements.make(MERGED, f"WITH d AS ({loaded}) SELECT {columns}, s.rowid AS __rid FROM {found}")
            statements.run([sql.remove(), put], rows)

    def _may_fire(self, reached: int | None, after: int) -> bool:
        """Whether something can fire at all: where only the watermark decides, it must have passed the end of a window
        since the view was last asked."""
        trigger = self.view.trigger
        by_rows_or_clock = trigger.early or trigger.late or trigger.repeatedly
        return bool(by_rows_or_clock) or self.view.lateness > 0 or self._ends(reached, after, 0)

    def _ends(self, reached: int | None, after: int, lateness: int) -> bool:
        """Whether the time of a window was over between two instants, if the first is known; always without windows."""
        window = self.view.window
        if not self.view.windows_close or reached is None:
            return True
        assert isinstance(window, Window)
        return window.ends_between(reached - lateness, after - lateness)

    def _fire(self, statements: Statements) -> None:
        view, sql = self.view, StateSQL(self.view)
        outputs = ", ".join(f"{out} AS __n{index}" for index, out in enumerate(sql.outputs()))
        last = ", ".join(self._published)
        group = "".join(f"{name}, " for name in sql.group)
        ends = (sql.ends_at(), sql.closes_at()) if view.windows_close else ("NULL", "NULL")
        fired = statements.make(
            _FIRED,
            f"SELECT __rid, {group}__fired, __kind, __shown, {last}, {outputs}, {sql.having()} AS __show, "
            f"{sql.final()} AS __final FROM (SELECT *, rowid AS __rid, {kind_sql(view, *ends)} AS __kind "
            f"FROM {sql.table}) WHERE __kind IS NOT NULL",
        )
        if not fired:
            return
        if statements.changes is not None:
            shown = f"SELECT {last} FROM {_FIRED} WHERE __shown"
            new = ", ".join(f"__n{index}" for index in range(len(view.outputs)))
            statements.changes.note(
                removed_sql=None if self._discarding else shown, added_sql=f"SELECT {new} FROM {_FIRED} WHERE __show"
            )
        statements.run([*self._publish(), self._fired()], fired)

    def _fired(self) -> str:
        """What notes in the state that windows have fired."""
        sql = StateSQL(self.view)
        pairs = [f"s.{name} {'=' if name == '__ws' else 'IS NOT DISTINCT FROM'} f.{name}" for name in sql.group]
        same = " AND ".join(pairs) or "true"
        if self._discarding:
            return note_fired(sql.table, _FIRED, same, "f.__show", [f"{name} = NULL" for name in sql.accumulators])
        shown = [f"__p{index} = f.__n{index}" for index in range(len(self.view.outputs))]
        return note_fired(sql.table, _FIRED, same, "(f.__show OR f.__shown)", ["__shown = f.__show", *shown])

    def _publish(self) -> list[str]:
        """What publishes that windows have fired."""
        view = self.view
        new = ", ".join(f"__n{index}" for index in range(len(view.outputs)))
        old = ", ".join(self._published)
        steps = []
        if self._discarding:
            window = "__ws" if view.window is not None else "NULL"
            steps.append(f"INSERT INTO {self._rows} SELECT {window}, {NAMED.now}, {new} FROM {_FIRED} WHERE __show")
        elif not view.hidden:
            op, condition = ("retract", "__shown") if self._retracting else ("delete", "__shown AND NOT __show")
            head = header(NAMED, REMOVE, op, *PANE)
            steps.append(noted(view.name, head, f"{old} FROM {_FIRED} WHERE {condition}"))
        if not view.hidden:
            op = "insert" if self._discarding or self._retracting else "upsert"
            order = "ORDER BY __ws, __rid" if view.window is not None else "ORDER BY __rid"
            head = header(NAMED, ADD, op, *PANE)
            steps.append(noted(view.name, head, f"{new} FROM {_FIRED} WHERE __show {order}"))
        return steps

    def _close(self, statements: Statements) -> None:
        """Move windows that no row can reach any more out of the state."""
        sql = StateSQL(self.view)
        if not self.view.windows_close:
            return
        closed = f"{sql.closes_at()} <= {NAMED.after}"
        if not self._discarding:
            statements.execute(
                f"INSERT INTO {self._rows} SELECT __ws, {NAMED.now}, {', '.join(self._published)} "
                f"FROM {sql.table} WHERE {closed} AND __shown"
            )
        statements.execute(f"DELETE FROM {sql.table} WHERE {closed}")

    def _forget(self, statements: Statements) -> None:
        """Drop what is older than the view retains, and say so in the changelog."""
        view, sql = self.view, StateSQL(self.view)
        if view.retain is None:
            return
        own = ", ".join(quote(out.name) for out in view.outputs)
        if view.windows_close:
            old = {self._rows: (own, f"{sql.ends_at()} <= {NAMED.after} - {view.retain}")}
        else:
            stale = f"__at <= {NAMED.now} - {view.retain}"
            old = {self._rows: (own, stale), sql.table: (", ".join(self._published), stale)}
        op = "retract" if self._retracting or self._discarding else "delete"
        head = header(NAMED, FORGET, op, LATE, final="true")
        for table, (columns, condition) in old.items():
            seen = f"{condition} AND __shown" if table == sql.table else condition
            if statements.changes is not None:
                statements.changes.note(removed_sql=f"SELECT {columns} FROM {table} WHERE {seen}")
            statements.execute(noted(view.name, head, f"{columns} FROM {table} WHERE {seen}"))
            statements.execute(f"DELETE FROM {table} WHERE {condition}")

    def next_due_at(self, connection: duckdb.DuckDBPyConnection) -> int | None:
        sql = StateSQL(self.view)
        return next_due_at(connection, self.view, sql.table, sql.ends_at() if self.view.windows_close else "NULL")
