"""Python values, names and durations as parts of StreamSQL.

Owns the one way from a value of the caller's program into a query. A value becomes a literal and
a name an identifier, never text, so nothing that a caller passes can end a string or a name
early. What has no exact literal is refused.
"""

from __future__ import annotations

import math
import numbers
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache

from sqlglot import exp

from millstream.model.errors import MillstreamError
from millstream.model.time import format_duration, parse_duration, to_datetime, to_micros
from millstream.sql import parse_statement
from millstream.sql.render import quote_name
from millstream.sql.statements import Select

Duration = str | timedelta
"""`"10 seconds"`, `"1 hour 30 minutes"` or a `timedelta`."""

Value = None | bool | int | float | Decimal | str | bytes | date | datetime | timedelta
"""What has a literal."""

_MAX_DIGITS = 38
_MAX_MICROS = 2**63 - 1


def literal(value: object) -> exp.Expr:
    """The literal of a Python value.

    >>> print(literal("it's").sql("spark"))
    'it\\'s'
    """
    match value:
        case None:
            return exp.null()
        case bool():
            return exp.Boolean(this=value)
        case numbers.Integral():
            return _integer(int(value))
        case float():
            return _double(float(value))
        case Decimal() if value.is_finite():
            return _decimal(value)
        case str():
            return exp.Literal.string(value)
        case bytes():
            return exp.HexString(this=value.hex())
        case datetime():
            return _cast(exp.Literal.string(str(to_datetime(to_micros(value)))), "TIMESTAMP")
        case date():
            return _cast(exp.Literal.string(value.isoformat()), "DATE")
        case timedelta():
            return interval(duration_micros(value))
        case _:
            raise MillstreamError(
                "BAD_LITERAL",
                f"a value of type {type(value).__name__} has no literal in StreamSQL",
                detail=repr(value),
                hint="pass None, a bool, int, float, Decimal, str, bytes, date, datetime, timedelta, or an expression",
            )


def duration_micros(duration: Duration, *, positive: str | None = None) -> int:
    """Microseconds of a duration; `positive` names one that must be longer than zero.

    >>> duration_micros("1 minute 30 seconds") == duration_micros(timedelta(seconds=90))
    True
    """
    match duration:
        case timedelta():
            micros = duration // timedelta(microseconds=1)
        case str():
            micros = parse_duration(duration)
        case _:
            raise MillstreamError(
                "BAD_DURATION",
                f"{duration!r} is not a duration",
                hint="pass text such as '30 seconds', or a timedelta",
            )
    if abs(micros) > _MAX_MICROS:
        raise MillstreamError("BAD_DURATION", f"{duration!r} is too long")
    if positive and micros <= 0:
        raise MillstreamError("BAD_DURATION", f"the {positive} must be longer than zero, not {duration!r}")
    return micros


def interval(micros: int) -> exp.Interval:
    """An interval in its shortest spelling.

    >>> interval(90_000_000).sql("spark")
    "INTERVAL '90' SECONDS"
    """
    amount, unit = format_duration(micros).upper().split()
    return exp.Interval(this=exp.Literal.string(amount), unit=exp.var(unit))


def identifier(name: str) -> exp.Identifier:
    """A name, in backticks where it would be read as something else.

    >>> identifier("price").sql("spark"), identifier("from").sql("spark")
    ('price', '`from`')
    """
    if not isinstance(name, str) or not name:
        raise MillstreamError("BAD_NAME", f"{name!r} is not a name", hint="a name is text and not empty")
    return exp.Identifier(this=name, quoted=_needs_quotes(name))


@lru_cache(maxsize=4096)
def _needs_quotes(name: str) -> bool:
    if quote_name(name) != name:
        return True
    # A word such as current_date is no keyword, and yet no column where it stands alone.
    try:
        statement = parse_statement(f"SELECT {name}")
    except MillstreamError:
        return True
    assert isinstance(statement, Select)
    return not all(isinstance(node, exp.Column) for node in statement.query.expressions)


def _integer(value: int) -> exp.Expr:
    if len(str(abs(value))) > _MAX_DIGITS:
        raise MillstreamError("BAD_LITERAL", f"a number has at most {_MAX_DIGITS} digits, not {len(str(abs(value)))}")
    return _signed(str(abs(value)), value < 0)


def _double(value: float) -> exp.Expr:
    if not math.isfinite(value):
        text = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return _cast(exp.Literal.string(text), "DOUBLE")
    text = repr(abs(value))
    # Without an exponent SQL takes a fraction for a DECIMAL, and a float is none.
    return _signed(text if "e" in text else f"{text}e0", math.copysign(1, value) < 0)


def _decimal(value: Decimal) -> exp.Expr:
    text = format(abs(value), "f")
    whole, _, fraction = text.partition(".")
    digits = len(whole.lstrip("0")) + len(fraction)
    if digits > _MAX_DIGITS:
        raise MillstreamError("BAD_LITERAL", f"a DECIMAL has at most {_MAX_DIGITS} digits, not {digits}")
    if fraction:
        return _signed(text, value < 0)
    return _cast(_signed(text, value < 0), f"DECIMAL({max(digits, 1)}, 0)")


def _signed(digits: str, negative: bool) -> exp.Expr:
    number = exp.Literal.number(digits)
    return exp.Neg(this=number) if negative else number


def _cast(node: exp.Expr, type_: str) -> exp.Cast:
    return exp.cast(node, type_, dialect="spark", copy=False)


def whole_number(what: str, value: int, least: int) -> int:
    """A number of rows."""
    if type(value) is not int or value < least:
        raise MillstreamError("BAD_LIMIT", f"{what} takes a whole number of at least {least}, not {value!r}")
    return value


def option_text(value: object) -> str:
    """The value of an option of WITH (…)."""
    if isinstance(value, timedelta):
        return format_duration(duration_micros(value))
    return str(value).lower() if isinstance(value, bool) else str(value)
