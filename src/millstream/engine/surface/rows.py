"""Rows that a program inserts, checked and brought into the columns of a stream.

Refuses what does not fit before anything is written: an insert is taken whole or not at all. What a value means is
for `kernel/values.py` to say.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import numpy as np
import pyarrow as pa

from millstream.api import Rows
from millstream.kernel.values import read_column
from millstream.model.errors import MillstreamError, did_you_mean
from millstream.model.schema import Column, Schema, sql_type

if TYPE_CHECKING:
    import pandas as pd


def to_table(rows: Rows, schema: Schema, relation: str) -> pa.Table:
    """Rows as an Arrow table with exactly the columns of the schema; what is missing is NULL."""
    if _is_frame(rows):
        return _from_columns([(str(name), _series(rows, at)) for at, name in enumerate(rows.columns)], schema, relation)
    if isinstance(rows, pa.RecordBatch | pa.Table):
        return _from_columns(list(zip(rows.column_names, rows.columns, strict=True)), schema, relation)
    if isinstance(rows, dict | str):
        raise MillstreamError("BAD_ROWS", "expected a list of rows, got a single one", hint="write [row]")
    if not isinstance(rows, Iterable):
        raise MillstreamError("BAD_ROWS", f"expected a list of rows, got {type(rows).__name__}")
    return _from_dicts(list(cast("Iterable[dict[str, Any]]", rows)), schema, relation)


def _pandas() -> ModuleType | None:
    """pandas, if the program has imported it. That takes long, and who passes its values has done so."""
    return sys.modules.get("pandas")


def _is_frame(rows: object) -> TypeGuard[pd.DataFrame]:
    return (pandas := _pandas()) is not None and isinstance(rows, pandas.DataFrame)


def _series(frame: pd.DataFrame, at: int) -> pa.Array | list[Any]:
    """A column of a data frame: Arrow's, or its values where these may be of any type. What is missing is NULL."""
    series = frame.iloc[:, at]
    if series.dtype == object:
        return [None if missing else value for value, missing in zip(series, series.isna(), strict=True)]
    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise MillstreamError(
            "TYPE_MISMATCH",
            f"column {series.name} of the data frame has a type that cannot be read",
            detail=str(error).splitlines()[0],
            hint="nothing of this insert was written",
        ) from None


def _check_names(names: Sequence[str]) -> None:
    """Refuse names of one column, of which only one value could be kept."""
    seen = set[str]()
    for name in names:
        if name.lower() in seen:
            raise MillstreamError(
                "BAD_ROWS", f"column {name!r} is given twice", hint="upper and lower case are the same"
            )
        seen.add(name.lower())


def _from_dicts(rows: list[dict[str, Any]], schema: Schema, relation: str) -> pa.Table:
    names = {name.lower(): name for name in schema.names()}
    exact = True
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise MillstreamError("BAD_ROWS", f"row {number} is {type(row).__name__}, not a dict")
        for key in row:
            if str(key).lower() not in names:
                raise _unknown(str(key), relation, schema)
            exact = exact and names[str(key).lower()] == key
        if not exact:
            _check_names([str(key) for key in row])
    if not exact:
        rows = [{names[str(key).lower()]: value for key, value in row.items()} for row in rows]
    arrays = [_objects([row.get(column.name) for row in rows], column) for column in schema.columns]
    return pa.table(arrays, schema=schema.to_arrow())


def _objects(values: list[Any], column: Column) -> pa.Array:
    """Values of a program's own. There a number for a STRING is a mistake."""
    if pa.types.is_string(column.type) and not set(map(type, values)) <= {str, type(None)}:
        for number, value in enumerate(values):
            if isinstance(_plain(value), bool | int | float | Decimal):
                raise _mismatch(number, value, column)
    return _array(values, column)


def _array(values: list[Any], column: Column) -> pa.Array:
    found, misfits = read_column(values, column.type)
    if misfits:
        # Values of libraries are brought into kinds that the rule knows.
        values = [_plain(value) for value in values]
        found, misfits = read_column(values, column.type)
    if misfits:
        number, value = next(iter(misfits.items()))
        raise _mismatch(number, value, column)
    return found


def _plain(value: Any) -> Any:
    """A value of pandas or NumPy as one of Python, and anything else as it is."""
    if (pandas := _pandas()) is not None:
        if value is pandas.NaT or value is pandas.NA:
            return None
        if isinstance(value, pandas.Timestamp):
            return value.to_pydatetime(warn=False)
    if isinstance(value, np.datetime64):
        return value.astype("datetime64[us]").item()
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_plain(item) for item in value)
    return value


def _from_columns(columns: Sequence[tuple[str, Any]], schema: Schema, relation: str) -> pa.Table:
    """Columns by name, each of Arrow or a list of values."""
    _check_names([name for name, _ in columns])
    given = {name.lower(): column for name, column in columns}
    for name, _ in columns:
        if schema.find(name) is None:
            raise _unknown(name, relation, schema)
    count = len(columns[0][1]) if columns else 0
    arrays = []
    for column in schema.columns:
        found = given.get(column.name.lower())
        if found is None:
            arrays.append(pa.nulls(count, column.type))
        else:
            arrays.append(_objects(found, column) if isinstance(found, list) else _column(found, column))
    return pa.table(arrays, schema=schema.to_arrow())


def _column(array: pa.Array | pa.ChunkedArray, column: Column) -> pa.Array | pa.ChunkedArray:
    """A column of Arrow: cast where no value can change, else read value by value."""
    if isinstance(array.type, pa.BaseExtensionType):
        raise _of_other_type(array, column, "a type that only its own library can read")
    if array.type == column.type:
        return array
    if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(array.type):
        # Event time has microseconds; what is finer is cut off.
        try:
            return array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(column.type)
        except pa.ArrowException as error:
            raise _of_other_type(array, column, str(error)) from None
    if _is_cast(array.type, column.type):
        with suppress(pa.ArrowException):
            return array.cast(column.type)
    return _array(array.to_pylist(), column)


def _is_cast(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Arrow's cast gives what the rule gives, or an error."""
    if pa.types.is_dictionary(given):
        return _is_cast(given.value_type, wanted)
    integers = pa.types.is_integer(given) and (pa.types.is_integer(wanted) or pa.types.is_floating(wanted))
    texts = (pa.types.is_string(given) or pa.types.is_large_string(given)) and pa.types.is_string(wanted)
    decimals = pa.types.is_decimal(given) and pa.types.is_decimal(wanted)
    return bool(pa.types.is_null(given) or integers or texts or decimals)


def _of_other_type(array: pa.Array | pa.ChunkedArray, column: Column, detail: str) -> MillstreamError:
    return MillstreamError(
        "TYPE_MISMATCH",
        f"column {column.name} is {sql_type(column.type)}, got {array.type}",
        detail=detail.splitlines()[0],
    )


def _unknown(name: str, relation: str, schema: Schema) -> MillstreamError:
    return MillstreamError(
        "UNKNOWN_COLUMN",
        f"{relation} has no column {name!r}",
        hint=did_you_mean(name, (n.lower() for n in schema.names())),
    )


def _mismatch(number: int, value: Any, column: Column) -> MillstreamError:
    shown = repr(value)
    return MillstreamError(
        "TYPE_MISMATCH",
        f"row {number}: column {column.name} is {sql_type(column.type)}, got {type(value).__name__}",
        detail=f"the value is {shown[:100]}{'…' if len(shown) > 100 else ''}",
        hint="nothing of this insert was written",
    )
