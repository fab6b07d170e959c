"""What the connection that writes knows from one epoch to the next.

Small epochs are the same statements again and again, and DuckDB takes as long to parse one and to make a relation of
a delta as to merge it. So statements are parsed once, with the moment as their parameters, and each view has a
relation of its own whose rows are the delta of the moment. What always holds: all of this can be had again. It
may be forgotten at any time, and it is when a transaction fails, which takes new relations back, or a table goes.

Of all that writes: DuckDB 2.0 fails where it looks for rows by their ids in a table to which the same transaction has
already added some. It pushes the ids into the scan as a filter, and then misses rows, changes others and destroys
some. So rows are found by their ids only before a transaction adds any to the table, and by keys afterwards; an update
with RETURNING adds too, if the table has nested columns. The optimizer itself looks for rows by their ids where a
query has a LIMIT (late materialization), so the connection that writes does without that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from millstream.duck import quote
from millstream.duck.connection import ChangingRows
from millstream.store.duckdb.deltas import Changes
from millstream.store.duckdb.moment import Moment

MANY = 50_000


def are_few(rows: int) -> bool:
    """Whether so many rows are worth fewer statements; otherwise one for each step is the faster way."""
    return rows < MANY


class Writing:
    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self._handed: dict[str, ChangingRows] = {}
        self._known: dict[str, dict[Hashable, str]] = {}
        self._parsed: dict[str, dict[str, duckdb.Statement]] = {}
        self._reached: dict[str, int] = {}

    def of(self, name: str, at: Moment, *, feeds: bool = False) -> Statements:
        """The statements of a view, or of what else has this name, in an epoch; it may feed others."""
        return Statements(self, name, at, feeds)

    @contextmanager
    def handed(self, name: str, delta: pa.Table) -> Iterator[str]:
        rows = self._handed.get(name)
        if rows is None or rows.schema != delta.schema:
            rows = self._handed[name] = ChangingRows(delta.schema)
            self.connection.register(_relation(name), rows)
        with rows.being(delta):
            yield quote(_relation(name))

    def known(self, name: str, key: Hashable, make: Callable[[], str]) -> str:
        known = self._known.setdefault(name, {})
        if key not in known:
            known[key] = make()
        return known[key]

    def parsed(self, name: str, sql: str) -> duckdb.Statement:
        known = self._parsed.setdefault(name, {})
        if sql not in known:
            (known[sql],) = self.connection.extract_statements(sql)
        return known[sql]

    def reached(self, name: str, instant: int) -> int | None:
        """The instant up to which a view has been brought before, if that is known; from now on it is another."""
        before = self._reached.get(name)
        self._reached[name] = instant
        return before

    def reached_anew(self, name: str) -> None:
        """Something has come to a view that may not have been brought as far."""
        self._reached.pop(name, None)

    def forget(self, *names: str) -> None:
        """Forget what is known by some names, or everything."""
        for name in names or tuple(self._handed):
            if self._handed.pop(name, None) is not None:
                self.connection.unregister(_relation(name))
        for known in (self._known, self._parsed, self._reached):
            for name in names or tuple(known):
                known.pop(name, None)


class Statements:
    """What is done to the store in one epoch in one name. In every statement the `NAMED` moment stands for this one."""

    def __init__(self, writing: Writing, name: str, at: Moment, feeds: bool) -> None:
        self.writing = writing
        self.name = name
        self.at = at
        self.changes = Changes(self.make, name) if feeds else None
        """What those that read the view have to know."""

    @contextmanager
    def handed(self, delta: pa.Table) -> Iterator[str]:
        """Rows as a relation."""
        if are_few(delta.num_rows):
            with self.writing.handed(self.name, delta) as relation:
                yield relation
        else:
            self.writing.connection.register(_MANY_ROWS, delta)
            yield _MANY_ROWS
            self.writing.connection.unregister(_MANY_ROWS)

    def known(self, key: Hashable, make: Callable[[], str]) -> str:
        """A statement that is made once for all epochs that have a key in common: long ones take a while to write."""
        return self.writing.known(self.name, key, make)

    def execute(self, sql: str) -> int:
        """Run a statement, and say how many rows it wrote, or what the only number is that it found."""
        statement = self.writing.parsed(self.name, sql)
        values = {parameter: getattr(self.at, parameter) for parameter in statement.named_parameters}
        rows: list[tuple[int]] = self.writing.connection.execute(statement, values).fetchall()
        return rows[0][0]

    def make(self, table: str, query: str) -> int:
        """Make a temporary table of a query, and say how many rows it has."""
        return self.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS {query}")

    def count(self, relation: str) -> int:
        return self.execute(f"SELECT count(*) FROM {relation}")

    def run(self, steps: Sequence[str], rows: int) -> None:
        """Do several things with about so many rows; none of them reads what another changes."""
        if are_few(rows):
            self.execute(chained(steps))
        else:
            for step in steps:
                self.execute(step)


def in_order(rows: str, row_id: str, name: str) -> str:
    """Rows that say what to update, in the order in which it is stored: in no order it takes DuckDB ten times as long.

    >>> in_order("temp.moves", "__rid", "m")
    '(SELECT * FROM temp.moves ORDER BY __rid) AS m'
    """
    return f"(SELECT * FROM {rows} ORDER BY {row_id}) AS {name}"


def chained(steps: Sequence[str], *given: str) -> str:
    """One statement that does what several do: for few rows, each costs more than what it does. With many, DuckDB does
    not spread the steps of such a statement over its threads. `given` are queries that they share.

    >>> chained(["DELETE FROM a", "INSERT INTO b SELECT 1"])
    'WITH __step0 AS (DELETE FROM a RETURNING 1) INSERT INTO b SELECT 1'
    """
    *some, last = steps
    parts = [*given, *(f"__step{index} AS ({step} RETURNING 1)" for index, step in enumerate(some))]
    return f"WITH {', '.join(parts)} {last}" if parts else last


_MANY_ROWS = "__many_rows"


def _relation(name: str) -> str:
    return f"__delta of {name}"
