"""Expressions over the columns of a row: `ms.col("price") > 100`.

Owns `Expression` and how operators combine: an operand is put in parentheses exactly where the
text would otherwise be read differently. An expression is immutable and knows no relation;
whether its columns exist is for the planner to say. Must not build SQL from text of the caller,
other than by parsing it.

Text stands for a column where a column is expected (`ms.sum("price")`), and for itself beside an
operator (`ms.col("channel") == "web"`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NoReturn

from sqlglot import exp

from millstream.builder.literals import identifier, literal
from millstream.model.errors import MillstreamError, Position, did_you_mean
from millstream.sql import parse_statement
from millstream.sql.column_types import TYPE_NAMES, arrow_type
from millstream.sql.dialect import StreamSQL
from millstream.sql.statements import Select

# How tightly an operator binds. What is not here and is no operator binds tightest.
_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGN, _TIGHT = range(1, 9)
_LEVELS: dict[type[exp.Expr], int] = {
    exp.Or: _OR,
    exp.And: _AND,
    exp.Not: _NOT,
    **dict.fromkeys(
        (
            exp.EQ,
            exp.NEQ,
            exp.GT,
            exp.GTE,
            exp.LT,
            exp.LTE,
            exp.NullSafeEQ,
            exp.Is,
            exp.In,
            exp.Between,
            exp.Like,
            exp.ILike,
            exp.RegexpLike,
        ),
        _COMPARISON,
    ),
    **dict.fromkeys((exp.Add, exp.Sub), _SUM),
    **dict.fromkeys((exp.Mul, exp.Div, exp.IntDiv, exp.Mod), _PRODUCT),
    exp.Neg: _SIGN,
    **dict.fromkeys((exp.Paren, exp.Dot), _TIGHT),
}
_LOOSE: tuple[type[exp.Expr], ...] = (exp.Binary, exp.Unary, exp.Predicate, exp.IgnoreNulls, exp.RespectNulls)
_PREFIX = "SELECT "


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Expression:
    """A value computed from a row: a column, a literal, an operator or a function over others.

    Made by `ms.col`, `ms.lit`, `ms.expr`, `ms.case`, `ms.fn` and the aggregates. The operators
    `+ - * / %`, `== != < <= > >=` and `& | ~` give expressions again.

    >>> print((ms.col("price") * 2 + 1 > 100) & ~(ms.col("channel") == "web"))
    price * 2 + 1 > 100 AND NOT channel = 'web'
    """

    node: exp.Expr
    """The expression in the Spark dialect of sqlglot. Copy it before changing it."""

    # -- operators ---------------------------------------------------------------------------

    def __add__(self, other: object) -> Expression:
        return _binary(exp.Add, self, other)

    def __radd__(self, other: object) -> Expression:
        return _binary(exp.Add, other, self)

    def __sub__(self, other: object) -> Expression:
        return _binary(exp.Sub, self, other)

    def __rsub__(self, other: object) -> Expression:
        return _binary(exp.Sub, other, self)

    def __mul__(self, other: object) -> Expression:
        return _binary(exp.Mul, self, other)

    def __rmul__(self, other: object) -> Expression:
        return _binary(exp.Mul, other, self)

    def __truediv__(self, other: object) -> Expression:
        return _quotient(self, other)

    def __rtruediv__(self, other: object) -> Expression:
        return _quotient(other, self)

    def __mod__(self, other: object) -> Expression:
        return _binary(exp.Mod, self, other)

    def __rmod__(self, other: object) -> Expression:
        return _binary(exp.Mod, other, self)

    def __neg__(self) -> Expression:
        return Expression(exp.Neg(this=operand(self, _TIGHT)))

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return _comparison(exp.EQ, self, other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return _comparison(exp.NEQ, self, other)

    def __lt__(self, other: object) -> Expression:
        return _comparison(exp.LT, self, other)

    def __le__(self, other: object) -> Expression:
        return _comparison(exp.LTE, self, other)

    def __gt__(self, other: object) -> Expression:
        return _comparison(exp.GT, self, other)

    def __ge__(self, other: object) -> Expression:
        return _comparison(exp.GTE, self, other)

    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: object) -> Expression:
        return _binary(exp.And, self, other)

    def __rand__(self, other: object) -> Expression:
        return _binary(exp.And, other, self)

    def __or__(self, other: object) -> Expression:
        return _binary(exp.Or, self, other)

    def __ror__(self, other: object) -> Expression:
        return _binary(exp.Or, other, self)

    def __invert__(self) -> Expression:
        return Expression(exp.Not(this=operand(self, _NOT)))

    def __bool__(self) -> NoReturn:
        raise MillstreamError(
            "EXPRESSION_AS_BOOL",
            "an expression has no truth value: it is computed for every row",
            detail=str(self),
            hint="use & | ~ in place of and, or, not, each side in parentheses; and isin() in place of in",
        )

    # -- tests -------------------------------------------------------------------------------

    def is_null(self) -> Expression:
        """Whether the value is NULL.

        >>> print(ms.col("price").is_null())
        price IS NULL
        """
        return Expression(exp.Is(this=operand(self, _COMPARISON + 1), expression=exp.null()))

    def is_not_null(self) -> Expression:
        """Whether there is a value.

        >>> print(ms.col("price").is_not_null())
        NOT price IS NULL
        """
        return ~self.is_null()

    def isin(self, *values: object) -> Expression:
        """Whether the value is one of some, given one by one or as one collection.

        >>> print(ms.col("channel").isin("web", "app"), "|", ms.col("channel").isin(["web"]))
        channel IN ('web', 'app') | channel IN ('web')
        """
        if len(values) == 1 and isinstance(values[0], Iterable) and not isinstance(values[0], str | bytes | Expression):
            values = tuple(values[0])
        if not values:
            return Expression(exp.false())
        return Expression(exp.In(this=operand(self, _COMPARISON + 1), expressions=[operand(value) for value in values]))

    def between(self, low: object, high: object) -> Expression:
        """Whether the value lies between two others, both included.

        >>> print(ms.col("price").between(1, 10))
        price BETWEEN 1 AND 10
        """
        least = _COMPARISON + 1
        return Expression(exp.Between(this=operand(self, least), low=operand(low, least), high=operand(high, least)))

    def like(self, pattern: object) -> Expression:
        """Whether text matches a pattern in which `%` is any text and `_` any character.

        >>> print(ms.col("channel").like("web%"))
        channel LIKE 'web%'
        """
        return _comparison(exp.Like, self, pattern)

    def ilike(self, pattern: object) -> Expression:
        """As `like`, in any case.

        >>> print(ms.col("channel").ilike("WEB%"))
        channel ILIKE 'WEB%'
        """
        return _comparison(exp.ILike, self, pattern)

    def rlike(self, pattern: object) -> Expression:
        """Whether text holds a match of a regular expression.

        >>> print(ms.col("channel").rlike("^web[0-9]+$"))
        channel RLIKE '^web[0-9]+$'
        """
        return _comparison(exp.RegexpLike, self, pattern)

    # -- the rest ----------------------------------------------------------------------------

    def cast(self, type_: str) -> Expression:
        """The value in another type, named as in SQL; where that fails, the row is a dead letter.

        >>> print(ms.col("price").cast("decimal(10, 2)"))
        CAST(price AS DECIMAL(10, 2))
        """
        return Expression(exp.Cast(this=operand(self), to=_data_type(type_)))

    def try_cast(self, type_: str) -> Expression:
        """As `cast`, but NULL where it fails.

        >>> print(ms.col("price").try_cast("int"))
        TRY_CAST(price AS INT)
        """
        return Expression(exp.TryCast(this=operand(self), to=_data_type(type_), safe=True))

    def field(self, name: str) -> Expression:
        """A field of a struct.

        >>> print(ms.col("address").field("zip"))
        address.zip
        """
        whole = operand(self)
        if not isinstance(whole, exp.Column | exp.Dot):
            whole = exp.Paren(this=whole)
        return Expression(exp.Dot(this=whole, expression=identifier(name)))

    def alias(self, name: str) -> Expression:
        """The same value under a name, as a column of the result.

        >>> print((ms.col("price") * 2).alias("double"))
        price * 2 AS `double`
        """
        return Expression(exp.Alias(this=operand(self), alias=identifier(name)))

    def asc(self, *, nulls: Nulls = "first") -> Ordering:
        """Smallest first, for `order_by`.

        >>> print(ms.col("price").asc(nulls="last"))
        price NULLS LAST
        """
        return _ordering(self, False, nulls)

    def desc(self, *, nulls: Nulls = "last") -> Ordering:
        """Largest first, for `order_by`.

        >>> print(ms.col("price").desc())
        price DESC
        """
        return _ordering(self, True, nulls)

    @property
    def name(self) -> str | None:
        """What it is called in a result: its alias, or the column that it is, or was before a cast.

        >>> (ms.col("bids.price").cast("int")).name, ms.col("price").alias("p").name, (ms.col("price") + 1).name
        ('price', 'p', None)
        """
        node = self.node
        while isinstance(node, exp.Cast):
            node = node.this
        return node.output_name or None if isinstance(node, exp.Alias | exp.Column | exp.Dot) else None

    def __str__(self) -> str:
        return self.node.sql(dialect=StreamSQL)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"


Nulls = Literal["first", "last"]


@dataclass(frozen=True, slots=True)
class Ordering:
    """One part of an order: see `Expression.asc` and `Expression.desc`."""

    node: exp.Ordered

    def __str__(self) -> str:
        return self.node.sql(dialect=StreamSQL)


ColumnLike = Expression | str
"""An expression, or the name of a column."""


def col(name: str) -> Expression:
    """A column by its name; `"bids.price"` is the column of one of several relations, `"*"` all columns.

    >>> print(col("price"), col("bids.price"), col("bids.*"), col("order date"))
    price bids.price bids.* `order date`
    """
    *path, last = name.split(".") if isinstance(name, str) else [name]
    if last == "*":
        star = exp.Star()
        return Expression(exp.Column(this=star, table=identifier(".".join(path))) if path else star)
    first, *rest = (identifier(part) for part in (*path, last))
    if not rest:
        return Expression(exp.Column(this=first))
    node: exp.Expr = exp.Column(this=rest[0], table=first)
    for part in rest[1:]:
        node = exp.Dot(this=node, expression=part)
    return Expression(node)


def lit(value: object) -> Expression:
    """A constant: None, bool, int, float, Decimal, str, bytes, date, datetime (UTC if naive) or timedelta.

    >>> from datetime import date, timedelta
    >>> print(lit("it's"), lit(None), lit(1.5), lit(date(2025, 1, 1)), lit(timedelta(minutes=5)))
    'it\\'s' NULL 1.5e0 CAST('2025-01-01' AS DATE) INTERVAL '5' MINUTES
    """
    return Expression(operand(value))


def expr(text: str) -> Expression:
    """Any expression of StreamSQL, as text: the way to what the builder has no method for.

    >>> print(expr("extract(hour from ts) AS hour"))
    EXTRACT(HOUR FROM ts) AS hour
    """
    return Expression(parse_expression(text))


def asc(column: ColumnLike, *, nulls: Nulls = "first") -> Ordering:
    """Smallest first, for `order_by`.

    >>> print(asc("price"))
    price
    """
    return as_column(column).asc(nulls=nulls)


def desc(column: ColumnLike, *, nulls: Nulls = "last") -> Ordering:
    """Largest first, for `order_by`.

    >>> print(desc("price"))
    price DESC
    """
    return as_column(column).desc(nulls=nulls)


# -- for the other modules of the builder --------------------------------------------------------


def as_column(value: object) -> Expression:
    """What stands where a column is expected: text is its name, other values are constants."""
    if isinstance(value, Expression):
        return value
    return col(value) if isinstance(value, str) else lit(value)


def condition(value: object, where: str) -> exp.Expr:
    """The node of a condition; what is no expression is most likely a slip, and is refused."""
    if isinstance(value, Expression):
        return operand(value)
    raise MillstreamError(
        "NOT_A_CONDITION",
        f"{where} takes a condition, not {value!r}",
        hint=(
            f"write ms.expr({value!r}) for SQL text"
            if isinstance(value, str)
            else 'compare a column, as in ms.col("price") > 100'
        ),
    )


def operand(value: object, least: int = 0) -> exp.Expr:
    """A copy of a value's node, without an alias, in parentheses if it binds less tightly than `least`."""
    node = value.node.unalias().copy() if isinstance(value, Expression) else literal(value)
    return exp.Paren(this=node) if _level(node) < least else node


def in_place_of(node: exp.Expr, replaced: exp.Expr) -> exp.Expr:
    """A copy of a node to stand where another one stood, in parentheses if it needs them there."""
    copy = node.copy()
    return exp.Paren(this=copy) if _level(copy) < _least(replaced.parent, replaced.arg_key) else copy


def all_of(conditions: Iterable[exp.Expr | None]) -> exp.Expr | None:
    """Conditions joined with AND; None where there is none."""
    joined: exp.Expr | None = None
    for part in conditions:
        if part is None:
            continue
        joined = part if joined is None else (Expression(joined) & Expression(part)).node
    return joined


def parse_expression(text: str) -> exp.Expr:
    """The node of exactly one expression; positions in errors are into the text as given."""
    source = "<expression>"
    try:
        statement = parse_statement(_PREFIX + text, source)
    except MillstreamError as error:
        raise _without_prefix(error, text, source) from None
    query = statement.query if isinstance(statement, Select) else None
    if (
        not isinstance(query, exp.Select)
        or len(query.expressions) != 1
        or any(value for key, value in query.args.items() if key != "expressions")
    ):
        raise MillstreamError(
            "SYNTAX_ERROR", "expected exactly one expression", position=Position(text, 0, len(text), source)
        )
    node: exp.Expr = query.expressions[0].pop()
    return node


def _without_prefix(error: MillstreamError, text: str, source: str) -> MillstreamError:
    place = error.position
    if place is not None:
        start, end = (max(0, offset - len(_PREFIX)) for offset in (place.start, place.end))
        place = Position(text, start, end, source)
    return error.moved(place)


def _binary(kind: type[exp.Binary], left: object, right: object) -> Expression:
    level = _LEVELS[kind]
    return Expression(kind(this=operand(left, level), expression=operand(right, level + 1)))


def _quotient(left: object, right: object) -> Expression:
    quotient = _binary(exp.Div, left, right)
    # As the parser notes on every division how Spark divides.
    quotient.node.set("typed", StreamSQL.TYPED_DIVISION)
    quotient.node.set("safe", StreamSQL.SAFE_DIVISION)
    return quotient


def _comparison(kind: type[exp.Expr], left: object, right: object) -> Expression:
    return Expression(kind(this=operand(left, _COMPARISON + 1), expression=operand(right, _COMPARISON + 1)))


def _level(node: exp.Expr) -> int:
    level = _LEVELS.get(type(node))
    if level is not None:
        return level
    return 0 if _is_loose(node) else _TIGHT


def _least(parent: exp.Expr | None, place: str | None) -> int:
    """How tightly a child must bind to stand there without parentheses."""
    level = _LEVELS.get(type(parent)) if parent is not None else None
    if level is None:
        return _TIGHT if parent is not None and (_is_loose(parent) or isinstance(parent, exp.Bracket)) else 0
    if isinstance(parent, exp.Paren) or (isinstance(parent, exp.In) and place != "this"):
        return 0
    if isinstance(parent, exp.Neg | exp.Dot):
        return _TIGHT
    associates = level != _COMPARISON and place == "this"
    return level if associates else level + 1


def _is_loose(node: exp.Expr) -> bool:
    """Whether a node that has no level of its own prints as operands around a word or a sign."""
    return isinstance(node, _LOOSE) and not isinstance(node, exp.Func)


def _ordering(expression: Expression, descending: bool, nulls: Nulls) -> Ordering:
    if nulls not in ("first", "last"):
        raise MillstreamError("BAD_ORDER", f"nulls is 'first' or 'last', not {nulls!r}")
    return Ordering(exp.Ordered(this=operand(expression), desc=descending or None, nulls_first=nulls == "first"))


def _data_type(text: str) -> exp.DataType:
    node: exp.Expr | None
    try:
        node = parse_expression(f"CAST(NULL AS {text})")
    except MillstreamError:
        node = None
    # Whatever else the text holds would stand outside the cast.
    if type(node) is not exp.Cast or not isinstance(node.this, exp.Null) or arrow_type(node.to) is None:
        raise MillstreamError(
            "UNKNOWN_TYPE", f"{text} is not a type of StreamSQL", hint=did_you_mean(str(text), TYPE_NAMES)
        )
    return node.to
