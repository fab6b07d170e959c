"""Function calls and CASE.

Owns `ms.call`, `ms.fn` and `ms.case`. A call is parsed as soon as it is written, so that wrong
arguments are refused where they stand. Which functions a query may call is not decided here: the
allowlist is checked where the view is created, and functions of the user may be on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from millstream.builder.expressions import Expression, as_column, condition, operand, parse_expression
from millstream.model.errors import MillstreamError
from millstream.sql.dialect import StreamSQL

_FUNCTION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def call(name: str, *arguments: object) -> Expression:
    """A function by its name. Text names a column; a text that is a value is `ms.lit("…")`.

    >>> print(ms.call("concat", "channel", ms.lit("-"), "bidder"))
    CONCAT(channel, '-', bidder)
    """
    return Expression(call_node(name, arguments))


def call_node(name: str, arguments: tuple[object, ...], *, distinct: bool = False) -> exp.Expr:
    """The node of a call, in the form the parser gives it."""
    if not isinstance(name, str) or not _FUNCTION_NAME.fullmatch(name):
        raise MillstreamError("BAD_NAME", f"{name!r} cannot be the name of a function")
    texts = [operand(as_column(argument)).sql(dialect=StreamSQL) for argument in arguments]
    return parse_expression(f"{name}({'DISTINCT ' if distinct else ''}{', '.join(texts)})")


class Functions:
    """`ms.fn`: functions as attributes.

    >>> print(ms.fn.upper("channel"), ms.fn.round("price", 2))
    UPPER(channel) ROUND(price, 2)
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Callable[..., Expression]:
        if name.startswith("__"):
            raise AttributeError(name)

        def function(*arguments: object) -> Expression:
            return call(name, *arguments)

        function.__name__ = function.__qualname__ = name
        return function


fn = Functions()


def case() -> CaseStart:
    """The beginning of `CASE WHEN … THEN … ELSE … END`. Text in it is a value, not a column.

    >>> print(ms.case().when(ms.col("price") > 100, "high").otherwise("low"))
    CASE WHEN price > 100 THEN 'high' ELSE 'low' END
    """
    return CaseStart()


@dataclass(frozen=True, slots=True)
class CaseStart:
    """A CASE without a branch yet."""

    def when(self, test: Expression, value: object) -> Case:
        """The first branch.

        >>> print(ms.case().when(ms.col("price").is_null(), 0))
        CASE WHEN price IS NULL THEN 0 END
        """
        return Case(exp.Case(ifs=[_branch(test, value)]))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Case(Expression):
    """A CASE with branches; NULL where none of them applies."""

    def when(self, test: Expression, value: object) -> Case:
        """A further branch, which applies where none before it does.

        >>> print(ms.case().when(ms.col("n") > 9, "many").when(ms.col("n") > 1, "some"))
        CASE WHEN n > 9 THEN 'many' WHEN n > 1 THEN 'some' END
        """
        node = self.node.copy()
        node.append("ifs", _branch(test, value))
        return Case(node)

    def otherwise(self, value: object) -> Expression:
        """The value where no branch applies.

        >>> print(ms.case().when(ms.col("n") > 1, ms.col("n")).otherwise(None))
        CASE WHEN n > 1 THEN n ELSE NULL END
        """
        node = self.node.copy()
        node.set("default", operand(value))
        return Expression(node)


def _branch(test: Expression, value: object) -> exp.If:
    return exp.If(this=condition(test, "when"), true=operand(value))
