"""What must hold of a database that was fed."""

from __future__ import annotations

import json

import pyarrow as pa

import millstream as ms

from .compare import difference
from .feed import KINDS
from .oracle import answer


def check_view(db: ms.Database, query: str, rows: dict[str, pa.Table]) -> None:
    """A view equals its batch query over these rows."""
    expected = answer(query, rows)
    assert expected.num_rows, f"{query} has no answer: an input that shows nothing"
    actual = db.query(f"SELECT {', '.join(expected.column_names)} FROM {query}").to_arrow()
    assert difference(actual, expected) is None, query


def check_no_letters(db: ms.Database) -> None:
    """Disorder within the slack makes no row late, and none is malformed."""
    for kind in KINDS:
        for letters in ("late", "dead"):
            assert len(db.query(f"SELECT * FROM {kind}__{letters}")) == 0, f"{kind}__{letters}"


def rows_read(db: ms.Database) -> dict[str, int]:
    """How far each stream was read; an epoch records the offsets of the streams that it read, of one partition each."""
    epochs = db.sql("SHOW EPOCHS").rows()  # type: ignore[union-attr]
    assert [row["epoch"] for row in epochs] == list(range(1, len(epochs) + 1))
    offsets: dict[str, dict[str, int]] = {}
    for row in epochs:
        offsets |= json.loads(row["offsets"])
    return {kind: sum(offsets.get(kind, {}).values()) for kind in KINDS}
