"""The header of a change: what goes in comes out, in order."""

from __future__ import annotations

from itertools import product

import duckdb
import pytest

from millstream.store.duckdb.changelog import (
    ADD,
    EARLY,
    FORGET,
    LATE,
    ON_TIME,
    REMOVE,
    changes_table,
    create_changelog,
    epoch_of,
    header,
    pane_of,
    read_changes_sql,
    until,
)
from millstream.store.duckdb.moment import Moment

OPS = ("insert", "upsert", "retract", "delete")
PANES = {"early": EARLY, "on_time": ON_TIME, "late": LATE}
# Also one that leaves no bit of 32 unused.
EPOCHS = (0, 1, 2**40)


@pytest.fixture
def connection() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    found.execute("CREATE SCHEMA ms")
    found.execute("CREATE VIEW v AS SELECT 0 AS x")
    create_changelog(found, "v", "v")
    return found


def read(connection: duckdb.DuckDBPyConnection, since: int = -1) -> list[tuple[object, ...]]:
    return connection.execute(read_changes_sql("v", ["x"], since)).fetchall()


def test_every_kind_of_change_is_read_as_it_was_written(connection: duckdb.DuckDBPyConnection) -> None:
    written = list(product(EPOCHS, (REMOVE, ADD, FORGET), OPS, PANES, (False, True)))
    # Backwards: what decides is the order of the changes, not that of the rows.
    for x, (epoch, order, op, pane, final) in reversed(list(enumerate(written))):
        head = header(Moment(epoch, 0), order, op, PANES[pane], x, str(final).lower())
        connection.execute(f"INSERT INTO {changes_table('v')} SELECT {head}, {x}")
    found = read(connection)
    assert sorted(found, key=lambda row: int(str(row[-1]))) == [
        (epoch, op, pane, x, final, x) for x, (epoch, _, op, pane, final) in enumerate(written)
    ]
    places = [(row[0], written[int(str(row[-1]))][1]) for row in found]
    assert places == sorted(places)
    assert read(connection, since=0) == [row for row in found if int(str(row[0])) > 0]
    assert read(connection, since=2**39) == [row for row in found if int(str(row[0])) > 1]


def test_a_pane_may_be_named(connection: duckdb.DuckDBPyConnection) -> None:
    panes = ", ".join(f"('{pane}', {x})" for x, pane in enumerate(PANES))
    head = header(Moment(7, 0), ADD, "insert", pane_of("kind"))
    connection.execute(f"INSERT INTO {changes_table('v')} SELECT {head}, x FROM (VALUES {panes}) AS t(kind, x)")
    assert read(connection) == [(7, "insert", pane, 0, False, x) for x, pane in enumerate(PANES)]


def test_changes_until_an_epoch(connection: duckdb.DuckDBPyConnection) -> None:
    for epoch in (4, 5, 6):
        connection.execute(f"INSERT INTO {changes_table('v')} SELECT {header(Moment(epoch, 0), FORGET, 'delete')}, 0")
    found = connection.execute(
        f"SELECT {epoch_of('max(__change)')}, count(*) FROM {changes_table('v')} WHERE {until(5)}"
    )
    assert found.fetchall() == [(5, 2)]
