"""The answer to a statement that reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import pyarrow as pa

if TYPE_CHECKING:
    import pandas as pd


@runtime_checkable
class Result(Protocol):
    """Rows with named columns, all there. Instants are UTC, without a zone."""

    @property
    def columns(self) -> list[str]: ...

    @property
    def epoch(self) -> int | None:
        """The last epoch that the rows reflect; None where they do not depend on epochs."""

    def to_arrow(self) -> pa.Table: ...

    def to_pandas(self) -> pd.DataFrame: ...

    def rows(self) -> list[dict[str, Any]]:
        """A list of dicts. Of columns with the same name, those after the first are numbered: `n`, `n_1`."""

    def __iter__(self) -> Iterator[dict[str, Any]]: ...

    def __len__(self) -> int: ...
