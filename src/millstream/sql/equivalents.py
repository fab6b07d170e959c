"""Functions that Spark SQL spells in its own way, in the one form that other dialects have too.

Owns the rewriting of a call while it is parsed. A rewritten call means the same in Spark SQL, and
prints in a form that parses to itself. What is not here keeps sqlglot's reading.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.errors import ParseError

Builder = Callable[[list[exp.Expr]], exp.Expr]


def _one(args: list[exp.Expr]) -> exp.Expr:
    if len(args) != 1:
        raise ParseError("expected one argument")
    return args[0]


def _operand(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node) if isinstance(node, exp.Binary | exp.Unary | exp.Predicate) else node


def _is_null(args: list[exp.Expr]) -> exp.Expr:
    return exp.Paren(this=exp.Is(this=_operand(_one(args)), expression=exp.Null()))


def _is_not_null(args: list[exp.Expr]) -> exp.Expr:
    return exp.Paren(this=exp.Not(this=exp.Is(this=_operand(_one(args)), expression=exp.Null())))


def _negative(args: list[exp.Expr]) -> exp.Expr:
    return exp.Paren(this=exp.Neg(this=_operand(_one(args))))


def _positive(args: list[exp.Expr]) -> exp.Expr:
    return exp.Paren(this=_one(args))


def _timestamp(args: list[exp.Expr]) -> exp.Expr:
    return exp.cast(_one(args), exp.DType.TIMESTAMP, copy=False)


def _date_part(args: list[exp.Expr]) -> exp.Expr:
    if len(args) != 2 or not args[0].is_string or not args[0].name.isidentifier():
        raise ParseError("expected a field in quotes, as in date_part('year', ts)")
    return exp.Extract(this=exp.var(args[0].name.upper()), expression=args[1])


def _named_struct(args: list[exp.Expr]) -> exp.Expr:
    if len(args) % 2 or not all(key.is_string for key in args[::2]):
        raise ParseError("expected names in quotes, each with a value, as in named_struct('a', 1)")
    return exp.Struct(
        expressions=[
            exp.PropertyEQ(this=exp.to_identifier(key.name), expression=value)
            for key, value in zip(args[::2], args[1::2], strict=True)
        ]
    )


def _since_epoch(scale: exp.Expr) -> Builder:
    return lambda args: exp.UnixToTime(this=_one(args), scale=scale.copy())


def _seconds(args: list[exp.Expr]) -> exp.Expr:
    # BIGINT, because INT seconds times a million do not fit an INT.
    factor = exp.cast(exp.Literal.number(1_000_000), exp.DType.BIGINT, copy=False)
    micros = exp.Mul(this=_operand(_one(args)), expression=factor)
    return exp.UnixToTime(this=micros, scale=exp.UnixToTime.MICROS.copy())


def _both_trim(args: list[exp.Expr]) -> exp.Expr:
    if not 1 <= len(args) <= 2:
        raise ParseError("expected one or two arguments")
    return exp.Trim(this=args[0], expression=args[1] if len(args) == 2 else None)


def _zero_if_null(args: list[exp.Expr]) -> exp.Expr:
    return exp.Coalesce(this=_one(args), expressions=[exp.Literal.number(0)])


def _null_if_zero(args: list[exp.Expr]) -> exp.Expr:
    return exp.Nullif(this=_one(args), expression=exp.Literal.number(0))


EQUIVALENTS: dict[str, Builder] = {
    "ANY": exp.LogicalOr.from_arg_list,
    "BTRIM": _both_trim,
    "DATE_PART": _date_part,
    "EVERY": exp.LogicalAnd.from_arg_list,
    "ISNOTNULL": _is_not_null,
    "ISNULL": _is_null,
    "MEAN": exp.Avg.from_arg_list,
    "NAMED_STRUCT": _named_struct,
    "NEGATIVE": _negative,
    "NULLIFZERO": _null_if_zero,
    "POSITIVE": _positive,
    "SOME": exp.LogicalOr.from_arg_list,
    # One timestamp type: an instant in UTC (see millstream.model.schema).
    "TIMESTAMP_LTZ": _timestamp,
    "TIMESTAMP_NTZ": _timestamp,
    # Seconds go through microseconds, because elsewhere the function for seconds has a time zone.
    "TIMESTAMP_MICROS": _since_epoch(exp.UnixToTime.MICROS),
    "TIMESTAMP_MILLIS": _since_epoch(exp.UnixToTime.MILLIS),
    "TIMESTAMP_SECONDS": _seconds,
    "ZEROIFNULL": _zero_if_null,
}


def settle_aggregates(query: exp.Query) -> None:
    """Turn `first_value(x)` and `last_value(x)` without OVER into `first(x)` and `last(x)`.

    Both are aggregates in Spark SQL; elsewhere the long names are window functions only.
    """
    for call in list(query.find_all(exp.FirstValue, exp.LastValue)):
        top: exp.Expr = call
        while isinstance(top.parent, exp.IgnoreNulls | exp.RespectNulls | exp.Filter) and top.arg_key == "this":
            top = top.parent
        if isinstance(top.parent, exp.Window) and top.arg_key == "this":
            continue
        short = exp.First if isinstance(call, exp.FirstValue) else exp.Last
        call.replace(short(this=call.this).update_positions(call))
