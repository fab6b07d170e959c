"""The versions of a table: what each key was, and when.

Owns `ms."<table>.versions"`: the columns of the table, `__from` (microseconds, inclusive) and `__to`
(exclusive, `FOREVER` for a version that has not ended). What always holds: the versions of a key do not
overlap; an instant has one change, the one with the highest sequence or else the last; the end of a
version never moves away, since what ended it may be forgotten by then.

`removed` and `added` of `<table>.versions` say what changes did. Forgetting old versions is no
change and is not among them. Must not decide what the table holds now.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from millstream.duck import quote
from millstream.plan.tables import FOREVER
from millstream.store.duckdb.naming import added, internal, listed, matched, removed

_ARRIVED = 'temp."__arrived"'
_OLD = 'temp."__versions_before"'
_EVENTS = 'temp."__events"'
_NEW = 'temp."__versions_after"'
_WON = 'temp."__won"'
# Of two changes at one instant the higher rank counts, unless sequences tell them apart.
_IMPLIED, _KNOWN, _LAST = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Versions:
    name: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    sequence: str | None

    @property
    def relation(self) -> str:
        """The name under which the differences are found."""
        return f"{self.name}.versions"

    @property
    def table(self) -> str:
        return internal(self.name, "versions")

    def create(self, connection: duckdb.DuckDBPyConnection, columns: str) -> None:
        connection.execute(f"CREATE TABLE {self.table} ({columns}, __from BIGINT, __to BIGINT)")

    def next_from(self, now: int) -> str:
        """SQL: when a change that is committed now begins; later than all of its key if the clock went back."""
        last = f"max(CASE WHEN v.__to = {FOREVER} THEN v.__from ELSE v.__to END)"
        known = f"SELECT {last} FROM {self.table} v WHERE {matched(self.keys, 'v', 'r')}"
        return f"greatest({now}, coalesce(({known}), {now}))"

    def place(self, connection: duckdb.DuckDBPyConnection, changes: str, instant: str, tombstones: str | None) -> str:
        """Put changes in their places; returns a temporary table of those that won their instant."""
        columns, keys = listed(self.columns, "r"), listed(self.keys)
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {_ARRIVED} AS "
            f"SELECT {columns}, r.__delete, r.__rows, {instant} AS __from FROM {changes} r"
        )
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {_OLD} AS SELECT v.*, v.rowid AS __row FROM {self.table} v "
            f"SEMI JOIN {_ARRIVED} r ON {matched(self.keys, 'v', 'r')}"
        )
        self._gather(connection, tombstones)
        by_sequence = f"{quote(self.sequence)} DESC NULLS LAST, " if self.sequence is not None else ""
        winners = (
            f"SELECT * FROM {_EVENTS} "
            f"QUALIFY row_number() OVER (PARTITION BY {keys}, __from ORDER BY {by_sequence}__rank DESC) = 1"
        )
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {_NEW} AS SELECT *, "
            f"coalesce(lead(__from) OVER (PARTITION BY {keys} ORDER BY __from), {FOREVER}) AS __to FROM ({winners})"
        )
        self._replace(connection)
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {_WON} AS SELECT * FROM {_NEW} WHERE __rank = {_LAST}")
        return _WON

    def _gather(self, connection: duckdb.DuckDBPyConnection, tombstones: str | None) -> None:
        """All that is known to have happened to the keys that change, each at its instant."""
        own = listed(self.columns)
        known = {*self.keys, *([self.sequence] if self.sequence is not None else [])}
        ends = ", ".join(quote(c) if c in self.keys else f"NULL AS {quote(c)}" for c in self.columns)
        deaths = ", ".join(quote(c) if c in known else f"NULL AS {quote(c)}" for c in self.columns)
        parts = [
            f"SELECT {own}, __delete, __rows, __from, {_LAST} AS __rank FROM {_ARRIVED}",
            f"SELECT {own}, false, 0, __from, {_KNOWN} FROM {_OLD}",
            # Where a version ended something happened, even if it is no longer known what.
            f"SELECT {ends}, true, 0, __to, {_IMPLIED} FROM {_OLD} WHERE __to < {FOREVER}",
        ]
        if tombstones is not None:
            parts.append(
                f"SELECT {deaths}, true, 0, __from, {_KNOWN} FROM {tombstones} d "
                f"SEMI JOIN {_ARRIVED} r ON {matched(self.keys, 'd', 'r')}"
            )
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {_EVENTS} AS {' UNION ALL '.join(parts)}")

    def _replace(self, connection: duckdb.DuckDBPyConnection) -> None:
        whole = f"{listed(self.columns)}, __from, __to"
        new = f"SELECT {whole} FROM {_NEW} WHERE NOT __delete"
        for difference, these, those in (
            (removed(self.relation), f"SELECT {whole} FROM {_OLD}", new),
            (added(self.relation), new, f"SELECT {whole} FROM {_OLD}"),
        ):
            connection.execute(f"CREATE OR REPLACE TEMP TABLE {difference} AS {these} EXCEPT ALL {those}")
        connection.execute(
            f"DELETE FROM {self.table} WHERE rowid IN (SELECT o.__row FROM {_OLD} o "
            f"JOIN {removed(self.relation)} r ON {matched(self.keys, 'o', 'r')} AND o.__from = r.__from)"
        )
        connection.execute(f"INSERT INTO {self.table} SELECT {whole} FROM {added(self.relation)}")

    def nothing(self, connection: duckdb.DuckDBPyConnection) -> None:
        for difference in (removed(self.relation), added(self.relation)):
            connection.execute(f"CREATE OR REPLACE TEMP TABLE {difference} AS SELECT * FROM {self.table} LIMIT 0")

    def prune(self, connection: duckdb.DuckDBPyConnection, until: int) -> None:
        """Forget versions that ended by then."""
        connection.execute(f"DELETE FROM {self.table} WHERE __to <= {until}")
