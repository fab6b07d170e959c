"""Views of rows: what is used is appended, published once and never refined."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pyarrow as pa

from millstream.plan.nodes import AppendView
from millstream.store.aggregate import DELTA
from millstream.store.changelog import ADD, FORGET, changes_table, create_changelog
from millstream.store.moment import Moment
from millstream.store.naming import internal, public, quote


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
            f"CREATE TABLE {self._rows} AS SELECT CAST(0 AS BIGINT) AS __at, __t, {self._columns} FROM {DELTA} LIMIT 0"
        )
        connection.unregister(DELTA)
        connection.execute(f"CREATE VIEW {public(self.view.name)} AS SELECT {self._columns} FROM {self._rows}")
        create_changelog(connection, self.view.name, public(self.view.name))

    def merge(self, connection: duckdb.DuckDBPyConnection, delta: pa.Table | None, at: Moment) -> None:
        view = self.view
        if delta is not None and delta.num_rows:
            connection.register(DELTA, delta)
            is_open = ""
            if view.window is not None and view.windows_close:
                is_open = f" WHERE NOT {view.window.is_late_sql('__pane', str(at.before - view.lateness))}"
            connection.execute(f"INSERT INTO {self._rows} SELECT {at.now}, __t, {self._columns} FROM {DELTA}{is_open}")
            connection.execute(
                f"INSERT INTO {changes_table(view.name)} "
                f"SELECT {at.epoch}, {ADD}, {at.now}, 'insert', 'early', 0, false, "
                f"{self._columns} FROM {DELTA}{is_open}"
            )
            connection.unregister(DELTA)
        if view.retain is not None:
            # By event time where there is one; rows without it age by when they came.
            old = f"coalesce(__t <= {at.after - view.retain}, __at <= {at.now - view.retain})"
            connection.execute(
                f"INSERT INTO {changes_table(view.name)} "
                f"SELECT {at.epoch}, {FORGET}, {at.now}, 'retract', 'late', 0, true, "
                f"{self._columns} FROM {self._rows} WHERE {old}"
            )
            connection.execute(f"DELETE FROM {self._rows} WHERE {old}")

    def next_due_at(self, connection: duckdb.DuckDBPyConnection) -> int | None:
        return None
