"""The reading of values: one rule for every entrance, be it a line, a file, a statement or a program.

Owns what a value means in a column of a type. What always holds: a value either fits or raises `MisfitError`. A value
that fits is changed only as `docs/sources.md` says ("How values are read"): a DECIMAL is rounded to its
scale, a floating-point number is the nearest one, and an instant has microseconds. Must not know where a value is
from: entrances bring it into one of the kinds below first.

Kinds: None, bool, int, float, Decimal, str, bytes, date, datetime, list, tuple, dict and `Pairs`. An instant is read as
microseconds and a date as days since 1970, which is how Arrow takes them at any depth.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import lru_cache
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from millstream.kernel.spelling import DATE, instants, other_character
from millstream.model.schema import sql_type
from millstream.model.time import MICROS, to_micros

Read = Callable[[Any], Any]

_SHOWN = 80
_MOST_DIGITS = 400
# More digits than any DECIMAL, and any instant, has.
_EXACT = Context(prec=80)
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_NAMED = re.compile(r"([-+]?)(?:(NaN)|Inf|INF|Infinity)")
_DAY = r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
_DATE = re.compile(_DAY)
_INSTANT = re.compile(
    _DAY + r"(?:[T ]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]+))?)?)?(?: ?([-+A-Z][-+:/\w]*))?)?"
)
_OFFSET = re.compile(r"([-+])([0-9]{1,2})(?::?([0-9]{2}))?")
_UTC = frozenset({"Z", "UTC", "GMT"})
_DAY_MICROS = 86_400 * MICROS
# The years 0000 to 9999.
_FIRST_INSTANT, _LAST_INSTANT = -719_528 * _DAY_MICROS, 2_932_897 * _DAY_MICROS - 1
_CYCLE_DAYS = 146_097
_EPOCH_DAY = date(1970, 1, 1).toordinal()


class MisfitError(ValueError):
    """A value does not fit a column."""


class Pairs(tuple[tuple[str, Any], ...]):
    """An object of JSON as it was written: keys in their order, one perhaps twice."""

    __slots__ = ()


def read_column(values: Sequence[Any], type_: pa.DataType) -> tuple[pa.Array, dict[int, Any]]:
    """The values of a column, NULL where one does not fit; and those that do not, by their number."""
    fast = _at_once(values, type_)
    return (fast, {}) if fast is not None else _one_by_one(values, type_, reader(type_))


def read_texts(texts: Sequence[str | None], type_: pa.DataType) -> tuple[pa.Array, dict[int, Any]]:
    """The same for values that are text whatever their type, as those of CSV are."""
    if pa.types.is_string(type_) or pa.types.is_temporal(type_):
        return read_column(texts, type_)
    return _one_by_one(texts, type_, text_reader(type_))


def misfit(column: str, type_: pa.DataType, value: Any) -> str:
    """Why a value does not fit.

    >>> misfit("price", pa.int64(), "abc")
    'price is BIGINT, got "abc"'
    """
    return f"{column} is {sql_type(type_)}, got {shown(value)}"


def shown(value: Any) -> str:
    """The beginning of a value, for a message."""
    try:
        text = json_text(value)
    except MisfitError:
        text = repr(value)
    # Half of a surrogate pair has no form in UTF-8.
    text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def json_text(value: Any) -> str:
    """A value as JSON, numbers as they were written."""
    match value:
        case None | bool() | int() | str():
            return json.dumps(value, ensure_ascii=False)
        case float():
            return json.dumps(value)
        case Decimal():
            return str(value)
        case Pairs():
            return "{" + ",".join(f"{json_text(key)}:{json_text(item)}" for key, item in value) + "}"
        case dict():
            return "{" + ",".join(f"{json_text(str(key))}:{json_text(item)}" for key, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(map(json_text, value)) + "]"
    raise MisfitError


# -- columns -----------------------------------------------------------------------------------


def _one_by_one(values: Sequence[Any], type_: pa.DataType, read: Read) -> tuple[pa.Array, dict[int, Any]]:
    found: list[Any] = []
    misfits: dict[int, Any] = {}
    for number, value in enumerate(values):
        try:
            found.append(None if value is None else read(value))
        except (ValueError, TypeError, ArithmeticError, RecursionError):
            found.append(None)
            misfits[number] = value
    return pa.array(found, type_), misfits


def _at_once(values: Sequence[Any], type_: pa.DataType) -> pa.Array | None:
    """A column whose values are all of the kind that its type has; None if they must be looked at one by one."""
    kinds = set(map(type, values))
    kinds.discard(type(None))
    try:
        if not kinds:
            return pa.nulls(len(values), type_)
        if kinds == {str} and pa.types.is_timestamp(type_):
            found = instants(pa.array(values, pa.string()))
            return None if found is None else found.cast(type_)
        if kinds == {str} and type_ == pa.date32():
            texts = pa.array(values, pa.string())
            return texts.cast(type_) if other_character(texts, DATE) is None else None
        if type_ == pa.float64() and kinds <= {int, float, Decimal}:
            floats = [None if value is None else float(value) for value in values]
            known = kinds == {float} or not any(value is not None and math.isinf(value) for value in floats)
            return pa.array(floats, type_) if known else None
        plain = (
            (kinds == {int} and pa.types.is_integer(type_))
            or (kinds == {str} and pa.types.is_string(type_))
            or (kinds == {bool} and pa.types.is_boolean(type_))
            or (kinds == {bytes} and pa.types.is_binary(type_))
        )
        return pa.array(values, type_) if plain else None
    except (pa.ArrowException, ValueError, ArithmeticError):
        return None


# -- values ------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def reader(type_: pa.DataType) -> Read:
    """What reads a value of a type; it raises `MisfitError`, or another `ValueError`, `TypeError` or
    `ArithmeticError`."""
    if pa.types.is_boolean(type_):
        return _boolean
    if pa.types.is_integer(type_):
        limit = 1 << (type_.bit_width - 1)
        return lambda value: _integer(value, limit)
    if pa.types.is_float32(type_):
        return lambda value: _single(_double(value), value)
    if pa.types.is_floating(type_):
        return _double
    if pa.types.is_decimal(type_):
        return lambda value: _decimal(value, type_.precision, type_.scale)
    if pa.types.is_string(type_):
        return _string
    if pa.types.is_binary(type_):
        return _binary
    if pa.types.is_date(type_):
        return _date
    if pa.types.is_timestamp(type_):
        return _timestamp
    return _nested(type_)


def _nested(type_: pa.DataType) -> Read:
    if pa.types.is_map(type_):
        key, item = reader(type_.key_type), reader(type_.item_type)
        key_text = text_reader(type_.key_type)
        return lambda value: _map(value, lambda k: key_text(k) if isinstance(k, str) else key(k), item)
    if pa.types.is_struct(type_):
        fields = {field.name.lower(): (field.name, reader(field.type)) for field in type_}
        return lambda value: _struct(value, fields)
    element = reader(type_.value_type)
    return lambda value: _list(value, element)


@lru_cache(maxsize=256)
def text_reader(type_: pa.DataType) -> Read:
    """What reads a value that can only be text, as in CSV. Blanks around a value count in a STRING alone."""
    read = reader(type_)
    if pa.types.is_string(type_):
        return read
    if pa.types.is_boolean(type_):
        return lambda text: _BOOLEANS[text.strip(" \t").lower()]
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return lambda text: read(_number(text.strip(" \t")))
    if pa.types.is_nested(type_):
        return lambda text: read(json_value(text))
    return lambda text: read(text.strip(" \t"))


class _Words(dict[str, bool]):
    def __missing__(self, key: str) -> bool:
        raise MisfitError


_BOOLEANS = _Words(true=True, false=False)


def _number(text: str) -> Decimal | str:
    """The number that a text spells; any other text as it is."""
    return Decimal(text) if _NUMBER.fullmatch(text) else text


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise MisfitError


def _integer(value: Any, limit: int) -> int:
    match value:
        case bool():
            raise MisfitError
        case int():
            number = value
        case float() if value.is_integer():
            number = int(value)
        # The size first: an exponent may be beyond what an integer can be made of.
        case Decimal() if value.is_finite() and value.adjusted() < 30 and value == value.to_integral_value():
            number = int(value)
        case Decimal() if value.is_zero():
            number = 0
        case _:
            raise MisfitError
    if -limit <= number < limit:
        return number
    raise MisfitError


def _double(value: Any) -> float:
    match value:
        case bool():
            raise MisfitError
        case float():
            return value
        case str():
            named = _NAMED.fullmatch(value)
            if named is None or (named[2] and named[1]):
                raise MisfitError
            return math.nan if named[2] else -math.inf if named[1] == "-" else math.inf
        case int() | Decimal():
            number = float(value)
            if math.isinf(number) and (isinstance(value, int) or value.is_finite()):
                raise MisfitError
            return number
    raise MisfitError


def _single(number: float, value: Any) -> float:
    """The nearest FLOAT of a value; `number` is its nearest DOUBLE."""
    if not math.isfinite(number):
        return number
    # Not by way of the DOUBLE, which would round twice.
    nearest: float = pa.scalar(str(value)).cast(pa.float32()).as_py()
    if math.isinf(nearest):
        raise MisfitError
    return nearest


def _exactly(number: float | Decimal) -> Decimal:
    """A float stands for the number it is written as: 0.1 is one tenth."""
    return Decimal(repr(number)) if isinstance(number, float) else Decimal(number)


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    match value:
        case bool():
            raise MisfitError
        case str():
            if not _NUMBER.fullmatch(value):
                raise MisfitError
            exact = Decimal(value)
        case int() | float() | Decimal():
            exact = _exactly(value)
        case _:
            raise MisfitError
    if not exact.is_finite():
        raise MisfitError
    if exact.is_zero():
        return Decimal(0)
    # The size first: an exponent may be beyond what digits can be written for.
    if exact.adjusted() >= precision - scale:
        raise MisfitError
    try:
        rounded = exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    except InvalidOperation:
        raise MisfitError from None
    if rounded.is_zero() or rounded.adjusted() < precision - scale:
        return rounded
    raise MisfitError


def _string(value: Any) -> str:
    """A text; anything else as its JSON, a number without an exponent."""
    match value:
        case str():
            value.encode()
            return value
        case bytes():
            return value.decode()
        case bool() | int():
            return json_text(value)
        case float() | Decimal() if math.isfinite(value):
            return _digits(_exactly(value))
        case Pairs() | dict() | list() | tuple():
            text = json_text(value)
            text.encode()
            return text
    raise MisfitError


def _digits(number: Decimal) -> str:
    """A number without an exponent: one of a DOUBLE's size, since another could fill the memory with zeros."""
    if number.adjusted() not in range(-_MOST_DIGITS, _MOST_DIGITS):
        raise MisfitError
    return format(number, "f")


def _binary(value: Any) -> bytes:
    match value:
        case bytes() | bytearray() | memoryview():
            return bytes(value)
        case str():
            return b64decode(value, validate=True)
    raise MisfitError


# -- time --------------------------------------------------------------------------------------


def _date(value: Any) -> int:
    match value:
        case str():
            found = _DATE.fullmatch(value)
            if found is None:
                raise MisfitError
            return _days(*map(int, found.groups()))
        case datetime():
            if value.tzinfo is not None or (value.hour, value.minute, value.second, value.microsecond) != (0, 0, 0, 0):
                raise MisfitError
            return value.toordinal() - _EPOCH_DAY
        case date():
            return value.toordinal() - _EPOCH_DAY
    raise MisfitError


def _timestamp(value: Any) -> int:
    """Microseconds of an instant. A number is seconds since 1970; a date is its midnight."""
    match value:
        case str():
            micros = _instant(value)
        case datetime():
            micros = to_micros(value)
        case date():
            micros = (value.toordinal() - _EPOCH_DAY) * _DAY_MICROS
        case bool():
            raise MisfitError
        case int():
            micros = value * MICROS
        case float() | Decimal():
            seconds = _exactly(value)
            if not seconds.is_finite() or seconds.adjusted() > 12:
                raise MisfitError
            micros = int(_EXACT.multiply(seconds, MICROS).to_integral_value(ROUND_FLOOR))
        case _:
            raise MisfitError
    if _FIRST_INSTANT <= micros <= _LAST_INSTANT:
        return micros
    raise MisfitError


def _instant(text: str) -> int:
    found = _INSTANT.fullmatch(text)
    if found is None:
        raise MisfitError
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    days = _days(int(year), int(month), int(day))
    hours, minutes, seconds = (int(part or 0) for part in (hour, minute, second))
    if hours > 23 or minutes > 59 or seconds > 59:
        raise MisfitError
    micros = ((days * 24 + hours) * 60 + minutes) * 60 * MICROS + seconds * MICROS
    micros += int((fraction or "0")[:6].ljust(6, "0"))
    return micros if zone is None or zone in _UTC else micros - _offset(zone, micros)


def _offset(zone: str, micros: int) -> int:
    """The offset of a zone from UTC at a local time, in microseconds."""
    found = _OFFSET.fullmatch(zone)
    if found is not None:
        hours, minutes = int(found[2]), int(found[3] or 0)
        if hours > 18 or minutes > 59:
            raise MisfitError
        return (1 if found[1] == "+" else -1) * (hours * 60 + minutes) * 60 * MICROS
    if "/" not in zone:
        raise MisfitError
    try:
        here = ZoneInfo(zone)
    except (KeyError, OSError):
        raise MisfitError from None
    local = datetime.fromordinal(micros // _DAY_MICROS + _EPOCH_DAY).replace(
        hour=micros % _DAY_MICROS // (3600 * MICROS), minute=micros % (3600 * MICROS) // (60 * MICROS), tzinfo=here
    )
    offset = local.utcoffset()
    assert offset is not None
    return round(offset.total_seconds()) * MICROS


def _days(year: int, month: int, day: int) -> int:
    # The calendar of Python has no year 0, which is like the year 400.
    if year == 0:
        return date(400, month, day).toordinal() - _CYCLE_DAYS - _EPOCH_DAY
    return date(year, month, day).toordinal() - _EPOCH_DAY


# -- values of values --------------------------------------------------------------------------


def _optional(value: Any, read: Read) -> Any:
    return None if value is None else read(value)


def _list(value: Any, element: Read) -> list[Any]:
    if isinstance(value, Pairs) or not isinstance(value, list | tuple):
        raise MisfitError
    return [_optional(item, element) for item in value]


def _struct(value: Any, fields: dict[str, tuple[str, Read]]) -> dict[str, Any]:
    """Fields are found in any case; other keys are ignored, and a missing field is NULL."""
    found: dict[str, Any] = {}
    for key, item in _items(value):
        field = fields.get(str(key).lower())
        if field is None:
            continue
        name, read = field
        if name in found:
            raise MisfitError
        found[name] = _optional(item, read)
    return found


def _map(value: Any, key: Read, item: Read) -> list[tuple[Any, Any]]:
    pairs = [(key(name), _optional(held, item)) for name, held in _items(value)]
    ordered = sorted((name for name, _ in pairs), key=repr)
    if any(one == other for one, other in pairwise(ordered)):
        raise MisfitError
    return pairs


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    match value:
        case Pairs():
            return value
        case dict():
            return value.items()
        # A map as Arrow has it in Python.
        case list() if all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
            return value
    raise MisfitError


# -- JSON --------------------------------------------------------------------------------------

_JSON = json.JSONDecoder(object_pairs_hook=Pairs, parse_float=Decimal)


def json_value(text: str) -> Any:
    """The value that a text of JSON is: objects as `Pairs`, numbers with a point or an exponent as Decimal.

    Raises `json.JSONDecodeError`, or another `ValueError`, `ArithmeticError` or `RecursionError`.
    """
    return _JSON.decode(text)
