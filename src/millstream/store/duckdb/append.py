"""Views of rows: what is used is appended, published once and never refined.

The table `rows` has, besides the view's columns: `__epoch` and `__at`, when the row came, and `__t`,
its event time. Rows that are kept for another part of a view are let go when no one can need them.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pyarrow as pa

from millstream.duck import quote
from millstream.plan.nodes import AppendView
from millstream.store.duckdb.aggregate import DELTA
from millstream.store.duckdb.changelog import ADD, FORGET, LATE, create_changelog, derive_changelog, header, noted
from millstream.store.duckdb.deltas import has_rows
from millstream.store.duckdb.moment import NAMED, Moment
from millstream.store.duckdb.naming import internal, public
from millstream.store.duckdb.writing import Statements

_RANKED = "__ranked"


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

    def merge(self, statements: Statements, delta: pa.Table | None) -> None:
        view = self.view
        if delta is not None and delta.num_rows:
            is_open = ""
            if view.window is not None and view.windows_close:
                is_open = f" WHERE NOT {view.window.is_late_sql('__pane', f'{NAMED.before} - {view.lateness}')}"
            with statements.handed(delta) as relation:
                come = f"{self._columns} FROM {relation}{is_open}"
                steps = [f"INSERT INTO {self._rows} SELECT {NAMED.epoch}, {NAMED.now}, __t, {come}"]
                if not view.only_grows:
                    steps.append(noted(view.name, header(NAMED, ADD, "insert"), come))
                statements.run(steps, delta.num_rows)
        old = "false"
        if view.retain is not None:
            # By event time where there is one; rows without it age by when they came.
            old = f"coalesce(__t <= {NAMED.after} - {view.retain}, __at <= {NAMED.now} - {view.retain})"
        gone = f"{self._columns} FROM {self._rows} WHERE {old}"
        if statements.changes is not None:
            come = f"SELECT * FROM {self._rows} WHERE __epoch = {NAMED.epoch}"
            statements.changes.put(removed_sql=f"SELECT {gone}", added_sql=come)
        if view.retain is not None:
            statements.execute(noted(view.name, header(NAMED, FORGET, "retract", LATE, final="true"), gone))
            statements.execute(f"DELETE FROM {self._rows} WHERE {old}")

    def let_go(self, connection: duckdb.DuckDBPyConnection, at: Moment) -> None:
        """Drop kept rows that nothing can need any more, once all that reads them is up to date."""
        view = self.view
        if view.horizon is not None and at.after > at.before:
            connection.execute(f"DELETE FROM {self._rows} WHERE __t <= {at.after - view.horizon.keep}")
        if view.top is not None:
            names = ", ".join(quote(name) for name in view.top.partition)
            touched = f"(SELECT DISTINCT {names or 'true'} FROM {self._rows} WHERE __epoch = {at.epoch})"
            same = " AND ".join(f"r.{quote(n)} IS NOT DISTINCT FROM t.{quote(n)}" for n in view.top.partition) or "true"
            connection.execute(
                f"CREATE OR REPLACE TEMP TABLE {_RANKED} AS SELECT *, {view.top.ranked()} AS __rank "
                f"FROM {self._rows} r SEMI JOIN {touched} t ON {same}"
            )
            if has_rows(connection, f"{_RANKED} WHERE __rank > {view.top.count}"):
                # By keys, since some of them are of the epoch itself (`store/duckdb/writing.py`).
                connection.execute(f"DELETE FROM {self._rows} r USING {touched} t WHERE {same}")
                stay = f"SELECT * EXCLUDE (__rank) FROM {_RANKED} WHERE __rank <= {view.top.count}"
                connection.execute(f"INSERT INTO {self._rows} {stay}")

    def next_due_at(self, connection: duckdb.DuckDBPyConnection) -> int | None:
        return None
