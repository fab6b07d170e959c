"""A user's function in Python, and how it is applied to columns.

Owns the contract: the function gets one Arrow array per argument, of the declared types and with
their NULLs, and returns one array of the declared type and of the same length, in which a row
depends on that row of the arguments alone. What always holds: applying it never raises. A function
that fails on a batch is asked again row by row, so only the rows that fail have an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from millstream.model.errors import MillstreamError
from millstream.model.schema import sql_type

_SHOWN = 300


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
                return pa.nulls(1, self.returns), pa.array([self._reason(error)])
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
            raise TypeError(f"it must return a pyarrow.Array, not {type(result).__name__}")
        if len(result) != count:
            raise ValueError(f"it returned {len(result)} values for {count} rows")
        if result.type == self.returns:
            return result
        if not _widens(result.type, self.returns):
            raise TypeError(f"it must return {sql_type(self.returns)}, not Arrow's {result.type}")
        return result.cast(self.returns)

    def _reason(self, error: Exception) -> str:
        lines = str(error).strip().splitlines()
        return f"{self.name}: {type(error).__name__}: {lines[0] if lines else ''}"[:_SHOWN]

    def try_out(self) -> None:
        """Refuse a function that returns something else than it should, as far as no rows can tell."""
        empty = [pa.nulls(0, type_) for type_ in self.arguments]
        try:
            self._call(empty, 0)
        except (TypeError, ValueError) as error:
            if str(error).startswith("it "):
                raise MillstreamError(
                    "BAD_FUNCTION",
                    f"function {self.name}: {error}",
                    hint="it gets one pyarrow.Array per argument and returns one of the same length",
                ) from None
        except Exception:
            # Some functions cannot do without rows; they are asked again when there are any.
            return


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
