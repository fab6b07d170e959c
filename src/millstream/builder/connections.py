"""What the builder asks a database.

A view is created by handing its StreamSQL to the connection, exactly as a caller would, so nothing
after the parser can tell the two apart. Must not import the engine.
"""

from __future__ import annotations

from typing import cast

from millstream.api import Connection, Result
from millstream.sql import parse_statement
from millstream.sql.render import quote_name
from millstream.sql.statements import CreateStream

SOURCE = "<builder>"
"""Where errors say that a text comes from."""


def event_time(connection: Connection, name: str) -> str | None:
    """The column that a stream declares as its event time, or None where it has none."""
    (row,) = _answer(connection, f"SHOW CREATE {quote_name(name)}").rows()
    statement = parse_statement(row["statement"])
    if isinstance(statement, CreateStream) and statement.watermark is not None:
        return statement.watermark.column
    return None


def explained(connection: Connection, target: str) -> str:
    """What EXPLAIN says of a view or a statement."""
    rows = _answer(connection, f"EXPLAIN {target}").rows()
    return "\n".join(row["plan"] for row in rows)


def _answer(connection: Connection, text: str) -> Result:
    # SHOW and EXPLAIN always return rows.
    return cast("Result", connection.sql(text, source=SOURCE))
