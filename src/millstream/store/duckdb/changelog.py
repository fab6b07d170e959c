"""The changelog of a view: one table, appended to inside the epoch's transaction.

Rows are ordered by epoch, then retractions and deletions before what replaces them. Which epoch a change is of and
what kind of change it is are one number, and when the epoch was is in its record: a view with many groups has a
row here for each that an epoch changes, so every column counts.
The changelog of a view that only grows is derived from its rows. Such a view can lose rows all the same, when it
or what it reads is built anew: then the table `past` has what its rows do not tell any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from millstream.duck import quote
from millstream.store.duckdb.moment import Moment, NamedMoment
from millstream.store.duckdb.naming import internal, removed

# (column, type); the view's own columns follow.
HEADER = (("__change", "BIGINT"), ("__pane_index", "BIGINT"))
# The order of changes within an epoch: what is replaced goes first, what is too old to keep last.
REMOVE, ADD, FORGET = 0, 1, 2
_OPS = ("insert", "upsert", "retract", "delete")
_PANES = ("early", "on_time", "late")
EARLY, ON_TIME, LATE = range(3)
# A change is these five in one number, from the highest bits down: its epoch, its order in it, op, pane, final.
_EPOCH_AT, _ORDER_AT, _OP_AT, _PANE_AT = 7, 5, 3, 1


def header(
    at: Moment | NamedMoment,
    order: int,
    op: str,
    pane: str | int = EARLY,
    index: str | int = 0,
    final: str = "false",
) -> str:
    """The header of changes, for the list of a SELECT; `pane`, `index` and `final` may be SQL."""
    epoch = f"(CAST({at.epoch} AS BIGINT) << {_EPOCH_AT})"
    change = f"{epoch} + {_kind(order, op)} + ({pane}) * {1 << _PANE_AT} + CAST({final} AS TINYINT)"
    return f"{change}, {index}"


def noted(view: str, head: str, rows: str) -> str:
    """The statement that notes changes: their header, and the view's columns `FROM` where they are."""
    return f"INSERT INTO {changes_table(view)} SELECT {head}, {rows}"


def _kind(order: int, op: str) -> int:
    return (order << _ORDER_AT) + (_OPS.index(op) << _OP_AT)


def pane_of(kind: str) -> str:
    """The pane that a column names."""
    cases = " ".join(f"WHEN '{name}' THEN {number}" for number, name in enumerate(_PANES))
    return f"CASE {kind} {cases} END"


def until(epoch: int) -> str:
    """Whether a change is of an epoch or of one before it."""
    return f"__change < {(epoch + 1) << _EPOCH_AT}"


def epoch_of(change: str) -> str:
    return f"{change} >> {_EPOCH_AT}"


def _bits(at: int) -> str:
    return f"(__change >> {at}) % 4"


def _ordered() -> str:
    return f"__change >> {_ORDER_AT}, rowid"


def changes_table(view: str) -> str:
    return internal(view, "changes")


def create_changelog(connection: duckdb.DuckDBPyConnection, view: str, relation: str) -> None:
    """Create the changelog of a view whose columns are those of a relation."""
    empty = ", ".join(f"CAST(NULL AS {type_}) AS {name}" for name, type_ in HEADER)
    connection.execute(f"CREATE TABLE {changes_table(view)} AS SELECT {empty}, * FROM {relation} LIMIT 0")


def derive_changelog(connection: duckdb.DuckDBPyConnection, view: str, rows: str, columns: str) -> None:
    """The changelog of a view that only grows is in its rows: each was inserted once, in its epoch."""
    past = ""
    if _has_past(connection, view):
        past = f" UNION ALL SELECT rowid, {_names()}, {columns} FROM {internal(view, 'past')}"
    connection.execute(
        f"CREATE OR REPLACE VIEW {changes_table(view)} AS SELECT rowid AS rowid, {_derived()}, {columns} "
        f"FROM {rows}{past}"
    )


@contextmanager
def kept_past(connection: duckdb.DuckDBPyConnection, view: str, columns: str, rows: str, at: Moment) -> Iterator[None]:
    """Keep in a derived changelog what `removed(view)` loses in the block, and say that it was retracted."""
    listed = f"{_names()}, {columns}"
    connection.execute(f"CREATE OR REPLACE TEMP TABLE __past AS SELECT {_derived()}, {columns} FROM {rows}")
    yield
    gone = f"SELECT * FROM __past EXCEPT ALL SELECT {_derived()}, {columns} FROM {rows}"
    retracted = f"SELECT {header(at, REMOVE, 'retract', LATE)}, {columns} FROM {removed(view)}"
    past = internal(view, "past")
    connection.execute(f"CREATE TABLE IF NOT EXISTS {past} AS SELECT {listed} FROM __past LIMIT 0")
    connection.execute(f"INSERT INTO {past} {gone}")
    connection.execute(f"INSERT INTO {past} {retracted}")
    connection.execute("DROP TABLE __past")
    derive_changelog(connection, view, rows, columns)


def write_out(connection: duckdb.DuckDBPyConnection, view: str, columns: str) -> None:
    """Make a table of a derived changelog."""
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE __past AS SELECT {_names()}, {columns} FROM {changes_table(view)} "
        f"ORDER BY {_ordered()}"
    )
    connection.execute(f"DROP VIEW {changes_table(view)}")
    connection.execute(f"DROP TABLE IF EXISTS {internal(view, 'past')}")
    connection.execute(f"CREATE TABLE {changes_table(view)} AS SELECT * FROM __past")
    connection.execute("DROP TABLE __past")


def fold_in(connection: duckdb.DuckDBPyConnection, view: str, rows: str, columns: str) -> None:
    """Derive from now on a changelog that is a table; what the rows do not tell stays in `past`."""
    past, table = internal(view, "past"), changes_table(view)
    connection.execute(
        f"CREATE TABLE {past} AS SELECT {_names()}, {columns} FROM {table} "
        f"EXCEPT ALL SELECT {_derived()}, {columns} FROM {rows}"
    )
    connection.execute(f"DROP TABLE {table}")
    derive_changelog(connection, view, rows, columns)


def _names() -> str:
    return ", ".join(name for name, _ in HEADER)


def _derived() -> str:
    return f"(__epoch << {_EPOCH_AT}) + {_kind(ADD, 'insert')} AS __change, CAST(0 AS BIGINT) AS __pane_index"


def _has_past(connection: duckdb.DuckDBPyConnection, view: str) -> bool:
    found = connection.execute(
        "SELECT 1 FROM duckdb_tables() WHERE schema_name = 'ms' AND table_name = ?", [f"{view}.past"]
    )
    return bool(found.fetchall())


def read_changes_sql(view: str, columns: list[str], since: int, through: int | None = None) -> str:
    """The changelog after an epoch, up to another, in order, with its public column names."""
    own = "".join(f", {quote(column)}" for column in columns)
    return (
        f"SELECT {epoch_of('__change')} AS epoch, {_named(_OPS, _OP_AT)} AS op, {_named(_PANES, _PANE_AT)} AS pane, "
        f"__pane_index AS pane_index, __change % 2 = 1 AS final{own} "
        f"FROM {changes_table(view)} WHERE {_between(since, through)} ORDER BY {_ordered()}"
    )


def through_sql(view: str, since: int, through: int | None, rows: int) -> str:
    """The epoch up to which the changelog has no more than some rows, but at least one epoch; NULL if it has none."""
    epochs = (
        f"SELECT {epoch_of('__change')} AS epoch, count(*) AS n FROM {changes_table(view)} "
        f"WHERE {_between(since, through)} GROUP BY 1"
    )
    sums = f"SELECT epoch, n, sum(n) OVER (ORDER BY epoch) AS total FROM ({epochs})"
    return f"SELECT max(epoch) FROM ({sums}) WHERE total <= {rows} OR total = n"


def _between(since: int, through: int | None) -> str:
    after = f"NOT {until(since)}"
    return after if through is None else f"{after} AND {until(through)}"


def _named(names: tuple[str, ...], at: int) -> str:
    """What two bits of a change stand for."""
    cases = " ".join(f"WHEN {number} THEN '{name}'" for number, name in enumerate(names))
    return f"CASE {_bits(at)} {cases} END"
