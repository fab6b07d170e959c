"""Probes: queries that the store answers once, when a view is created, to refuse what could only fail later.

Owns what is asked of the types and constants of a query, which no plan knows and no guard can make NULL without
taking the shape from a condition that relations are joined by. What always holds: a view whose probes are answered has
no constant that fails, and compares no text with a value that the text would have to be converted to. Must not be run
in an epoch: types and constants do not change.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from millstream.duck.forms import refusing
from millstream.duck.guards import fails_by_itself, with_truths
from millstream.duck.printing import store_sql

_COMPARED = exp.EQ | exp.NEQ | exp.GT | exp.GTE | exp.LT | exp.LTE | exp.NullSafeEQ | exp.NullSafeNEQ
_OF_ROWS = (exp.Column, exp.Var, exp.Star, exp.Query, exp.AggFunc, exp.Window, exp.Lambda, exp.Identifier, exp.Alias)
"""What makes an expression differ from row to row, or not an expression of its own."""
_TYPES = ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIMESTAMP")


def probes(query: exp.Query) -> tuple[str, ...]:
    """The store's SQL of the probes of a query.

    >>> from sqlglot import parse_one
    >>> probes(parse_one("SELECT a FROM t WHERE b > 2 + 3"))[1]
    'SELECT 2 + 3'
    """
    constants = list(_constants(query))
    checked = f"DESCRIBE {store_sql(_checked(with_truths(query.copy())))}"
    return (checked, f"SELECT {', '.join(store_sql(node) for node in constants)}") if constants else (checked,)


def _constants(node: exp.Expr) -> Iterator[exp.Expr]:
    """The largest parts that are the same for all rows and may fail."""
    if isinstance(node, exp.Window | exp.UDTF | exp.Explode | exp.Posexplode | exp.Inline):
        return
    is_value = isinstance(node, exp.Condition) and not isinstance(node, exp.TryCast | exp.Interval)
    if is_value and node.find(*_OF_ROWS) is None:
        if any(fails_by_itself(part) for part in node.walk()):
            yield node
        return
    for child in node.iter_expressions():
        yield from _constants(child)


def _checked(query: exp.Expr) -> exp.Expr:
    """A query with a check beside every comparison."""
    for node in list(query.find_all(*_COMPARED.__args__, exp.Between)):
        checks = list(_checks(node))
        if checks:
            node.replace(exp.and_(node.copy(), *(exp.Var(this=check) for check in checks), copy=False))
    return query


def _checks(node: exp.Expr) -> Iterator[str]:
    """The conditions under which a comparison is refused, as the store's SQL."""
    sides = [side.unnest() for side in node.iter_expressions()]
    if any(side.find(exp.Query, exp.Window) for side in sides):
        # DuckDB does not say the type of these everywhere; what fails there fails the view alone.
        return
    texts = [side for side in sides if isinstance(side, exp.Literal) and side.is_string]
    values = [store_sql(side) for side in sides if not isinstance(side, exp.Literal | exp.Null)]
    for text in texts:
        literal = store_sql(text)
        hint = f"the text {text.name[:40].replace(chr(39), '')} is compared with a type that it is no value of"
        for value in values:
            yield refusing(" OR ".join(_no_value(literal, value)), hint, "true")
    if len(values) == len(sides) == 2 and isinstance(node, exp.EQ | exp.NEQ | exp.NullSafeEQ | exp.NullSafeNEQ):
        left, right = (f"typeof({value})" for value in values)
        differ = f"({left} = 'VARCHAR') <> ({right} = 'VARCHAR') AND '\"NULL\"' NOT IN ({left}, {right})"
        yield refusing(differ, "a text is compared with a value that is no text; CAST one of them", "true")


def _no_value(literal: str, value: str) -> Iterator[str]:
    for type_ in _TYPES:
        yield f"typeof({value}) = '{type_}' AND TRY_CAST({literal} AS {type_}) IS NULL"
    yield f"starts_with(typeof({value}), 'DECIMAL') AND TRY_CAST({literal} AS DOUBLE) IS NULL"
