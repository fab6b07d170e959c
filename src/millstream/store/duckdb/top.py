"""The best rows of each partition of a stream, by a rank: top-n, first and last per key.

The table `rows` has them once: the columns of the delta, the event time `__t` and, where it is
shown, the rank `__rank`. What readers see is computed from it. What always holds: no kept row has
a rank that is too high, and no row that was let go could ever have a better one, since
rows of a stream only come.

A merge ranks what came together with what was kept of the same partitions, by the columns of the
partition and the order alone; whole rows are read where they are shown or written.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from millstream.duck import quote
from millstream.plan.identities import add_op
from millstream.plan.nodes import TopView
from millstream.store.duckdb.aggregate import DELTA
from millstream.store.duckdb.changelog import ADD, REMOVE, create_changelog, header, noted
from millstream.store.duckdb.moment import NAMED
from millstream.store.duckdb.naming import internal, listed, public
from millstream.store.duckdb.writing import Statements, in_order

# What a merge does, a row each: `__rid` of a kept row or `__n` of a new one, and its rank `__now`.
_MOVES = "temp.__moves"
# The rows that are not seen any more, and those that are seen now instead; all of the former before they are netted.
_GONE, _COME, _ALL_GONE = "temp.__gone", "temp.__come", "temp.__all_gone"


@dataclass(frozen=True, slots=True)
class TopRows:
    view: TopView

    @property
    def _rows(self) -> str:
        return internal(self.view.name, "rows")

    @property
    def _columns(self) -> str:
        """What is kept of a row of the delta."""
        return listed(("__t", *(name for name, _ in self.view.columns)))

    def create(self, connection: duckdb.DuckDBPyConnection, delta: pa.Schema, epoch: int, now: int) -> None:
        connection.register(DELTA, delta.empty_table())
        rank = ", CAST(0 AS BIGINT) AS __rank" if self.view.shows_rank else ""
        connection.execute(f"CREATE TABLE {self._rows} AS SELECT {self._columns}{rank} FROM {DELTA} LIMIT 0")
        connection.unregister(DELTA)
        self.show(connection)
        if not self.view.hidden:
            create_changelog(connection, self.view.name, public(self.view.name))

    def show(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create what readers see."""
        connection.execute(f"CREATE VIEW {public(self.view.name)} AS {self._shown(self._rows)}")

    def _shown(self, rows: str, *, keyed: bool = False) -> str:
        """What is seen of rows that have the columns of the table; with their partition, if that is asked for."""
        view = self.view
        outputs = [f"{out.sql} AS {quote(out.name)}" for out in view.outputs]
        if keyed:
            outputs += [f"{quote(name)} AS __key{index}" for index, name in enumerate(view.top.partition)]
        where = f" WHERE {view.condition}" if view.condition is not None else ""
        return f"SELECT {', '.join(outputs)} FROM {rows}{where}"

    # -- the epoch -----------------------------------------------------------------------------

    def merge(self, statements: Statements, delta: pa.Table | None) -> None:
        if delta is None or not delta.num_rows:
            return
        numbered = delta.append_column("__n", pa.array(np.arange(delta.num_rows)))
        with statements.handed(numbered) as relation:
            loses = self._rank(statements, relation)
            steps = [*self._published(statements, relation, loses), *self._kept(relation, loses)]
            statements.run(steps, delta.num_rows)

    def _rank(self, statements: Statements, delta: str) -> bool:
        """Find the new rows that stay, and the kept ones that go or get another rank; whether there are such."""
        view, top = self.view, self.view.top
        same = " AND ".join(f"r.{quote(name)} IS NOT DISTINCT FROM d.{quote(name)}" for name in top.partition)
        was = "__rank" if view.shows_rank else "NULL"
        # Of rows that the order leaves equal, the one that was there stays in front.
        ranked = top.ranked(", __was, __rid NULLS LAST" if top.numbers_rows else "")
        candidates = (
            f"SELECT NULL AS __rid, __n, NULL AS __was, {self._columns} FROM {delta} UNION ALL "
            f"SELECT r.rowid, NULL, {was}, {self._columns} FROM {self._rows} r SEMI JOIN {delta} d ON {same or 'true'}"
        )
        statements.make(
            _MOVES,
            f"SELECT __rid, __n, __now FROM (SELECT __rid, __n, __was, {ranked} AS __now FROM ({candidates})) "
            f"WHERE CASE WHEN __rid IS NULL THEN __now <= {top.count} ELSE __now > {top.count} OR __now <> __was END",
        )
        return statements.execute(f"SELECT count(__rid) FROM {_MOVES}") > 0

    def _published(self, statements: Statements, delta: str, loses: bool) -> list[str]:
        """What says what is not seen any more and what is seen from now on."""
        view = self.view
        kept = f"FROM {self._rows} r JOIN {_MOVES} m ON r.rowid = m.__rid"
        come = f"SELECT {self._columns}, __now AS __rank FROM {delta} JOIN {_MOVES} USING (__n)"
        moves = loses and view.shows_rank
        if moves:
            come += f" UNION ALL SELECT {self._columns}, m.__now {kept} WHERE m.__now <= {view.top.count}"
        gone, come = (self._shown(f"({rows})", keyed=True) for rows in (f"SELECT r.* {kept}", come))
        relation = f"({come})"
        if loses:
            statements.make(_GONE, gone)
        repeats = loses and self._repeats(statements, relation)
        # What reads the kept rows is read before they change.
        if repeats or moves or statements.changes is not None:
            relation = _COME
            statements.make(_COME, come)
        if repeats:
            self._net(statements)
        own = listed(out.name for out in view.outputs)
        if statements.changes is not None:
            removed_sql = f"SELECT {own} FROM {_GONE}" if loses else None
            statements.changes.note(removed_sql=removed_sql, added_sql=f"SELECT {own} FROM {_COME}")
        if view.hidden:
            return []
        steps = [noted(view.name, header(NAMED, REMOVE, "retract"), f"{own} FROM {_GONE}")] if loses else []
        return [*steps, noted(view.name, header(NAMED, ADD, add_op(view)), f"{own} FROM {relation}")]

    def _repeats(self, statements: Statements, come: str) -> bool:
        """Whether a row looks like one of the same partition that goes."""
        names = [quote(out.name) for out in self.view.outputs]
        names += [f"__key{index}" for index in range(len(self.view.top.partition))]
        same = " AND ".join(f"c.{name} IS NOT DISTINCT FROM g.{name}" for name in names)
        return statements.count(f"{come} c SEMI JOIN {_GONE} g ON {same}") > 0

    def _net(self, statements: Statements) -> None:
        """A row that looks like the one it replaces is no change."""
        statements.make(_ALL_GONE, f"SELECT * FROM {_GONE}")
        for table, less in ((_GONE, _COME), (_COME, _ALL_GONE)):
            statements.make(table, f"SELECT * FROM {table} EXCEPT ALL SELECT * FROM {less}")

    def _kept(self, delta: str, loses: bool) -> list[str]:
        """What brings the table to what the ranks say."""
        view, count = self.view, self.view.top.count
        steps = []
        if loses:
            steps.append(f"DELETE FROM {self._rows} WHERE rowid IN (SELECT __rid FROM {_MOVES} WHERE __now > {count})")
        if loses and view.shows_rank:
            steps.append(
                f"UPDATE {self._rows} AS r SET __rank = m.__now FROM {in_order(_MOVES, '__rid', 'm')} "
                f"WHERE r.rowid = m.__rid AND m.__now <= {count}"
            )
        rank = ", __now" if view.shows_rank else ""
        return [
            *steps,
            f"INSERT INTO {self._rows} SELECT {self._columns}{rank} FROM {delta} JOIN {_MOVES} USING (__n)",
        ]

    def next_due_at(self, connection: duckdb.DuckDBPyConnection) -> int | None:
        return None
