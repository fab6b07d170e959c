"""Functions of the store that are written in Python.

Owns the few that DuckDB has no form of: Java's way to print a DOUBLE, Unicode's full case mappings,
the edit distance of letters rather than bytes. The forms that use them are in `duck.forms` and
take DuckDB's own function wherever it agrees, so these see few rows. Users' functions are called here too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from inspect import Parameter, Signature
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from millstream.duck.forms import FAILED, MACROS
from millstream.model.schema import store_type
from millstream.model.user_functions import UserFunction
from millstream.sql.user_calls import store_name

_OPTIONS: dict[str, Any] = {"type": "arrow", "null_handling": "special", "exception_handling": "default"}


def create_scalar_functions(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the functions known to a connection and all its cursors."""
    connection.execute("CREATE SCHEMA IF NOT EXISTS ms")
    for name, overloads in MACROS.items():
        connection.execute(f"CREATE MACRO IF NOT EXISTS {name} {overloads}")
    for name, function in _FUNCTIONS.items():
        connection.create_function(name, function.kernel, function.arguments, function.returns, **_OPTIONS)


def create_user_function(connection: duckdb.DuckDBPyConnection, function: UserFunction) -> None:
    """Make a user's function known, in place of one of the same name. A row on which it fails fails the query."""
    remove_user_function(connection, function.name)

    def kernel(*columns: pa.ChunkedArray) -> pa.Array:
        values, errors = function.apply([_one_array(column) for column in columns])
        if errors.null_count < len(errors):
            raise ValueError(FAILED[0] + next(error for error in errors.to_pylist() if error is not None) + FAILED[1])
        return values

    # DuckDB counts parameters, and this has one for each argument.
    names = [Parameter(f"a{i}", Parameter.POSITIONAL_ONLY) for i in range(len(function.arguments))]
    vars(kernel)["__signature__"] = Signature(names)
    types: list[Any] = [store_type(type_) for type_ in function.arguments]
    connection.create_function(store_name(function.name), kernel, types, store_type(function.returns), **_OPTIONS)


def remove_user_function(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    with suppress(duckdb.Error):
        connection.remove_function(store_name(name))


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def java_double(value: float) -> str:
    """A DOUBLE as Java prints it: the shortest digits that tell it from its neighbours, but at least two.

    >>> java_double(1e10), java_double(0.001), java_double(5e-324), java_double(123456.789)
    ('1.0E10', '0.001', '4.9E-324', '123456.789')
    """
    return _java(value, repr(value), lambda text: float(text) == value)


def java_float(value: float) -> str:
    """A FLOAT, given as a DOUBLE, as Java prints it.

    >>> java_float(float(np.float32(0.1))), java_float(float(np.float32(1e10)))
    ('0.1', '1.0E10')
    """
    single = np.float32(value)
    return _java(value, str(single), lambda text: bool(np.float32(text) == single))


def _java(value: float, shortest: str, is_same: Callable[[str], bool]) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    two = f"{value:.1e}"
    mantissa, _, exponent = (two if is_same(two) else f"{Decimal(shortest):e}").partition("e")
    sign, digits = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    digits = digits.replace(".", "").rstrip("0") or "0"
    power = int(exponent)
    if -3 <= power < 7:
        whole = digits[: power + 1].ljust(power + 1, "0") if power >= 0 else "0"
        fraction = digits[power + 1 :] if power >= 0 else "0" * (-power - 1) + digits
        return f"{sign}{whole}.{fraction or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


def initcap(text: str) -> str:
    """Every word with its first letter in title case and the rest in lower case; words end at spaces."""
    return " ".join(word[:1].title() + word.lower()[len(word[:1].lower()) :] for word in text.split(" "))


def edit_distance(left: str, right: str) -> int:
    """How many letters must be put in, left out or changed to make one text of the other.

    >>> edit_distance("kitten", "sitting")
    3
    """
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (a != b))
    return row[-1]


@dataclass(frozen=True, slots=True)
class _Function:
    """A function as DuckDB calls it, over columns."""

    kernel: Callable[..., pa.Array]
    arguments: list[Any]
    returns: str


def _of_one(function: Callable[[Any], str], argument: str) -> _Function:
    def kernel(column: pa.ChunkedArray) -> pa.Array:
        return pa.array([None if value is None else function(value) for value in column.to_pylist()], pa.string())

    return _Function(kernel, [argument], "VARCHAR")


def _levenshtein(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.Array:
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    return pa.array([None if a is None or b is None else edit_distance(a, b) for a, b in pairs], pa.int32())


_FUNCTIONS: dict[str, _Function] = {
    "ms_double_text": _of_one(java_double, "DOUBLE"),
    "ms_float_text": _of_one(java_float, "DOUBLE"),
    "ms_lower": _of_one(str.lower, "VARCHAR"),
    "ms_upper": _of_one(str.upper, "VARCHAR"),
    "ms_initcap": _of_one(initcap, "VARCHAR"),
    "ms_levenshtein": _Function(_levenshtein, ["VARCHAR", "VARCHAR"], "INTEGER"),
}
