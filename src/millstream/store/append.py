"""Views of rows: what is used is appended, published once and never refined.

The table `rows` has, besides the view's columns: `__epoch` and `__at`, when the row came, and `__t`,
its event time. Rows that are kept for another part of a view are let go when no one can need them.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pyarrow as pa

from millstream.plan.nodes import AppendView
from millstream.sql import quote
from millstream.store.aggregate import DELTA
from millstream.store.changelog import ADD, FORGET, LATE, create_changelog, derive_changelog, header, noted
from millstream.store.deltas import note_changes
from millstream.store.moment import Moment
from millstream.store.naming import added, internal, public, removed


@dataclass(frozen=True, slots=True)
class Append:
    view: AppendView

    @property
    def _rows(self) -> str:
        return internal(self.view.name, "rows")

    @property
    def _columns(self) -> str:
        return ", ".join(quote(name) for name, _ in self.view.columns)

    def create(self, connection: duckdb.DuckDBPyConnection, delta: pa.Schema, epoch: int, now: int) -> None:
        connection.register(DELTA, delta.empty_table())
        connection.execute(
            f"CREATE TABLE {self._rows} AS SELECT CAST(0 AS BIGINT) AS __epoch, CAST(0 AS BIGINT) AS __at, __t, "
            f"{self._columns} FROM {DELTA} LIMIT 0"
        )
        connection.unregister(DELTA)
        self.show(connection)
        if self.view.only_grows and not self.view.hidden:
            derive_changelog(connection, self.view.name, self._rows, self._columns)
        elif not self.view.hidden:
            create_changelog(connection, self.view.name, public(self.view.name))

    def show(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create what readers see."""
        connection.execute(f"CREATE VIEW {public(self.view.name)} AS SELECT {self._columns} FROM {self._rows}")

    @property
    def kept(self) -> list[str]:
        """The columns of a row that are computed: the view's and its event time."""
        return ["__t", *(quote(name) for name, _ in self.view.columns)]

    def merge(self, connection: duckdb.DuckDBPyConnection, delta: pa.Table | None, at: Moment, feeds: bool) -> None:
        view = self.view
        if feeds:
            connection.execute(
                f"CREATE OR REPLACE TEMP TABLE {removed(view.name)} AS SELECT {self._columns} FROM {self._rows} LIMIT 0"
            )
        if delta is not None and delta.num_rows:
            connection.register(DELTA, delta)
            is_open = ""
            if view.window is not None and view.windows_close:
                is_open = f" WHERE NOT {view.window.is_late_sql('__pane', str(at.before - view.lateness))}"
            connection.execute(
                f"INSERT INTO {self._rows} SELECT {at.epoch}, {at.now}, __t, {self._columns} FROM {DELTA}{is_open}"
            )
            if not view.only_grows:
                come = f"{self._columns} FROM {DELTA}{is_open}"
                connection.execute(noted(view.name, header(at, ADD, "insert"), come))
            connection.unregister(DELTA)
        if feeds:
            connection.execute(
                f"CREATE OR REPLACE TEMP TABLE {added(view.name)} AS SELECT * FROM {self._rows} "
                f"WHERE __epoch = {at.epoch}"
            )
        if view.retain is not None:
            # By event time where there is one; rows without it age by when they came.
            old = f"coalesce(__t <= {at.after - view.retain}, __at <= {at.now - view.retain})"
            gone = f"{self._columns} FROM {self._rows} WHERE {old}"
            connection.execute(noted(view.name, header(at, FORGET, "retract", LATE, final="true"), gone))
            if feeds:
                note_changes(connection.execute, view.name, removed_sql=f"SELECT {gone}")
            connection.execute(f"DELETE FROM {self._rows} WHERE {old}")

    def let_go(self, connection: duckdb.DuckDBPyConnection, at: Moment) -> None:
        """Drop kept rows that nothing can need any more, once all that reads them is up to date."""
        view = self.view
        if view.horizon is not None and at.after > at.before:
            connection.execute(f"DELETE FROM {self._rows} WHERE __t <= {at.after - view.horizon.keep}")
        if view.top is not None:
            touched = f"WHERE __epoch = {at.epoch}"
            same = " AND ".join(f"r.{quote(n)} IS NOT DISTINCT FROM t.{quote(n)}" for n in view.top.partition)
            affected = f"{self._rows} r SEMI JOIN (SELECT * FROM {self._rows} {touched}) t ON {same or 'true'}"
            connection.execute(
                f"DELETE FROM {self._rows} WHERE rowid IN (SELECT __rid FROM (SELECT __rid, "
                f"{view.top.ranked()} AS __rank FROM (SELECT r.rowid AS __rid, r.* "
                f"FROM {affected})) WHERE __rank > {view.top.count})"
            )

    def next_due_at(self, connection: duckdb.DuckDBPyConnection) -> int | None:
        return None
