"""Retention and checkpoints on their own: what goes depends on the tables and the instant alone."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.store.commands import Acknowledge, CreateSink, Retain
from millstream.store.duckdb import cleaning
from tests.unit.store.duckdb.test_store import SECOND, STREAM, Harness, delta, view


def kept(harness: Harness) -> dict[str, list[Any]]:
    return {
        "changes": harness.store.changes("v", -1).column("epoch").to_pylist(),
        "records": harness.store.query("SELECT epoch FROM ms.epochs ORDER BY epoch").column("epoch").to_pylist(),
        "cleaned": harness.store.query("SELECT * FROM ms.cleaned").to_pylist(),
    }


@settings(max_examples=8, deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, 100_000), st.booleans()), min_size=3, max_size=8))
def test_how_often_retention_runs_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, bool]]
) -> None:
    """Retention between epochs, or once at the end, leaves the same changes and says the same of them."""
    planned = view(options="WITH (changelog_retain = '2 hours')")
    often, once = (Harness(tmp_path_factory.mktemp("store"), planned) for _ in range(2))
    now = 0
    for number, (seconds, retains) in enumerate(steps):
        now += seconds
        for harness in (often, once):
            harness.epoch(delta((1, 0, 1, number)), now=now)
        if retains:
            often.retain(now)
    now += 1
    for harness in (often, once):
        harness.retain(now)
    found = kept(often)
    assert found["changes"] == kept(once)["changes"]
    assert found == {**kept(once), "records": found["records"]}
    for harness in (often, once):
        harness.store.close()


def test_totals_stay_when_epoch_records_are_thinned_out(tmp_path: Path) -> None:
    """Twice, and over a restart of what is summed."""
    harness = Harness(tmp_path, view())
    week = 7 * 86_400
    for start in (0, 2 * week):
        for number in range(5):
            harness.epoch(delta((1, 0, 3, number)), now=start + number)
    before = harness.store.totals()
    assert before.rows_in > 0
    for now, records in ((week + 10, 6), (3 * week + 10, 2)):
        harness.retain(now)
        assert len(kept(harness)["records"]) == records
        assert harness.store.totals() == before
    harness.store.close()


def test_a_quiet_view_and_quiet_letters_expire(tmp_path: Path) -> None:
    """Time alone is enough: no epoch commits after the one whose changes expire."""
    harness = Harness(tmp_path, view(options="WITH (changelog_retain = '1 minute')"))
    harness.epoch(delta((1, 0, 2, 5)), now=0)
    harness.retain(now=59)
    assert kept(harness)["changes"] == [1]
    harness.retain(now=60)
    assert kept(harness)["changes"] == []
    harness.store.close()


def test_retention_is_what_it_was_when_it_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Epochs and acknowledgements that come while it runs change nothing of it, whatever their clock says."""
    harness = Harness(tmp_path, view(options="WITH (changelog_retain = '1 minute')"))
    harness.epoch(delta((1, 0, 2, 5)), now=0)
    harness.epoch(delta((1, 0, 2, 6)), now=0)
    harness.store.apply(CreateSink("s", "v", "CREATE SINK …", 0, 1, ""))
    may_go_on, forget = threading.Event(), cleaning._forget_changes

    def waiting(*arguments: Any) -> None:
        assert may_go_on.wait(60)
        forget(*arguments)

    monkeypatch.setattr(cleaning, "_forget_changes", waiting)
    harness.store.apply(Retain(1_000 * SECOND, [harness.view], [STREAM]))
    harness.store.apply(Acknowledge("s", 2, ""))
    harness.epoch(delta((1, 0, 2, 7)), now=0)
    harness.store.apply(Retain(1_000 * SECOND, [harness.view], [STREAM]))
    may_go_on.set()
    harness.store.settle()
    assert kept(harness)["changes"] == [3]
    harness.store.apply(Acknowledge("s", 3, ""))
    harness.retain(now=1_000)
    assert kept(harness)["changes"] == []
    harness.store.close()


def test_the_write_ahead_log_is_truncated_by_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long before it has the size at which a commit would do it."""
    monkeypatch.setattr(cleaning, "_WAL_BYTES", 1)
    monkeypatch.setattr(cleaning, "_CHECKPOINT_SHARE", 1e9)
    harness = Harness(tmp_path, view())
    harness.epoch(delta(*((key, 0, 1, key) for key in range(100))))
    wal = tmp_path / "store.duckdb.wal"
    assert wal.stat().st_size > 0
    harness.retain(now=0)
    assert not wal.exists() or wal.stat().st_size == 0
    # The next one is not due at once: large state would be rewritten all the time.
    monkeypatch.setattr(cleaning, "_CHECKPOINT_SHARE", 1e-9)
    harness.epoch(delta((1, 0, 1, 1)))
    harness.retain(now=0)
    harness.epoch(delta((1, 0, 1, 2)))
    harness.retain(now=0)
    assert wal.stat().st_size > 0
    harness.store.close()


def test_a_checkpoint_that_fails_is_left_for_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "_WAL_BYTES", 1)
    monkeypatch.setattr(cleaning, "_ATTEMPT_SECONDS", 0.0)
    harness = Harness(tmp_path, view())
    harness.epoch(delta((1, 0, 1, 1)))
    writer = harness.store.cursor()
    writer.execute("BEGIN")
    writer.execute("INSERT INTO ms.files VALUES ('s', 1, 'x')")
    harness.store.apply(Retain(0, [harness.view], [STREAM]))
    harness.store.settle()
    writer.execute("ROLLBACK")
    harness.retain(now=0)
    wal = tmp_path / "store.duckdb.wal"
    assert not wal.exists() or wal.stat().st_size == 0
    harness.store.close()
