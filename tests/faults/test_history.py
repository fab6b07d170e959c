"""Killed while views read history, or are built anew: it goes on where it was."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import millstream as ms

from .checks import replay
from .history_worker import ROWS, SLICE_ROWS, SLICES, others_of, rows_of
from .workers import Worker

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).with_name("history_worker.py")
MORE = 500


def killed(directory: Path, mode: str, jvm: dict[str, str]) -> None:
    worker = Worker(directory, mode, jvm=jvm, script=SCRIPT)
    try:
        worker.begin()
        worker.wait_for("held", 240)
    finally:
        worker.kill()


def per_key(count: int) -> dict[str, tuple[int, int]]:
    groups: dict[str, tuple[int, int]] = {}
    for row in rows_of(0, count):
        n, sv = groups.get(str(row["k"]), (0, 0))
        groups[str(row["k"])] = (n + 1, sv + int(str(row["v"])))
    return groups


def shown(db: ms.Database) -> dict[str, tuple[int, int]]:
    return {row["k"]: (row["n"], row["sv"]) for row in db.query("SELECT k, n, sv FROM per_key").rows()}


def states(db: ms.Database) -> dict[str, str]:
    return {row["name"]: row["state"] for row in db.sql("SHOW VIEWS").rows()}  # type: ignore[union-attr]


def check_replay(db: ms.Database, view: str, keys: tuple[str, ...]) -> None:
    contents = Counter(tuple(row.values()) for row in db.query(f"SELECT * FROM {view}").rows())
    assert replay(db.changes(view).rows(), keys) == contents


def rows_read(db: ms.Database) -> int:
    """The rows of all epochs, those of history included."""
    return sum(row["rows_in"] for row in db.sql("SHOW EPOCHS").rows())  # type: ignore[union-attr]


def slices_of(read: int) -> int:
    """How much of it was history when the worker was killed."""
    history = read - ROWS - len(others_of(0, ROWS))
    assert 0 < history <= SLICES * SLICE_ROWS
    return history


def test_killed_in_the_middle_of_a_backfill(tmp_path: Path, jvm: dict[str, str]) -> None:
    directory = tmp_path / "data"
    killed(directory, "backfill", jvm)
    settings = ms.EngineSettings(max_epoch_rows=SLICE_ROWS)
    with ms.connect(directory, settings=settings) as db:
        partly = sum(n for n, _ in shown(db).values())
        assert 0 < partly < ROWS
        assert "reading history" in states(db)["per_key"]
        before = rows_read(db)
        db.insert("s", rows_of(ROWS, MORE))
        db.insert("t", others_of(ROWS, MORE))
        db.drain()
        assert set(states(db).values()) == {"live"}
        assert shown(db) == per_key(ROWS + MORE)
        # What it had read is not read again: s for two views, t for one, and the new rows.
        others = len(others_of(0, ROWS + MORE))
        assert rows_read(db) - before == 2 * ROWS - slices_of(before) + MORE + others
        total = per_key(ROWS + MORE)
        assert db.query("SELECT most, keys FROM best").rows() == [
            {"most": max(n for n, _ in total.values()), "keys": len(total)}
        ]
        pairs = [row["id"] for row in db.query("SELECT id FROM pairs").rows()]
        assert sorted(pairs) == [row["id"] for row in others_of(0, ROWS + MORE)]
        check_replay(db, "per_key", ("k",))
        check_replay(db, "pairs", ())


def test_killed_in_the_middle_of_a_rebuild(tmp_path: Path, jvm: dict[str, str]) -> None:
    directory = tmp_path / "data"
    killed(directory, "rebuild", jvm)
    settings = ms.EngineSettings(max_epoch_rows=SLICE_ROWS)
    with ms.connect(directory, settings=settings) as db:
        assert shown(db) == per_key(ROWS), "the old contents are there"
        assert "rebuilding" in states(db)["per_key"]
        with pytest.raises(ms.MillstreamError, match="BEING_BUILT"):
            db.sql("ALTER MATERIALIZED VIEW per_key REBUILD")
        before, changes = rows_read(db), len(db.changes("per_key"))
        db.drain()
        assert rows_read(db) - before == ROWS - slices_of(before), "what was read is not read again"
        assert states(db) == {"per_key": "live"}
        assert shown(db) == per_key(ROWS)
        assert len(db.changes("per_key")) == changes, "there is no difference to publish"
        db.insert("s", rows_of(ROWS, MORE))
        db.drain()
        assert shown(db) == per_key(ROWS + MORE)
        check_replay(db, "per_key", ("k",))
    with ms.connect(directory) as db:
        assert shown(db) == per_key(ROWS + MORE)
        assert states(db) == {"per_key": "live"}
