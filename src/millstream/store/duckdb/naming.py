"""Names of the store's objects.

Everything internal lives in the schema `ms`; what users may read are views in `main`.
"""

from __future__ import annotations

from collections.abc import Iterable

from millstream.duck import quote
from millstream.model.errors import MillstreamError
from millstream.plan.nodes import AggregateView, Part, QueryView, TopView

_ROW_ID = "rowid"
"""What DuckDB calls the place of a row. In a table with a column of that name it could not be asked for."""


def literal(text: str) -> str:
    """A text as a string constant."""
    return "'" + text.replace("'", "''") + "'"


def internal(name: str, part: str) -> str:
    """An internal table of a relation: `ms."bids.state"`."""
    return f"ms.{quote(f'{name}.{part}')}"


def public(name: str) -> str:
    """What readers see."""
    return f"main.{quote(name)}"


def removed(name: str) -> str:
    """The rows that a relation lost in the epoch that is being committed."""
    return f"temp.{quote(f'{name}.removed')}"


def added(name: str) -> str:
    """The rows that a relation gained in the epoch that is being committed."""
    return f"temp.{quote(f'{name}.added')}"


def listed(columns: Iterable[str], of: str = "") -> str:
    """Columns of a relation, for a select list.

    >>> listed(("a", "b"), "t")
    't."a", t."b"'
    """
    return ", ".join(f"{of}.{quote(column)}" if of else quote(column) for column in columns)


def matched(keys: Iterable[str], left: str, right: str) -> str:
    """The condition that two relations agree in key columns, which are never NULL.

    >>> matched(("a", "b"), "t", "r")
    't."a" = r."a" AND t."b" = r."b"'
    """
    return " AND ".join(f"{left}.{quote(key)} = {right}.{quote(key)}" for key in keys)


def check_columns(relation: str, columns: Iterable[str]) -> None:
    """Refuse a relation that cannot be kept."""
    for column in columns:
        if column.lower() == _ROW_ID:
            raise MillstreamError(
                "RESERVED_NAME",
                f"{relation} cannot have a column called {column!r}",
                detail="the store has one of that name in each of its tables",
                hint="give it another name, with AS in the query that selects it",
            )


def columns_of(part: Part) -> list[str]:
    """The columns of a part of a view that have names of a user's choice."""
    match part:
        case QueryView():
            return list(part.columns)
        case AggregateView():
            return [out.name for out in part.outputs]
        case TopView():
            return [name for name, _ in part.columns] + [out.name for out in part.outputs]
    return [name for name, _ in part.columns]
