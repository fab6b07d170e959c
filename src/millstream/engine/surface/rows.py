"""Rows that a program inserts, checked and brought into the columns of a stream.

Refuses what does not fit before anything is written: an insert is taken whole or not at all.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import pyarrow as pa

from millstream.api import Rows
from millstream.model.errors import MillstreamError, did_you_mean
from millstream.model.schema import Column, Schema, sql_type
from millstream.model.time import to_micros

if TYPE_CHECKING:
    import pandas as pd

# More digits than any DECIMAL has.
_EXACT = Context(prec=80)


def to_table(rows: Rows, schema: Schema, relation: str) -> pa.Table:
    """Rows as an Arrow table with exactly the columns of the schema; what is missing is NULL."""
    if _is_frame(rows):
        rows = _from_pandas(rows)
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        return _from_arrow(rows, schema, relation)
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


def _from_timestamp(value: Any) -> Any:
    """A timestamp of pandas as one of Python, its NaT as None, and anything else as it is."""
    if (pandas := _pandas()) is None:
        return value
    if value is pandas.NaT:
        return None
    return value.to_pydatetime(warn=False) if isinstance(value, pandas.Timestamp) else value


def _from_pandas(frame: pd.DataFrame) -> pa.Table:
    _check_names([str(name) for name in frame.columns])
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise MillstreamError(
            "TYPE_MISMATCH",
            "the data frame has a column that is not of one type",
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
    arrays = [_array([row.get(column.name) for row in rows], column) for column in schema.columns]
    return pa.table(arrays, schema=schema.to_arrow())


def _array(values: list[Any], column: Column) -> pa.Array:
    try:
        if pa.types.is_timestamp(column.type):
            return pa.array([_instant(value) for value in values], pa.int64()).cast(column.type)
        if pa.types.is_date(column.type):
            values = [date.fromisoformat(value) if isinstance(value, str) else value for value in values]
        if pa.types.is_decimal(column.type):
            values = [_decimal(value, column.type.scale) for value in values]
        if pa.types.is_floating(column.type):
            values = [_float(value) for value in values]
        if pa.types.is_integer(column.type) and any(not _is_whole(value) for value in values):
            raise pa.ArrowInvalid("not a whole number")
        if pa.types.is_list(column.type) and any(isinstance(value, str | bytes) for value in values):
            raise pa.ArrowInvalid("not a list, though it can be read as one")
        return pa.array(values, column.type)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        number, value = next(
            ((n, v) for n, v in enumerate(values) if not _fits(v, column)), (0, values[0] if values else None)
        )
        raise _mismatch(number, value, column) from None


def _fits(value: Any, column: Column) -> bool:
    try:
        if pa.types.is_timestamp(column.type):
            _instant(value)
        else:
            if pa.types.is_integer(column.type) and not _is_whole(value):
                return False
            if pa.types.is_list(column.type) and isinstance(value, str | bytes):
                return False
            if pa.types.is_decimal(column.type):
                value = _decimal(value, column.type.scale)
            if pa.types.is_floating(column.type):
                value = _float(value)
            if pa.types.is_date(column.type) and isinstance(value, str):
                value = date.fromisoformat(value)
            pa.array([value], column.type)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return False
    return True


def _is_whole(value: Any) -> bool:
    """Arrow would take True for 1 and cut off fractions."""
    return not isinstance(value, bool) and (not isinstance(value, float) or value.is_integer())


def _decimal(value: Any, scale: int) -> Any:
    """A float stands for the number it is written as: 0.1 is one tenth. Digits beyond the scale are rounded half up,
    as those of lines and files are."""
    if value is None or isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return value
    try:
        exact = Decimal(str(value)) if isinstance(value, float | str) else Decimal(value)
        return exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT) if exact.is_finite() else exact
    except InvalidOperation:
        raise ValueError from None


def _float(value: Any) -> Any:
    """The nearest number: Arrow would refuse an integer that has no exact one."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _instant(value: Any) -> int | None:
    """Microseconds of a datetime, an ISO text, or seconds since 1970."""
    value = _from_timestamp(value)
    if value is None:
        return None
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return to_micros(value)
    if isinstance(value, date):
        return to_micros(datetime(value.year, value.month, value.day))
    if isinstance(value, bool):
        raise TypeError
    if isinstance(value, int):
        return value * 1_000_000
    if isinstance(value, float):
        return to_micros(datetime.fromtimestamp(value, UTC))
    raise TypeError


def _from_arrow(rows: pa.Table, schema: Schema, relation: str) -> pa.Table:
    _check_names(rows.column_names)
    names = {name.lower(): name for name in rows.column_names}
    for name in rows.column_names:
        if schema.find(name) is None:
            raise _unknown(name, relation, schema)
    arrays = []
    for column in schema.columns:
        given = names.get(column.name.lower())
        if given is None:
            arrays.append(pa.nulls(rows.num_rows, column.type))
            continue
        array = rows.column(given)
        try:
            if isinstance(array.type, pa.BaseExtensionType):
                raise pa.ArrowInvalid("a type that only its own library can read")
            if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(array.type):
                # Event time has microseconds; what is finer is cut off.
                arrays.append(array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(column.type))
            elif pa.types.is_timestamp(column.type) and not pa.types.is_temporal(array.type):
                arrays.append(_array(array.to_pylist(), column))
            else:
                arrays.append(array.cast(column.type))
        except pa.ArrowException as error:
            raise MillstreamError(
                "TYPE_MISMATCH",
                f"column {column.name} is {sql_type(column.type)}, got {array.type}",
                detail=str(error).splitlines()[0],
            ) from None
    return pa.table(arrays, schema=schema.to_arrow())


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
