"""Aggregates: `ms.count()`, `ms.sum("price")`, each with `.filter(condition)`.

Owns one function per aggregate of StreamSQL; what each of them computes is said in
docs/streamsql.md. Several share their name with a builtin of Python: use them as attributes of
the package. Must not be used outside `agg` and `having`.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from millstream.builder.expressions import ColumnLike, Expression, all_of, condition, operand
from millstream.builder.functions import call_node
from millstream.model.errors import MillstreamError
from millstream.sql import AGGREGATES


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Aggregate(Expression):
    """The call of an aggregate."""

    def filter(self, test: Expression) -> Aggregate:
        """The aggregate over those rows only for which a condition holds.

        >>> print(ms.count().filter(ms.col("price") > 100))
        COUNT(*) FILTER(WHERE price > 100)
        """
        call, tests = operand(self), [condition(test, "filter")]
        if isinstance(call, exp.Filter):
            raise MillstreamError(
                "FILTER_TWICE", f"{self} has a filter already", hint="join the conditions with & in one filter"
            )
        if isinstance(call, exp.IgnoreNulls):
            # FILTER and IGNORE NULLS do not combine in StreamSQL; this says the same.
            call = call.this
            tests.append(Expression(call.this).is_not_null().node)
        return Aggregate(exp.Filter(this=call, expression=exp.Where(this=all_of(tests))))


def count(*columns: ColumnLike) -> Aggregate:
    """How many rows there are; with columns, rows in which none of them is NULL.

    >>> print(ms.count(), ms.count("price"))
    COUNT(*) COUNT(price)
    """
    return _aggregate("count", *(columns or ("*",)))


def count_distinct(*columns: ColumnLike) -> Aggregate:
    """How many different values, or combinations of values, there are.

    >>> print(ms.count_distinct("bidder"))
    COUNT(DISTINCT bidder)
    """
    return _aggregate("count", *columns, distinct=True)


def count_if(test: Expression) -> Aggregate:
    """For how many rows a condition holds.

    >>> print(ms.count_if(ms.col("price") > 100))
    COUNT_IF(price > 100)
    """
    return _aggregate("count_if", Expression(condition(test, "count_if")))


def approx_count_distinct(column: ColumnLike) -> Aggregate:
    """About how many different values there are, in little memory.

    >>> print(ms.approx_count_distinct("bidder"))
    APPROX_COUNT_DISTINCT(bidder)
    """
    return _aggregate("approx_count_distinct", column)


def sum(column: ColumnLike, *, distinct: bool = False) -> Aggregate:
    """The sum, exact for integers.

    >>> print(ms.sum("price"), ms.sum(ms.col("price") * ms.col("amount")))
    SUM(price) SUM(price * amount)
    """
    return _aggregate("sum", column, distinct=distinct)


def avg(column: ColumnLike, *, distinct: bool = False) -> Aggregate:
    """The mean.

    >>> print(ms.avg("price"))
    AVG(price)
    """
    return _aggregate("avg", column, distinct=distinct)


def min(column: ColumnLike) -> Aggregate:
    """The smallest value.

    >>> print(ms.min("price"))
    MIN(price)
    """
    return _aggregate("min", column)


def max(column: ColumnLike) -> Aggregate:
    """The largest value.

    >>> print(ms.max("price"))
    MAX(price)
    """
    return _aggregate("max", column)


def min_by(column: ColumnLike, order: ColumnLike) -> Aggregate:
    """The value in the row where another one is smallest.

    >>> print(ms.min_by("bidder", "price"))
    MIN_BY(bidder, price)
    """
    return _aggregate("min_by", column, order)


def max_by(column: ColumnLike, order: ColumnLike) -> Aggregate:
    """The value in the row where another one is largest.

    >>> print(ms.max_by("bidder", "price"))
    MAX_BY(bidder, price)
    """
    return _aggregate("max_by", column, order)


def first(column: ColumnLike, *, ignore_nulls: bool = False) -> Aggregate:
    """The first value in event time.

    >>> print(ms.first("price"), ms.first("price", ignore_nulls=True))
    FIRST(price) FIRST(price) IGNORE NULLS
    """
    return _positional("first", column, ignore_nulls)


def last(column: ColumnLike, *, ignore_nulls: bool = False) -> Aggregate:
    """The last value in event time.

    >>> print(ms.last("price"))
    LAST(price)
    """
    return _positional("last", column, ignore_nulls)


def any_value(column: ColumnLike) -> Aggregate:
    """The first value in event time that is not NULL.

    >>> print(ms.any_value("channel"))
    ANY_VALUE(channel)
    """
    return _aggregate("any_value", column)


def collect_list(column: ColumnLike) -> Aggregate:
    """All values that are not NULL, in event time.

    >>> print(ms.collect_list("price"))
    COLLECT_LIST(price)
    """
    return _aggregate("collect_list", column)


def collect_set(column: ColumnLike) -> Aggregate:
    """The different values, sorted.

    >>> print(ms.collect_set("channel"))
    COLLECT_SET(channel)
    """
    return _aggregate("collect_set", column)


def bool_and(test: Expression) -> Aggregate:
    """Whether a condition holds for all rows.

    >>> print(ms.bool_and(ms.col("price") > 0))
    BOOL_AND(price > 0)
    """
    return _aggregate("bool_and", test)


def bool_or(test: Expression) -> Aggregate:
    """Whether a condition holds for some row.

    >>> print(ms.bool_or(ms.col("price") > 100))
    BOOL_OR(price > 100)
    """
    return _aggregate("bool_or", test)


def stddev(column: ColumnLike) -> Aggregate:
    """The standard deviation of a sample; `stddev_pop` and the variances are `ms.aggregate("…", column)`.

    >>> print(ms.stddev("price"))
    STDDEV(price)
    """
    return _aggregate("stddev", column)


def aggregate(name: str, *arguments: object) -> Aggregate:
    """Any aggregate by its name.

    >>> print(ms.aggregate("var_pop", "price"))
    VAR_POP(price)
    """
    return _aggregate(name, *arguments)


def holds_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate is called somewhere in a node, other than in a query of its own or with OVER."""
    return any(_is_aggregate(part) for part in node.walk(prune=lambda part: isinstance(part, exp.Query | exp.Window)))


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is the call of an aggregate, with what belongs to it."""
    return _is_aggregate(node) or (isinstance(node, exp.Filter | exp.IgnoreNulls) and _is_aggregate(node.this))


def _is_aggregate(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in AGGREGATES
    return isinstance(node, exp.AggFunc)


def _aggregate(name: str, *arguments: object, distinct: bool = False) -> Aggregate:
    return Aggregate(call_node(name, arguments, distinct=distinct))


def _positional(name: str, column: ColumnLike, ignore_nulls: bool) -> Aggregate:
    node = call_node(name, (column,))
    return Aggregate(exp.IgnoreNulls(this=node) if ignore_nulls else node)
