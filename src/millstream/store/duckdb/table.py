"""Tables: the changes of an epoch are applied to keyed rows.

Owns `ms."<table>.table"`, what the table holds now; `ms."<table>.tombstones"`, the keys that were
deleted, where that must be remembered; and, with `versions.py`, `ms."<table>.versions"`.

Always after `merge`: `removed(name)` and `added(name)` are the exact difference that the epoch made,
as bags: a row that changed is in both, a row that was overwritten by itself in neither. For a versioned
table the same holds of `f"{name}.versions"`. They are temporary tables, written anew by every merge.

A change wins over another of its key by its sequence, where the table has one, then by coming later. What
Spark delivers are the winners within the epoch, one a key, or one a key and instant where versions are
in event time; whether they win over what is stored is decided here. Must not read the log.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pyarrow as pa

from millstream.duck import quote
from millstream.model.schema import store_type
from millstream.plan.nodes import Stream
from millstream.plan.tables import FOREVER
from millstream.store.duckdb.moment import Moment
from millstream.store.duckdb.naming import added, internal, listed, matched, public, removed
from millstream.store.duckdb.versions import Versions

_CHANGES = "__changes"
_APPLIED = 'temp."__applied"'


@dataclass(frozen=True, slots=True)
class Table:
    stream: Stream

    @property
    def _table(self) -> str:
        return internal(self.stream.name, "table")

    @property
    def _tombstones(self) -> str:
        return internal(self.stream.name, "tombstones")

    @property
    def _versions(self) -> Versions | None:
        if not self.stream.rules.versioned:
            return None
        sequence = self.stream.rules.sequence
        return Versions(self.stream.name, self._columns, self.stream.primary_key, sequence)

    @property
    def _columns(self) -> tuple[str, ...]:
        return self.stream.stored.names()

    @property
    def _remembers(self) -> bool:
        """Whether a deletion says something about changes that are still to come."""
        return self.stream.rules.sequence is not None or self.stream.has_event_versions

    def create(self, connection: duckdb.DuckDBPyConnection) -> None:
        stored = self.stream.stored
        types = {column.name: store_type(column.type) for column in stored.columns}
        own = ", ".join(f"{quote(name)} {type_}" for name, type_ in types.items())
        connection.execute(f"CREATE TABLE {self._table} ({own})")
        connection.execute(f"CREATE VIEW {public(self.stream.name)} AS SELECT * FROM {self._table}")
        if self._remembers:
            rules = self.stream.rules
            names = [*self.stream.primary_key, *([rules.sequence] if rules.sequence is not None else [])]
            keys = ", ".join(f"{quote(name)} {types[name]}" for name in names)
            connection.execute(f"CREATE TABLE {self._tombstones} ({keys}, __from BIGINT, __at BIGINT)")
        if (versions := self._versions) is not None:
            versions.create(connection, own)

    def merge(self, connection: duckdb.DuckDBPyConnection, rows: pa.Table | None, at: Moment) -> int:
        """Apply the changes of an epoch; how many of them were stale and changed nothing.

        `rows` has the stored columns, `__delete`, `__rows` (the changes of the epoch that this one won
        over, itself included) and, in event time, `__from`.
        """
        stale = 0
        if rows is not None and rows.num_rows:
            connection.register(_CHANGES, rows)
            stale = self._place(connection, at) if self.stream.has_event_versions else self._apply(connection, at)
            connection.unregister(_CHANGES)
        else:
            self._nothing(connection)
        self._forget(connection, at)
        return stale

    # -- changes in the order of arrival -------------------------------------------------------

    def _apply(self, connection: duckdb.DuckDBPyConnection, at: Moment) -> int:
        name, columns, table = self.stream.name, self._columns, self._table
        self._find_applied(connection)
        gone = "a.__delete OR a.__differs"
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {removed(name)} AS SELECT {listed(columns, 't')} FROM {table} t "
            f"JOIN {_APPLIED} a ON t.rowid = a.__row WHERE {gone}"
        )
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {added(name)} AS "
            f"SELECT {listed(columns, 'a')} FROM {_APPLIED} a WHERE NOT a.__delete AND (a.__row IS NULL OR a.__differs)"
        )
        connection.execute(f"DELETE FROM {table} WHERE rowid IN (SELECT a.__row FROM {_APPLIED} a WHERE {gone})")
        connection.execute(f"INSERT INTO {table} SELECT * FROM {added(name)}")
        if self._remembers:
            self._remember(connection, f"SELECT * FROM {_APPLIED}", "CAST(NULL AS BIGINT)", at)
        if (versions := self._versions) is not None:
            # Deleting what is not there and overwriting a row by itself begin and end nothing.
            changed = "CASE WHEN __delete THEN __row IS NOT NULL ELSE __row IS NULL OR __differs END"
            versions.place(
                connection, f"(SELECT * FROM {_APPLIED} WHERE {changed})", versions.next_from(at.now), tombstones=None
            )
        return self._count_stale(connection, f"SELECT __rows FROM {_APPLIED}")

    def _find_applied(self, connection: duckdb.DuckDBPyConnection) -> None:
        """The changes that win over what is stored, each with the row it meets."""
        keys = self.stream.primary_key
        differs = " OR ".join(f"r.{quote(c)} IS DISTINCT FROM t.{quote(c)}" for c in self._columns)
        remembered = condition = ""
        if (sequence := self.stream.rules.sequence) is not None:
            column = quote(sequence)
            remembered = f" LEFT JOIN {self._tombstones} d ON {matched(keys, 'r', 'd')}"
            condition = f" WHERE coalesce(r.{column} >= coalesce(t.{column}, d.{column}), true)"
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {_APPLIED} AS SELECT r.*, t.rowid AS __row, ({differs}) AS __differs "
            f"FROM {_CHANGES} r LEFT JOIN {self._table} t ON {matched(keys, 'r', 't')}{remembered}{condition}"
        )

    # -- changes in event time -----------------------------------------------------------------

    def _place(self, connection: duckdb.DuckDBPyConnection, at: Moment) -> int:
        """Versions decide: the table holds those without an end."""
        name, keys = self.stream.name, self.stream.primary_key
        versions = self._versions
        assert versions is not None
        won = versions.place(connection, _CHANGES, "r.__from", tombstones=self._tombstones)
        columns = listed(self._columns, "v")
        for mine, of_versions, other in (
            (removed(name), removed(versions.relation), added(versions.relation)),
            (added(name), added(versions.relation), removed(versions.relation)),
        ):
            connection.execute(
                f"CREATE OR REPLACE TEMP TABLE {mine} AS "
                f"SELECT {columns} FROM {of_versions} v WHERE v.__to = {FOREVER} "
                f"EXCEPT ALL SELECT {columns} FROM {other} v WHERE v.__to = {FOREVER}"
            )
        connection.execute(f"DELETE FROM {self._table} AS t USING {removed(name)} r WHERE {matched(keys, 't', 'r')}")
        connection.execute(f"INSERT INTO {self._table} SELECT * FROM {added(name)}")
        self._remember(connection, f"SELECT * FROM {won}", "__from", at)
        return self._count_stale(connection, f"SELECT __rows FROM {won}")

    # -- what both do --------------------------------------------------------------------------

    def _remember(self, connection: duckdb.DuckDBPyConnection, winners: str, instant: str, at: Moment) -> None:
        """Deletions that won are remembered in the place of what was remembered of the key (and instant)."""
        keys, sequence = self.stream.primary_key, self.stream.rules.sequence
        names = [*keys, *([sequence] if sequence is not None else [])]
        same = matched(keys, "d", "w")
        if self.stream.has_event_versions:
            same += " AND d.__from = w.__from"
        connection.execute(f"DELETE FROM {self._tombstones} AS d USING ({winners}) w WHERE {same}")
        connection.execute(
            f"INSERT INTO {self._tombstones} SELECT {listed(names, 'w')}, {instant}, {at.now} "
            f"FROM ({winners}) w WHERE w.__delete"
        )

    def _count_stale(self, connection: duckdb.DuckDBPyConnection, winners: str) -> int:
        ((count,),) = connection.execute(
            f"SELECT (SELECT sum(__rows) FROM {_CHANGES}) - (SELECT coalesce(sum(__rows), 0) FROM ({winners}))"
        ).fetchall()
        return int(count)

    def _nothing(self, connection: duckdb.DuckDBPyConnection) -> None:
        """An epoch that brings no change leaves no difference behind."""
        name = self.stream.name
        for difference in (removed(name), added(name)):
            connection.execute(f"CREATE OR REPLACE TEMP TABLE {difference} AS SELECT * FROM {self._table} LIMIT 0")
        if (versions := self._versions) is not None:
            versions.nothing(connection)

    def _forget(self, connection: duckdb.DuckDBPyConnection, at: Moment) -> None:
        rules = self.stream.rules
        if self._remembers:
            connection.execute(f"DELETE FROM {self._tombstones} WHERE __at <= {at.now - rules.tombstone_retain}")
        if (versions := self._versions) is not None and rules.history is not None:
            reached = at.after if self.stream.has_event_versions else at.now
            versions.prune(connection, reached - rules.history)
