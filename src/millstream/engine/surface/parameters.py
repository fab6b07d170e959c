"""The values of the `?` in a statement.

A value becomes a literal of the tree, never text, so it cannot end a string or a name early. A definition takes no
parameters, because its text is kept and read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from sqlglot import exp

from millstream.api import Parameters
from millstream.builder.literals import literal
from millstream.model.errors import MillstreamError
from millstream.sql import position_of
from millstream.sql.statements import Delete, Explain, Insert, Select, Statement

_Query = TypeVar("_Query", bound=exp.Query)


def bind(statements: tuple[Statement, ...], values: Parameters, text: str, source: str) -> tuple[Statement, ...]:
    """Statements with values in the place of their parameters, in the order of the text."""
    if isinstance(values, str | bytes):
        raise MillstreamError("BAD_PARAMETERS", "parameters are a list of values", hint="write [value]")
    remaining = iter(values)
    given = len(values)
    bound = tuple(_bound(statement, remaining, text, source, given) for statement in statements)
    if (unused := len(list(remaining))) > 0:
        raise MillstreamError("BAD_PARAMETERS", f"the text takes {given - unused} parameters, got {given}")
    return bound


def _bound(statement: Statement, values: Iterator[object], text: str, source: str, given: int) -> Statement:
    match statement:
        case Select(query) | Insert(query=query):
            return replace(statement, query=_filled(query, values, text, source, given))
        case Delete(query=select):
            return replace(statement, query=_filled(select, values, text, source, given))
        case Explain(target=Select(query)):
            return replace(statement, target=Select(_filled(query, values, text, source, given)))
        case _:
            return statement


def _filled(query: _Query, values: Iterator[object], text: str, source: str, given: int) -> _Query:
    query = query.copy()
    # A tree is not in the order of its text.
    placeholders = sorted(query.find_all(exp.Placeholder), key=lambda node: int(node.meta.get("start", 0)))
    for placeholder in placeholders:
        if placeholder.this:
            raise MillstreamError(
                "BAD_PARAMETERS",
                "parameters have no names",
                hint="write ? and pass the values in order",
                position=position_of(placeholder, text, source),
            )
        try:
            value = next(values)
        except StopIteration:
            raise MillstreamError(
                "BAD_PARAMETERS",
                f"there is no value for this parameter, {given} passed",
                hint='pass the values in order: query("… WHERE id = ?", [3])',
                position=position_of(placeholder, text, source),
            ) from None
        placeholder.replace(literal(value))
    return query
