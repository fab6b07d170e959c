"""Rows and values that a program passes to a database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import pyarrow as pa

if TYPE_CHECKING:
    import pandas as pd

Rows: TypeAlias = Union[Iterable[dict[str, Any]], pa.Table, pa.RecordBatch, "pd.DataFrame"]
"""pandas takes most of a second to import, so its name is not evaluated."""

Lines: TypeAlias = Sequence[bytes | str]
"""Undecoded rows, in the format of a stream."""

MessageIds: TypeAlias = Sequence[str | None]
"""One per row; a row whose id was accepted before is dropped."""

Parameters: TypeAlias = Sequence[Any]
"""The values of the `?` in a statement, in the order of the text."""
