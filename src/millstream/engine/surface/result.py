"""What a statement returns: a table of rows, in the form the caller likes."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.model.errors import MillstreamError
from millstream.model.schema import TIMESTAMP

if TYPE_CHECKING:
    import pandas as pd


class Result:
    """Rows with named columns. Instants are UTC, without a zone."""

    def __init__(self, table: pa.Table, epoch: int | None = None, incarnation: str | None = None) -> None:
        zoned = [(i, field) for i, field in enumerate(table.schema) if getattr(field.type, "tz", None)]
        for index, field in zoned:
            table = table.set_column(
                index, field.name, table.column(index).cast(pa.timestamp("us", "UTC")).cast(TIMESTAMP)
            )
        self._table = table
        self._epoch = epoch
        self.incarnation = incarnation
        """Of a changelog: which incarnation of the view its epochs belong to."""

    @property
    def columns(self) -> list[str]:
        return list(self._table.column_names)

    @property
    def epoch(self) -> int | None:
        """The last epoch that the rows reflect; None where they do not depend on epochs."""
        return self._epoch

    def to_arrow(self) -> pa.Table:
        """An Arrow table. Sums of integers are `decimal128(38, 0)`: they cannot overflow."""
        return self._table

    def to_pandas(self) -> pd.DataFrame:
        """A DataFrame. Integers that Arrow holds as decimals become int64 where they fit."""
        table = self._table
        for index, field in enumerate(table.schema):
            if _is_wide_integer(field.type):
                try:
                    table = table.set_column(index, field.name, pc.cast(table.column(index), pa.int64()))
                except pa.ArrowInvalid:
                    continue
        frame: pd.DataFrame = table.to_pandas()
        return frame

    def rows(self) -> list[dict[str, Any]]:
        """A list of dicts. Of columns of the same name, those after the first are numbered: `n`, `n_1`."""
        table = self._table.rename_columns(_distinct(self._table.column_names))
        wide = [field.name for field in table.schema if _is_wide_integer(field.type)]
        try:
            rows: list[dict[str, Any]] = table.to_pylist()
        except (OverflowError, ValueError) as error:
            raise MillstreamError(
                "NOT_IN_PYTHON",
                "a value has no form in Python",
                detail=str(error),
                hint="Python's dates are of the years 1 to 9999; to_arrow() has all",
            ) from None
        for name in wide:
            for row in rows:
                if isinstance(row[name], Decimal):
                    row[name] = int(row[name])
        return rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __repr__(self) -> str:
        return f"Result({len(self)} rows: {', '.join(self.columns)})"


def _distinct(names: list[str]) -> list[str]:
    """Names of which no two are the same.

    >>> _distinct(["n", "n_1", "n"])
    ['n', 'n_1', 'n_2']
    """
    found: dict[str, None] = {}
    for name in names:
        numbered = (f"{name}_{number}" for number in count(1))
        found[next(n for n in chain([name], numbered) if n not in found)] = None
    return list(found)


def _is_wide_integer(type_: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(type_) and type_.scale == 0 and type_.precision == 38)
