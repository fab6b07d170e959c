"""Aggregating views in the store: merging deltas into the state.

The state of a view has a row per group (and window): keys, `__ws` (window start in microseconds),
accumulators `__a0`…, `__fired` (how many panes were published). There is no index: groups are
found by a hash join, which for the many rows of an epoch is faster and costs nothing to maintain.
Those that change are taken out and put back: few in one statement, which finds them and removes them
in one go; many step by step, which DuckDB spreads over its threads.

This module owns the state table and live views (`EMIT ON EPOCH`, accumulating or retracting),
whose relation is computed from the state itself. `triggered.py` owns the others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from millstream.duck import quote
from millstream.plan.aggregates import Accumulator
from millstream.plan.identities import add_op
from millstream.plan.nodes import AggregateView, prefixed
from millstream.plan.windows import CountWindow, Window
from millstream.store.duckdb.changelog import ADD, EARLY, FORGET, LATE, REMOVE, create_changelog, header, noted
from millstream.store.duckdb.moment import NAMED, Moment
from millstream.store.duckdb.naming import internal, public
from millstream.store.duckdb.writing import Statements, are_few, chained

DELTA = "__delta"
"""The name under which the delta of an epoch is registered."""
MERGED = "__m"
"""The groups that an epoch touches as they are after it, while it is merged."""
TAKEN = "__taken"
"""The same as they were before it."""


@dataclass(frozen=True, slots=True)
class StateSQL:
    """SQL fragments over the state of one view."""

    view: AggregateView

    @property
    def table(self) -> str:
        return internal(self.view.name, "state")

    @property
    def group(self) -> list[str]:
        """The columns that identify a row of the state."""
        return [*self.keys, "__ws"] if self.view.window is not None else self.keys

    @property
    def keys(self) -> list[str]:
        return [f"__k{index}" for index in range(len(self.view.keys))]

    @property
    def accumulators(self) -> list[str]:
        return [kept.column for kept in self.view.kept]

    def closes_at(self) -> str:
        """The instant of event time after which no row can reach the group."""
        return f"{self.ends_at()} + {self.view.lateness}"

    def ends_at(self) -> str:
        """The watermark at which the window is complete."""
        assert self.view.window is not None
        assert not isinstance(self.view.window, CountWindow)
        return self.view.window.complete_sql

    def loads(self) -> list[str]:
        """The accumulators of a row of the delta, in their kept form."""
        return [f"{kept.load()} AS {kept.column}" for kept in self.view.kept]

    def combined(self) -> list[str]:
        """The accumulators of several rows as one."""
        return [
            f"{_in_one_order(kept.accumulator).replace('{x}', kept.column)} AS {kept.column}" for kept in self.view.kept
        ]

    def combined_over(self, frame: str) -> list[str]:
        """The accumulators of the rows of a named window frame as one."""
        return [
            f"{over(kept.accumulator.combine, frame).replace('{x}', kept.column)} AS {kept.column}"
            for kept in self.view.kept
        ]

    def loaded(self, delta: str, repeats: bool) -> str:
        """The delta per group and open window: accumulators in their kept form. `repeats` says whether a group
        may be in several rows of it."""
        view = self.view
        window, keys, loads = view.window, self.keys, self.loads()
        if window is None:
            rows = f"SELECT {', '.join([*keys, '__rows', *loads])} FROM {delta}"
            return self._grouped(rows, "") if repeats else rows
        assert isinstance(window, Window)
        is_open = f"WHERE {self.closes_at()} > {NAMED.before}" if view.windows_close else ""
        if window.is_tumbling and not window.on_clock:
            rows = f"SELECT {', '.join([*keys, '__pane AS __ws', '__rows', *loads])} FROM {delta}"
            return self._grouped(rows, is_open) if repeats else f"SELECT * FROM ({rows}) {is_open}"
        source = delta
        if window.on_clock:
            pane = clamped("__pane", *(window.pane_in_store(instant) for instant in (NAMED.before, NAMED.now)))
            source = f"(SELECT * REPLACE ({pane} AS __pane) FROM {delta})"
        newest = window.newest_start_sql("__pane")
        starts = f"unnest(range({newest}, __pane - {window.size}, -{window.slide}))"
        spread = f"SELECT {', '.join([*keys, f'{starts} AS __ws', '__rows', *loads])} FROM {source}"
        return self._grouped(spread, is_open)

    def _grouped(self, rows: str, where: str) -> str:
        """Loaded rows, one for each group."""
        total = "CAST(sum(__rows) AS BIGINT) AS __rows"
        by = f"GROUP BY {', '.join(self.group)}" if self.group else "HAVING count(*) > 0"
        return f"SELECT {', '.join([*self.group, total, *self.combined()])} FROM ({rows}) {where} {by}"

    def nullable(self, delta: pa.Table) -> frozenset[str]:
        """The keys in which NULL must be found like a value. DuckDB finds equal values in half the time that it takes
        for those that may be NULL: it asks a filter before it looks them up."""
        values = {name: delta.column(name) for name in self.keys}
        return frozenset(n for n, column in values.items() if pa.types.is_nested(column.type) or column.null_count)

    def joined(self, nullable: frozenset[str], state: str) -> str:
        """The loaded rows `d`, each with the row `s` of its group, if there is one."""
        return f"d LEFT JOIN {state} s ON {self._same(nullable)}"

    def taking(self, loaded: str, nullable: frozenset[str]) -> tuple[str, str]:
        """What begins a statement that merges few rows: the loaded ones are `d`, and what was kept of their groups is
        moved from the state to `TAKEN`."""
        taken = f"DELETE FROM {self.table} s USING d WHERE {self._same(nullable)} RETURNING s.*"
        return f"d AS MATERIALIZED ({loaded})", f"{TAKEN} AS ({taken})"

    def remove(self) -> str:
        """What takes the groups of `MERGED` out of the state, if there they have their row ids `__rid`."""
        return f"DELETE FROM {self.table} WHERE rowid IN (SELECT __rid FROM {MERGED})"

    def _same(self, nullable: frozenset[str]) -> str:
        """Whether the rows `d` and `s` are of one group."""
        same = {name: "IS NOT DISTINCT FROM" if name in nullable else "=" for name in self.group}
        return " AND ".join(f"s.{name} {equals} d.{name}" for name, equals in same.items()) or "true"

    def merged(self) -> list[str]:
        """Each accumulator after the merge."""
        return [
            f"CASE WHEN s.__fired IS NULL THEN d.{kept.column} ELSE "
            f"{kept.merged(f's.{kept.column}', f'd.{kept.column}')} END AS {kept.column}"
            for kept in self.view.kept
        ]

    def outputs(self, prefix: str = "") -> list[str]:
        return [prefixed(output.sql, prefix) if prefix else output.sql for output in self.view.outputs]

    def having(self, prefix: str = "") -> str:
        if self.view.having is None:
            return "true"
        sql = prefixed(self.view.having, prefix) if prefix else self.view.having
        return f"coalesce({sql}, false)"

    def final(self) -> str:
        """Whether the pane being published is the last its window can have."""
        return f"{self.closes_at()} <= {NAMED.after}" if self.view.windows_close else "false"

    def named_outputs(self) -> str:
        return ", ".join(
            f"{sql} AS {quote(out.name)}" for sql, out in zip(self.outputs(), self.view.outputs, strict=True)
        )


_COMBINING = re.compile(r"\b(?:sum|min|max|list)\(\{x\}\)(?: FILTER \(WHERE \{x\} IS NOT NULL\))?")


def _in_one_order(accumulator: Accumulator) -> str:
    """A `combine` that gives the same for the same values: DuckDB's threads add them in any order."""
    if not accumulator.floating:
        return accumulator.combine
    return re.sub(r"\b(sum|list)\(\{x\}\)", r"\1({x} ORDER BY {x})", accumulator.combine)


def over(combine: str, frame: str) -> str:
    """A `combine` of `plan.aggregates` over a window frame instead of a group.

    >>> over("CAST(sum({x}) AS DECIMAL(38, 2))", "w")
    'CAST(sum({x}) OVER w AS DECIMAL(38, 2))'
    """
    text, count = _COMBINING.subn(lambda call: f"{call.group()} OVER {frame}", combine)
    assert count == 1, f"{combine} is not one aggregate"
    return text


def clamped(instant: str, before: str = NAMED.before, now: str = NAMED.now) -> str:
    """A row's processing time: when it landed, but not in what is closed already, nor ahead of the
    clock. A row that does not say when it landed does so now."""
    return f"greatest(least(coalesce({instant}, {now}), {now}), {before})"


def create_state(connection: duckdb.DuckDBPyConnection, view: AggregateView, delta: pa.Schema, extra: str) -> None:
    """Create the state table; the types follow from the delta's."""
    sql = StateSQL(view)
    window = ["__pane AS __ws"] if view.window is not None else []
    columns = ", ".join([*sql.keys, *window, *sql.loads(), "CAST(0 AS BIGINT) AS __fired", "CAST(0 AS BIGINT) AS __at"])
    connection.register(DELTA, delta.empty_table())
    connection.execute(f"CREATE TABLE {sql.table} AS SELECT {columns}{extra} FROM {DELTA} LIMIT 0")
    connection.unregister(DELTA)


@dataclass(frozen=True, slots=True)
class _Merge:
    """The SQL that merges a delta into the state of a live view."""

    view: AggregateView
    relation: str
    """The delta."""
    nullable: frozenset[str]
    feeds: bool
    repeats: bool

    def at_once(self) -> str:
        """One statement for all of it; others cannot learn from it what has changed."""
        if self.view.is_global and not self._needs_old:
            return self._replaced()
        sql = StateSQL(self.view)
        merged = f"{MERGED} AS MATERIALIZED ({self._merged(TAKEN)})"
        return chained([*self._published(), self._put()], *sql.taking(self._loaded, self.nullable), merged)

    def merged(self) -> str:
        """The query of `MERGED`, as a table for the steps."""
        return f"WITH d AS ({self._loaded}) {self._merged(StateSQL(self.view).table, 's.rowid AS __rid')}"

    def steps(self) -> list[str]:
        """What is then done with it."""
        return [*self._published(), StateSQL(self.view).remove(), self._put()]

    @property
    def _loaded(self) -> str:
        return StateSQL(self.view).loaded(self.relation, self.repeats)

    def _merged(self, state: str, *more: str) -> str:
        """The groups of `d` after the epoch; `state` has them before it."""
        sql = StateSQL(self.view)
        columns = [*(f"d.{name}" for name in sql.group), "coalesce(s.__fired, 0) AS __fired", *sql.merged(), *more]
        results = ""
        if self._needs_old:
            columns += ["s.__fired IS NOT NULL AS __was", *(f"s.{name} AS old{name}" for name in sql.accumulators)]
            outputs = {f"__n{index}": out for index, out in enumerate(sql.outputs())}
            outputs |= {f"__o{index}": out for index, out in enumerate(sql.outputs("old"))}
            outputs |= {"__show": sql.having(), "__shown": f"__was AND {sql.having('old')}"}
            results = "".join(f", {out} AS {name}" for name, out in outputs.items())
        return f"SELECT *{results} FROM (SELECT {', '.join(columns)} FROM {sql.joined(self.nullable, state)})"

    def removed(self) -> str:
        """The rows of the view that change or go, if it feeds others."""
        return f"SELECT {self._old} FROM {MERGED} WHERE __shown AND {self._changed}"

    def added(self) -> str:
        """The rows that come in their place."""
        return f"SELECT {self._new} FROM {MERGED} WHERE {self._shown}"

    @property
    def _needs_old(self) -> bool:
        """Whether it matters what was there before: where it may be what is there now, or is published itself."""
        view = self.view
        retracts = view.trigger.accumulation == "retracting"
        return self.feeds or retracts or not view.always_changes or view.having is not None

    @property
    def _new(self) -> str:
        """The values of a row of `MERGED` after the epoch."""
        outputs = StateSQL(self.view).outputs()
        return ", ".join(f"__n{index}" if self._needs_old else out for index, out in enumerate(outputs))

    @property
    def _old(self) -> str:
        """Those before it, if they matter."""
        return ", ".join(f"__o{index}" for index in range(len(self.view.outputs)))

    @property
    def _changed(self) -> str:
        if not self._needs_old:
            return "true"
        return f"(__show <> __shown OR (__show AND row({self._new}) IS DISTINCT FROM row({self._old})))"

    @property
    def _shown(self) -> str:
        """Whether a new value is published."""
        return f"__show AND {self._changed}" if self._needs_old else "true"

    def _published(self) -> list[str]:
        """What notes the changes in the changelog, if there is one."""
        view, sql = self.view, StateSQL(self.view)
        if view.hidden:
            return []
        pane = f"IF({sql.ends_at()} <= {NAMED.before}, {LATE}, {EARLY})" if view.windows_close else EARLY
        tail = pane, "__fired", sql.final()
        head = header(NAMED, ADD, add_op(view), *tail)
        add = noted(view.name, head, f"{self._new} FROM {MERGED} WHERE {self._shown}")
        removes_always = view.trigger.accumulation == "retracting"
        if not removes_always and view.having is None:
            return [add]
        op = "retract" if removes_always else "delete"
        condition = "__shown" if removes_always else "__shown AND NOT __show"
        head = header(NAMED, REMOVE, op, *tail)
        return [noted(view.name, head, f"{self._old} FROM {MERGED} WHERE {condition} AND {self._changed}"), add]

    def _put(self) -> str:
        """What puts the groups of `MERGED` into the state."""
        sql = StateSQL(self.view)
        fired = f"__fired + CAST({self._changed} AS BIGINT) AS __fired"
        values = ", ".join([*sql.group, *sql.accumulators, fired, f"{NAMED.now} AS __at"])
        return f"INSERT INTO {sql.table} BY NAME SELECT {values} FROM {MERGED}"

    def _replaced(self) -> str:
        """All of it for a group over all rows whose every change is published: no row has to be found."""
        view, sql = self.view, StateSQL(self.view)
        kept = {kept.column: kept.merged(f"s.{kept.column}", f"d.{kept.column}") for kept in view.kept}
        kept |= {"__fired": "s.__fired + 1", "__at": NAMED.now}
        assign = ", ".join(f"{name} = {value}" for name, value in kept.items())
        update = f"UPDATE {sql.table} s SET {assign} FROM ({sql.loaded(self.relation, self.repeats)}) d"
        if view.hidden:
            return update
        head = header(NAMED, ADD, add_op(view), EARLY, "__fired - 1")
        published = noted(view.name, head, f"{self._new} FROM {MERGED}")
        return f"WITH {MERGED} AS ({update} RETURNING {', '.join(kept)}) {published}"


@dataclass(frozen=True, slots=True)
class LiveAggregate:
    """A view whose every change is published in its epoch."""

    view: AggregateView

    def create(self, connection: duckdb.DuckDBPyConnection, delta: pa.Schema, epoch: int, now: int) -> None:
        view, sql = self.view, StateSQL(self.view)
        create_state(connection, view, delta, "")
        self.show(connection)
        if not view.hidden:
            create_changelog(connection, view.name, public(view.name))
        if view.is_global:
            # An aggregate over no rows is a row.
            connection.execute(f"INSERT INTO {sql.table} (__fired, __at) VALUES (0, {now})")
        if view.is_global and not view.hidden:
            head = header(Moment(epoch, now), ADD, add_op(view))
            connection.execute(noted(view.name, head, f"* FROM {public(view.name)}"))
            connection.execute(f"UPDATE {sql.table} SET __fired = (SELECT count(*) FROM {public(view.name)})")

    def show(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create what readers see."""
        view, sql = self.view, StateSQL(self.view)
        connection.execute(
            f"CREATE VIEW {public(view.name)} AS SELECT {sql.named_outputs()} FROM {sql.table} WHERE {sql.having()}"
        )

    def merge(self, statements: Statements, delta: pa.Table | None, *, repeats: bool = False) -> None:
        if delta is not None and delta.num_rows:
            rows, feeds, nullable = delta.num_rows, statements.changes is not None, StateSQL(self.view).nullable(delta)
            with statements.handed(delta) as relation:
                merge = _Merge(self.view, relation, nullable, feeds, repeats)
                if not feeds and are_few(rows):
                    statements.execute(statements.known((nullable, repeats), merge.at_once))
                else:
                    self._merge(statements, merge, rows)
        self._forget(statements)

    def _merge(self, statements: Statements, merge: _Merge, rows: int) -> None:
        """What takes several statements."""
        statements.make(MERGED, merge.merged())
        if statements.changes is not None:
            statements.changes.note(removed_sql=merge.removed(), added_sql=merge.added())
        statements.run(merge.steps(), rows)

    def _forget(self, statements: Statements) -> None:
        """Drop what is older than the view retains, and say so in the changelog."""
        view, sql = self.view, StateSQL(self.view)
        if view.retain is None or view.is_global:
            return
        if view.windows_close:
            old = f"{sql.ends_at()} <= {NAMED.after} - {view.retain}"
        else:
            old = f"__at <= {NAMED.now} - {view.retain}"
        final = "true" if view.windows_close else "false"
        op = "retract" if view.trigger.accumulation == "retracting" else "delete"
        gone = f"{', '.join(sql.outputs())} FROM {sql.table} WHERE {old} AND {sql.having()}"
        statements.execute(noted(view.name, header(NAMED, FORGET, op, LATE, "__fired", final), gone))
        if statements.changes is not None:
            statements.changes.note(removed_sql=f"SELECT {gone}")
        statements.execute(f"DELETE FROM {sql.table} WHERE {old}")

    def next_due_at(self, connection: duckdb.DuckDBPyConnection) -> int | None:
        return None
