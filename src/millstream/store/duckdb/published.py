"""What a view of windows of keys has published, and the changes of an epoch to it.

Owns two tables: `shown`, the published rows of windows that are still open, each with the id `__sid`
of its window, and `rows`, those of closed windows, which nothing can change any more (with
DISCARDING and for count windows, all panes). The relation that readers see is both of them.

A maintainer says which windows fire and what they show now (`find`), then publishes them (`publish`). The table
`FIRED` has them with the rows that they have shown so far, so that all that follows reads nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from millstream.duck import quote
from millstream.plan.nodes import AggregateView
from millstream.plan.windows import CountWindow, SessionWindow
from millstream.store.duckdb.aggregate import StateSQL
from millstream.store.duckdb.changelog import ADD, FORGET, LATE, REMOVE, create_changelog, header, noted
from millstream.store.duckdb.firing import PANE, note_fired
from millstream.store.duckdb.moment import NAMED
from millstream.store.duckdb.naming import internal, public
from millstream.store.duckdb.writing import Statements, are_few

FIRED = "__fired_windows"
"""A row for every row that a window which fires has shown, or one if it has shown none.

As the maintainer says: `__rid` of the state, `__sid`, `__end`, `__fired`, `__kind`, `__final`, `__show` and the new
values `__n0`…. Then `__old` and `__old_end`, the row that was shown, its values `__o0`…, `__nth`, which is 1 for
one of the rows of a window, and whether the window `__published` anything."""


def new_id(group: Sequence[str]) -> str:
    """An id for each row of a query: unique without a counter, by the epoch and a number within it.

    Numbered by what tells the rows apart, so that the same rows always have the same ids.
    """
    return f"{NAMED.epoch} * {2**31} + row_number() OVER (ORDER BY {', '.join(group)})"


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

    def find(self, statements: Statements, fired: str) -> int:
        """Put windows that fire into `FIRED`, and say how many rows that is.

        A live view publishes changes only. Of the rows that a window had published, several if it
        was merged from several, all go; an upsert replaces one with the same key by itself.
        """
        if self._appends:
            return statements.make(FIRED, f"SELECT *, 1 AS __nth, __show AS __published FROM ({fired})")
        count, nth, several = "CAST(s.rowid IS NOT NULL AS BIGINT)", "1", ""
        if isinstance(self.view.window, SessionWindow):
            # Only sessions become one, and few of them do.
            count, nth = f"coalesce(g.__rows, {count})", "IF(coalesce(g.__first = s.rowid, true), 1, 2)"
            several = (
                f" LEFT JOIN (SELECT __sid, count(*) AS __rows, min(rowid) AS __first FROM {self.shown} "
                "GROUP BY __sid HAVING count(*) > 1) g USING (__sid)"
            )
        olds = ", ".join(f"s.{column} AS __o{index}" for index, column in enumerate(self.columns))
        same = "false"
        if self.view.trigger.is_live:
            pairs = [f"__n{index} IS NOT DISTINCT FROM __o{index}" for index in range(len(self.columns))]
            same = f"__count = 1 AND __show AND {' AND '.join(pairs)}"
        return statements.make(
            FIRED,
            f"SELECT *, NOT coalesce({same}, false) AND (__show OR __count > 0) AS __published FROM ("
            f"SELECT f.*, s.rowid AS __old, s.__end AS __old_end, {olds}, {count} AS __count, {nth} AS __nth "
            f"FROM ({fired}) f LEFT JOIN {self.shown} s USING (__sid){several})",
        )

    def note_fired(self, reset: Sequence[str] = ()) -> str:
        """What notes in the state that the windows of `FIRED` have fired; some accumulators begin anew."""
        fired, more = f"{FIRED} WHERE __nth = 1", [f"{name} = NULL" for name in reset]
        return note_fired(StateSQL(self.view).table, fired, "s.__sid = f.__sid", "f.__published", more)

    def publish(self, statements: Statements, rows: int, then: Sequence[str]) -> None:
        """Publish what `FIRED` holds, which is about so many rows, and do `then` what the maintainer says."""
        gone = f"{self._values('__o')} FROM {FIRED} WHERE __published AND __old IS NOT NULL"
        come = f"{self._values('__n')} FROM {FIRED} WHERE __published AND __show AND __nth = 1"
        if statements.changes is not None:
            removed_sql = None if self._appends else f"SELECT {gone}"
            statements.changes.note(removed_sql=removed_sql, added_sql=f"SELECT {come}")
        if self._appends:
            steps = [*self._noted("insert", come), f"INSERT INTO {self.rows} SELECT __end, {NAMED.now}, {come}"]
        else:
            steps = [*self._removed(gone), *self._noted("insert" if self._retracting else "upsert", come)]
            steps += [
                f"DELETE FROM {self.shown} WHERE __sid IN (SELECT __sid FROM {FIRED} WHERE __published)",
                f"INSERT INTO {self.shown} (__sid, __end, __at, {', '.join(self.columns)}) "
                f"SELECT __sid, __end, {NAMED.now}, {come}",
            ]
        statements.run([*steps, *then], rows)

    def _values(self, prefix: str) -> str:
        return ", ".join(f"{prefix}{index}" for index in range(len(self.columns)))

    def _noted(self, op: str, come: str) -> list[str]:
        if self.view.hidden:
            return []
        return [noted(self.view.name, header(NAMED, ADD, op, *PANE), f"{come} ORDER BY __end, __sid")]

    def _removed(self, gone: str) -> list[str]:
        """What an upsert replaces needs no word of its own."""
        if self.view.hidden:
            return []
        if self._retracting:
            op, when = "retract", ""
        else:
            keys = [index for index, out in enumerate(self.view.outputs) if out.name in self.view.key_columns]
            moved = "".join(f" OR __n{index} IS DISTINCT FROM __o{index}" for index in keys)
            op, when = "delete", f" AND (NOT __show{moved})"
        head = header(NAMED, REMOVE, op, *PANE)
        return [noted(self.view.name, head, f"{gone}{when} ORDER BY __old_end, __sid")]

    def follow(self, moves: str) -> str:
        """What makes published rows belong to the window that theirs has become; `moves` has `__old` and `__sid`."""
        return (
            f"UPDATE {self.shown} SET __sid = m.__sid FROM ({moves}) m "
            f"WHERE {self.shown}.__sid = m.__old AND m.__old <> m.__sid"
        )

    def close(self, statements: Statements, closed: str) -> None:
        """Keep the published rows of windows that are closed; `closed` is a query of their ids."""
        of_closed = f"{self.shown} WHERE __sid IN ({closed})"
        own = ", ".join(["__end", "__at", *self.columns])
        rows = statements.count(of_closed)
        if rows and are_few(rows):
            statements.execute(
                f"WITH closed AS (DELETE FROM {of_closed} RETURNING {own}) INSERT INTO {self.rows} SELECT * FROM closed"
            )
        elif rows:
            statements.execute(f"INSERT INTO {self.rows} SELECT {own} FROM {of_closed}")
            statements.execute(f"DELETE FROM {of_closed}")

    def forget(self, statements: Statements, state: str | None) -> None:
        """Drop what is older than the view retains, and say so in the changelog.

        By the window's end where something closes it; else by when it last changed, with its row
        of the state, if there is one for a window.
        """
        view = self.view
        if view.retain is None:
            return
        stale = f"__at <= {NAMED.now} - {view.retain}"
        old = {self.rows: f"__end <= {NAMED.after} - {view.retain}" if view.windows_close else stale}
        if not view.windows_close and state is not None:
            old |= {self.shown: f"__sid IN (SELECT __sid FROM {state} WHERE {stale})"}
        op = "retract" if self._retracting or self._appends else "delete"
        head = header(NAMED, FORGET, op, LATE, final="true" if view.windows_close else "false")
        for table, condition in old.items():
            gone = f"{', '.join(self.columns)} FROM {table} WHERE {condition}"
            if statements.changes is not None:
                statements.changes.note(removed_sql=f"SELECT {gone}")
            if not view.hidden:
                statements.execute(noted(view.name, head, gone))
            statements.execute(f"DELETE FROM {table} WHERE {condition}")
        if not view.windows_close and state is not None:
            statements.execute(f"DELETE FROM {state} WHERE {stale}")
