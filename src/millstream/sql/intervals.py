"""Intervals of a query as microseconds.

Owns which intervals StreamSQL takes as durations: sums of constant amounts of units of fixed
length. A month or a year has no fixed length and is refused, never guessed.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from sqlglot import exp

from millstream.model.errors import MillstreamError, Position
from millstream.model.time import parse_duration, unit_micros
from millstream.sql.replacements import UNITS

_MAX_MICROS = 2**63 - 1
_HINT = "write a constant interval, as in INTERVAL 10 SECONDS or INTERVAL '1 hour 30 minutes'"


def interval_micros(node: exp.Expr, position: Position | None) -> int:
    """Microseconds of a constant interval expression; refuses anything else with BAD_INTERVAL."""
    micros = _micros(node, position)
    if abs(micros) > _MAX_MICROS:
        raise MillstreamError("BAD_INTERVAL", "the interval is too long", position=position)
    return micros


def _micros(node: exp.Expr, position: Position | None) -> int:
    match node:
        case exp.Paren():
            return _micros(node.this, position)
        case exp.Neg():
            return -_micros(node.this, position)
        case exp.Add():
            return _micros(node.this, position) + _micros(node.expression, position)
        case exp.Interval(args={"this": exp.Expr() as amount}):
            return _interval(amount, node.args.get("unit"), position)
        case _:
            raise MillstreamError("BAD_INTERVAL", "expected a constant interval", hint=_HINT, position=position)


def _interval(amount: exp.Expr, unit: exp.Expr | None, position: Position | None) -> int:
    sign = 1
    while isinstance(amount, exp.Neg | exp.Paren):
        sign = -sign if isinstance(amount, exp.Neg) else sign
        amount = amount.this
    if not isinstance(amount, exp.Literal):
        raise MillstreamError("BAD_INTERVAL", "the interval is not a constant", hint=_HINT, position=position)
    if unit is None:
        return sign * _words(amount.name, position)
    size = unit_micros(unit.name) if isinstance(unit, exp.Var) else None
    if size is None:
        word = (unit.name or unit.sql()).upper()
        raise MillstreamError(
            "BAD_INTERVAL",
            f"an interval of {word} has no fixed length in microseconds",
            hint=f"write {UNITS[word.lower()]}"
            if word.lower() in UNITS
            else "use WEEKS, DAYS, HOURS, MINUTES, SECONDS, MILLISECONDS or MICROSECONDS",
            position=position,
        )
    try:
        return sign * int(Decimal(amount.name.strip()) * size)
    except (InvalidOperation, OverflowError, ValueError):
        raise MillstreamError(
            "BAD_INTERVAL", f"{amount.name!r} is not a number", hint=_HINT, position=position
        ) from None


def _words(text: str, position: Position | None) -> int:
    try:
        return parse_duration(text)
    except MillstreamError as error:
        raise MillstreamError("BAD_INTERVAL", error.message, hint=error.hint, position=position) from None
