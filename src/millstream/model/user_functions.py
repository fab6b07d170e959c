"""A user's function in Python, and how it is applied to columns.

Owns the contract: the function gets one Arrow array per argument, of the declared types and with
their NULLs, and returns one array of the declared type and of the same length, in which a row
depends on that row of the arguments alone. What always holds: applying it never raises. A function
that fails on a batch is asked again row by row, so only the rows that fail have an error. An error
says in its author's words what failed: the exception, the arguments of the row, and the line of the function.
"""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from millstream.model.errors import MillstreamError
from millstream.model.schema import sql_type

_SHOWN, _SHOWN_ARGUMENT, _SHOWN_LINE = 800, 60, 120


@dataclass(frozen=True, slots=True)
class UserFunction:
    name: str
    arguments: tuple[pa.DataType, ...]
    returns: pa.DataType
    function: Callable[..., Any]

    def apply(self, columns: Sequence[pa.Array]) -> tuple[pa.Array, pa.Array]:
        """Values and errors, one of each per row; a row with an error has no value."""
        count = len(columns[0])
        try:
            return self._call(columns, count), pa.nulls(count, pa.string())
        except Exception as error:
            if count == 1:
                return pa.nulls(1, self.returns), pa.array([self._reason(error, columns)])
        rows = [self.apply([column.slice(index, 1) for column in columns]) for index in range(count)]
        if not rows:
            return pa.nulls(0, self.returns), pa.nulls(0, pa.string())
        return pa.concat_arrays([value for value, _ in rows]), pa.concat_arrays(
            [error.cast(pa.string()) for _, error in rows]
        )

    def _call(self, columns: Sequence[pa.Array], count: int) -> pa.Array:
        given = [column.cast(type_) for column, type_ in zip(columns, self.arguments, strict=True)]
        result = self.function(*given)
        if isinstance(result, pa.ChunkedArray):
            result = result.combine_chunks()
        if not isinstance(result, pa.Array):
            raise _WrongTypeError(f"it must return a pyarrow.Array, not {type(result).__name__}")
        if len(result) != count:
            raise _WrongLengthError(f"it returned {len(result)} values for {count} rows")
        if result.type == self.returns:
            return result
        if not _widens(result.type, self.returns):
            raise _WrongTypeError(f"it must return {sql_type(self.returns)}, not Arrow's {result.type}")
        return result.cast(self.returns)

    def _reason(self, error: Exception, columns: Sequence[pa.Array]) -> str:
        """What failed on one row; where the function raised it, with the call and the line."""
        lines = str(error).strip().splitlines()
        kind = type(error).__base__ if isinstance(error, _WrongTypeError | _WrongLengthError) else type(error)
        said = f"{self.name}: {kind.__name__ if kind else ''}: {lines[0] if lines else ''}"[:_SHOWN]
        if isinstance(error, _WrongTypeError | _WrongLengthError):
            return said
        call = ", ".join(_shown(repr(column[0].as_py()), _SHOWN_ARGUMENT) for column in columns)
        return _shown(f"{said}, in {self.name}({call}){self._place(error)}", _SHOWN)

    def _place(self, error: Exception) -> str:
        """The deepest line of the function's own file that was running, with its text where that can be had."""
        code = getattr(self.function, "__code__", None)
        file = getattr(code, "co_filename", None)
        for frame in reversed(traceback.extract_tb(error.__traceback__, limit=None)):
            if frame.filename == file and frame.lineno is not None:
                text = linecache.getline(frame.filename, frame.lineno).strip()
                return f" at {frame.filename}:{frame.lineno}" + (f": {_shown(text, _SHOWN_LINE)}" if text else "")
        return ""

    def try_out(self) -> None:
        """Refuse a function that returns something else than it should, as far as no rows can tell."""
        empty = [pa.nulls(0, type_) for type_ in self.arguments]
        try:
            self._call(empty, 0)
        except (_WrongTypeError, _WrongLengthError) as error:
            raise MillstreamError(
                "BAD_FUNCTION",
                f"function {self.name}: {error}",
                hint="it gets one pyarrow.Array per argument and returns one of the same length",
            ) from None
        except Exception:
            # Some functions cannot do without rows; they are asked again when there are any.
            return


class _WrongTypeError(TypeError):
    """The function returned something that its declaration does not allow."""


class _WrongLengthError(ValueError):
    """The function returned too few or too many values."""


def _shown(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "…"


def _widens(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a result of a type is one of the declared type, written in another way."""
    if pa.types.is_null(given):
        return True
    if pa.types.is_integer(given):
        return bool(pa.types.is_integer(wanted) or pa.types.is_floating(wanted))
    families = (
        pa.types.is_floating,
        _is_text,
        _is_bytes,
        pa.types.is_timestamp,
        pa.types.is_decimal,
        pa.types.is_nested,
    )
    return any(is_kind(given) and is_kind(wanted) for is_kind in families)


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(pa.types.is_binary(type_) or pa.types.is_large_binary(type_))
