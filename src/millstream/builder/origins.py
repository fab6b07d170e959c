"""Where a chain of steps begins: a stream, a table or a view, by its name.

Owns the beginnings with and without a database. A name is not looked up here: whether it exists
is said when the event time is needed or the view is created.
"""

from __future__ import annotations

from millstream.api import Connection
from millstream.builder.literals import identifier
from millstream.builder.queries import Block, Kind
from millstream.builder.relations import Relation, View


def stream(name: str, *, event_time: str | None = None) -> Relation:
    """A stream by its name, without a database: for its StreamSQL. With one, use `db.stream`.

    >>> print(ms.stream("bids"))
    SELECT
      *
    FROM bids
    """
    return Relation(_named(name, "stream", event_time))


def table(name: str) -> Relation:
    """A table by its name, without a database.

    >>> print(ms.table("users").select("id"))
    SELECT
      id
    FROM users
    """
    return Relation(_named(name, "table"))


def view(name: str) -> View:
    """A view by its name, without a database.

    >>> print(ms.view("hot_items").filter(ms.col("n") > 1))
    SELECT
      *
    FROM hot_items
    WHERE
      n > 1
    """
    return View(_named(name, "view"))


def connected(connection: Connection, name: str, kind: Kind) -> Relation:
    """A stream or table of a database."""
    return Relation(_named(name, kind), None, connection)


def connected_view(connection: Connection, name: str) -> View:
    """A view of a database."""
    return View(_named(name, "view"), None, connection)


def _named(name: str, kind: Kind, event_time: str | None = None) -> Block:
    identifier(name)
    return Block(name, name, kind, event_time)
