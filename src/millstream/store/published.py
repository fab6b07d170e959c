"""What a view of windows of keys has published, and the changes of an epoch to it.

Owns two tables: `shown`, the published rows of windows that are still open, each with the id `__sid`
of its window, and `rows`, those of closed windows, which nothing can change any more (with
DISCARDING and for count windows, all panes). The relation that readers see is both of them.

A maintainer puts the windows that fire into `FIRED` and calls `publish`. Every change goes through
one place: the temporary tables `REMOVED` and `ADDED` hold the rows that leave and enter the
relation in an epoch, under their output names, and the changelog is written from them. A row that
is replaced in place is in both; the changelog then has an upsert alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from millstream.plan.nodes import AggregateView
from millstream.plan.windows import CountWindow
from millstream.sql import quote
from millstream.store.aggregate import StateSQL
from millstream.store.changelog import (
    ADD,
    FORGET,
    LATE,
    REMOVE,
    changes_table,
    create_changelog,
    header,
    is_of,
)
from millstream.store.firing import PANE
from millstream.store.moment import Moment
from millstream.store.naming import added, internal, public, removed

FIRED = "__fired_windows"
"""`__sid`, `__end`, `__fired`, `__kind`, `__final`, `__show` and the new values `__n0`…"""
REMOVED, ADDED = "__removed", "__added"


def new_id(at: Moment) -> str:
    """An id for each row of a query: unique without a counter, by the epoch and a number within it."""
    return f"{at.epoch * 2**31} + row_number() OVER ()"


@dataclass(frozen=True, slots=True)
class Published:
    view: AggregateView

    @property
    def rows(self) -> str:
        return internal(self.view.name, "rows")

    @property
    def shown(self) -> str:
        return internal(self.view.name, "shown")

    @property
    def columns(self) -> list[str]:
        return [quote(out.name) for out in self.view.outputs]

    @property
    def _retracting(self) -> bool:
        return self.view.trigger.accumulation == "retracting"

    @property
    def _appends(self) -> bool:
        """Whether what is published is never replaced."""
        return self.view.trigger.accumulation == "discarding" or isinstance(self.view.window, CountWindow)

    def create(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the tables; the types follow from the state, which is there already."""
        sql = StateSQL(self.view)
        for table, window in ((self.shown, "CAST(0 AS BIGINT) AS __sid, "), (self.rows, "")):
            connection.execute(
                f"CREATE TABLE {table} AS SELECT {window}CAST(0 AS BIGINT) AS __end, CAST(0 AS BIGINT) AS __at, "
                f"{sql.named_outputs()} FROM {sql.table} LIMIT 0"
            )
        self.show(connection)
        create_changelog(connection, self.view.name, public(self.view.name))

    def show(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create what readers see."""
        own = ", ".join(self.columns)
        connection.execute(
            f"CREATE VIEW {public(self.view.name)} AS "
            f"SELECT {own} FROM {self.rows} UNION ALL SELECT {own} FROM {self.shown}"
        )

    def begin(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Start an epoch: nothing has changed yet."""
        for table in (REMOVED, ADDED):
            connection.execute(
                f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT * FROM {changes_table(self.view.name)} LIMIT 0"
            )

    def feed(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Hand the changes of the epoch to the views that read this one."""
        own = ", ".join(self.columns)
        for table, changes in ((removed(self.view.name), REMOVED), (added(self.view.name), ADDED)):
            connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT {own} FROM {changes}")

    def publish(self, connection: duckdb.DuckDBPyConnection, at: Moment) -> None:
        """Publish what `FIRED` holds, and add to it whether it `__published` anything.

        A live view publishes changes only. Of the rows that a window had published, several if it
        was merged from several, all go; an upsert replaces one with the same key by itself.
        """
        own = ", ".join(self.columns)
        new = [f"__n{index}" for index in range(len(self.columns))]
        if self._appends:
            self._append(connection, at)
            return
        olds = ", ".join(f"first({column}) AS __o{index}" for index, column in enumerate(self.columns))
        same = "false"
        if self.view.trigger.is_live:
            pairs = [f"{name} IS NOT DISTINCT FROM __o{index}" for index, name in enumerate(new)]
            same = f"__count = 1 AND __show AND {' AND '.join(pairs)}"
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {FIRED} AS SELECT f.*, "
            f"NOT coalesce({same}, false) AND (__show OR __count IS NOT NULL) AS __published FROM {FIRED} f LEFT JOIN "
            f"(SELECT __sid, count(*) AS __count, {olds} FROM {self.shown} "
            f"WHERE __sid IN (SELECT __sid FROM {FIRED}) GROUP BY __sid) USING (__sid)"
        )
        keys = [index for index, out in enumerate(self.view.outputs) if out.name in self.view.key_columns]
        moved = " OR ".join(f"f.__n{index} IS DISTINCT FROM s.{self.columns[index]}" for index in keys) or "false"
        # What an upsert replaces needs no word of its own.
        op, when = ("retract", "") if self._retracting else ("delete", f"NOT f.__show OR {moved}")
        old = ", ".join(f"s.{column}" for column in self.columns)
        connection.execute(
            f"INSERT INTO {REMOVED} SELECT {header(at, REMOVE, op, *PANE, when)}, {old} "
            f"FROM {self.shown} s JOIN {FIRED} f USING (__sid) WHERE __published ORDER BY s.__end, __sid"
        )
        self._log(connection, REMOVED, REMOVE)
        self._add(connection, at, "insert" if self._retracting else "upsert")
        connection.execute(f"DELETE FROM {self.shown} WHERE __sid IN (SELECT __sid FROM {FIRED} WHERE __published)")
        connection.execute(
            f"INSERT INTO {self.shown} (__sid, __end, __at, {own}) "
            f"SELECT __sid, __end, {at.now}, {', '.join(new)} FROM {FIRED} WHERE __published AND __show"
        )

    def _append(self, connection: duckdb.DuckDBPyConnection, at: Moment) -> None:
        """Panes that nothing will replace."""
        new = ", ".join(f"__n{index}" for index in range(len(self.columns)))
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {FIRED} AS SELECT *, __show AS __published FROM {FIRED}")
        self._add(connection, at, "insert")
        connection.execute(f"INSERT INTO {self.rows} SELECT __end, {at.now}, {new} FROM {FIRED} WHERE __show")

    def _add(self, connection: duckdb.DuckDBPyConnection, at: Moment, op: str) -> None:
        new = ", ".join(f"__n{index}" for index in range(len(self.columns)))
        connection.execute(
            f"INSERT INTO {ADDED} SELECT {header(at, ADD, op, *PANE)}, {new} "
            f"FROM {FIRED} WHERE __published AND __show ORDER BY __end, __sid"
        )
        self._log(connection, ADDED, ADD)

    def _log(self, connection: duckdb.DuckDBPyConnection, changes: str, order: int) -> None:
        if self.view.hidden:
            return
        connection.execute(
            f"INSERT INTO {changes_table(self.view.name)} SELECT * FROM {changes} WHERE {is_of(order)} ORDER BY rowid"
        )

    def follow(self, connection: duckdb.DuckDBPyConnection, moves: str) -> None:
        """Windows have become one: their published rows belong to it now. `moves` has `__old` and `__sid`."""
        connection.execute(
            f"UPDATE {self.shown} SET __sid = m.__sid FROM {moves} m "
            f"WHERE {self.shown}.__sid = m.__old AND m.__old <> m.__sid"
        )

    def close(self, connection: duckdb.DuckDBPyConnection, closed: str) -> None:
        """Keep the published rows of windows that are closed; `closed` is a query of their ids."""
        of_closed = f"__sid IN ({closed})"
        own = ", ".join(["__end", "__at", *self.columns])
        connection.execute(f"INSERT INTO {self.rows} SELECT {own} FROM {self.shown} WHERE {of_closed}")
        connection.execute(f"DELETE FROM {self.shown} WHERE {of_closed}")

    def forget(self, connection: duckdb.DuckDBPyConnection, at: Moment, state: str | None) -> None:
        """Drop what is older than the view retains, and say so in the changelog.

        By the window's end where something closes it; else by when it last changed, with its row
        of the state, if there is one for a window.
        """
        view = self.view
        if view.retain is None:
            return
        stale = f"__at <= {at.now - view.retain}"
        old = {self.rows: f"__end <= {at.after - view.retain}"}
        if not view.windows_close:
            old = {self.rows: stale}
        if not view.windows_close and state is not None:
            old |= {self.shown: f"__sid IN (SELECT __sid FROM {state} WHERE {stale})"}
        op = "retract" if self._retracting or self._appends else "delete"
        final = "true" if view.windows_close else "false"
        for table, condition in old.items():
            connection.execute(
                f"INSERT INTO {REMOVED} SELECT {header(at, FORGET, op, LATE, final=final)}, "
                f"{', '.join(self.columns)} FROM {table} WHERE {condition}"
            )
            connection.execute(f"DELETE FROM {table} WHERE {condition}")
        if not view.windows_close and state is not None:
            connection.execute(f"DELETE FROM {state} WHERE {stale}")
        self._log(connection, REMOVED, FORGET)
