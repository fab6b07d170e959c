"""What must hold of a data directory at any moment, also right after a kill."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import millstream as ms
from tests.parts import parts_of

from .worker import BATCH_ROWS, rows_of

VIEWS = {"ids": (), "per_key": ("k",), "per_window": ("window_start", "k"), "complete": ("window_start",)}
HEADER = ("epoch", "op", "pane", "pane_index", "final")
Row = dict[str, Any]


def replay(changes: list[Row], keys: tuple[str, ...]) -> Counter[tuple[Any, ...]]:
    """The multiset of rows that a changelog leads to, from nothing."""
    upserted: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    bag: Counter[tuple[Any, ...]] = Counter()
    for change in changes:
        row = tuple(value for name, value in change.items() if name not in HEADER)
        key = tuple(change[name] for name in keys)
        match change["op"]:
            case "upsert":
                upserted[key] = row
            case "delete":
                del upserted[key]
            case "insert":
                bag[row] += 1
            case "retract":
                assert bag[row] > 0, f"nothing to retract: {change}"
                bag[row] -= 1
    return +(bag + Counter(upserted.values()))


def check_consistent(db: ms.Database) -> int:
    """Epochs without gaps that account for every row, changelogs that lead to the views; rows read so far."""
    epochs = db.sql("SHOW EPOCHS").rows()  # type: ignore[union-attr]
    assert [row["epoch"] for row in epochs] == list(range(1, len(epochs) + 1))
    read = 0
    for row in epochs:
        streams, views = json.loads(row["streams"]), json.loads(row["views"])
        assert row["rows_in"] == row["rows_decoded"] + row["rows_dead"]
        for name, counts in views.items():
            accounted = sum(counts[what] for what in ("used", "filtered", "late", "failed"))
            assert accounted == streams["s"]["decoded"], name
            assert counts["late"] == counts["failed"] == 0
        read += row["rows_in"]
    if epochs:
        offsets = json.loads(epochs[-1]["offsets"])["s"]
        assert sum(offsets.values()) == read, "the offsets in the store are those of the rows that were used"
    for view, keys in VIEWS.items():
        shown = Counter(tuple(row.values()) for row in db.query(f"SELECT * FROM {view}").rows())
        assert replay(db.changes(view).rows(), keys) == shown, view
    assert len(db.query("SELECT id FROM ids")) == read
    return read


def check_logged(db: ms.Database, acknowledged: int) -> None:
    """The log has every row of the acknowledged batches, and no row twice."""
    topic = parts_of(db).log.topic("s")
    ids = [
        row["id"]
        for partition in range(topic.partitions)
        for batch in topic.read(partition, 0)
        for row in batch.to_pylist()
    ]
    assert len(ids) == len(set(ids)), "a retry with message ids adds nothing twice"
    missing = set(range((acknowledged + 1) * BATCH_ROWS)) - set(ids)
    assert not missing, f"acknowledged rows are lost: {sorted(missing)[:10]}"


def check_results(db: ms.Database, batches: int) -> None:
    """Every row of the first batches was counted, once."""
    rows = [row for batch in range(batches) for row in rows_of(batch)]
    assert Counter(row["id"] for row in db.query("SELECT id FROM ids").rows()) == Counter(row["id"] for row in rows)
    per_key: dict[Any, list[Any]] = {}
    for row in rows:
        group = per_key.setdefault(row["k"], [0, 0])
        group[0] += 1
        group[1] += row["v"]
    shown = db.query("SELECT * FROM per_key").rows()
    assert {row["k"]: [row["n"], row["sv"]] for row in shown} == per_key
    assert all(row["ids"] == row["n"] for row in shown)
    assert sum(row["n"] for row in db.query("SELECT n FROM per_window").rows()) == len(rows)
