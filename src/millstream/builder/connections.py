"""What the builder needs of a database.

Owns the protocols behind which the builder knows the engine: a view is created by handing its
StreamSQL to the database, exactly as a caller would, so nothing after the parser can tell the
two apart. Must not import the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa

from millstream.sql import parse_statement
from millstream.sql.render import quote_name
from millstream.sql.statements import CreateStream

SOURCE = "<builder>"
"""Where errors say that a text comes from."""


class Rows(Protocol):
    """A finished answer, as `Result` is."""

    @property
    def columns(self) -> list[str]: ...

    def to_arrow(self) -> pa.Table: ...

    def to_pandas(self) -> pd.DataFrame: ...

    def rows(self) -> list[dict[str, Any]]: ...

    def __iter__(self) -> Iterator[dict[str, Any]]: ...

    def __len__(self) -> int: ...


class Changes(Protocol):
    """Changes as they come, as `Subscription` is."""

    def __iter__(self) -> Iterator[dict[str, Any]]: ...

    def __next__(self) -> dict[str, Any]: ...

    def close(self) -> None: ...


class Connection(Protocol):
    """A database, as `Database` is."""

    def sql(self, text: str, *, source: str = ...) -> Any: ...

    def query(self, text: str) -> Rows: ...

    def changes(self, view: str, since_epoch: int = ...) -> Rows: ...

    def subscribe(self, view: str, from_epoch: int = ...) -> Changes: ...


def event_time(connection: Connection, name: str) -> str | None:
    """The column that a stream declares as its event time, or None where it has none."""
    (row,) = connection.sql(f"SHOW CREATE {quote_name(name)}", source=SOURCE).rows()
    statement = parse_statement(row["statement"])
    if isinstance(statement, CreateStream) and statement.watermark is not None:
        return statement.watermark.column
    return None


def explained(connection: Connection, target: str) -> str:
    """What EXPLAIN says of a view or a statement."""
    rows = connection.sql(f"EXPLAIN {target}", source=SOURCE).rows()
    return "\n".join(row["plan"] for row in rows)
