"""What the changes of a table mean: frozen data, and the Spark SQL that tells what a change does.

A change upserts or deletes its key. Of the changes of a key the one with the highest sequence wins,
or the last where the table has no sequence. A versioned table keeps what it was, by event time if
its changes have one, else by when they were committed. Must not know where changes come from.
"""

from __future__ import annotations

from dataclasses import dataclass

from millstream.model.schema import Schema

ANY = "*"
"""As an operation that upserts: any other."""
FOREVER = 2**62
"""The end of a version that is current."""


@dataclass(frozen=True, slots=True)
class TableRules:
    """How the changes of a table are applied. Names are those of its columns."""

    operation: str | None = None
    """The column that says what a change does; it is not stored."""
    deletes: tuple[str, ...] = ()
    """The values of it that delete, in lower case."""
    upserts: tuple[str, ...] = ()
    """The values of it that upsert, in lower case; `*` is any other."""
    sequence: str | None = None
    """The column that orders the changes of a key."""
    versioned: bool = False
    history: int | None = None
    """How long a version is kept after its end; None is for ever."""
    tombstone_retain: int = 0
    """How long a deleted key is remembered."""

    def stored(self, schema: Schema) -> Schema:
        """The columns that the table keeps."""
        return Schema(tuple(column for column in schema.columns if column.name != self.operation))

    def is_delete_sql(self, tombstone: str) -> str:
        """Spark SQL: whether a change deletes its key."""
        if self.operation is None:
            return tombstone
        return f"({tombstone} OR coalesce({_is_one_of(self.operation, self.deletes)}, false))"

    def dead_sql(self, tombstone: str) -> list[str]:
        """Spark SQL: `WHEN … THEN reason` of changes that cannot be applied."""
        reasons = []
        if self.sequence is not None:
            reasons.append(f"WHEN `{self.sequence}` IS NULL THEN 'sequence {self.sequence} is NULL'")
        if self.operation is not None:
            said = f"NOT {tombstone} AND"
            reasons.append(f"WHEN {said} `{self.operation}` IS NULL THEN 'operation {self.operation} is NULL'")
            if ANY not in self.upserts:
                known = _is_one_of(self.operation, (*self.deletes, *self.upserts))
                reason = f"concat('unknown operation {self.operation}: ', left(CAST(`{self.operation}` AS STRING), 80))"
                reasons.append(f"WHEN {said} NOT {known} THEN {reason}")
        return reasons


NO_RULES = TableRules()


def _is_one_of(column: str, values: tuple[str, ...]) -> str:
    quoted = ("'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'" for value in values)
    return f"lower(CAST(`{column}` AS STRING)) IN ({', '.join(quoted)})"
