"""Positions of sinks, and the changes that retention keeps for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.store.commands import Acknowledge, CreateSink, DropSink
from tests.unit.store.duckdb.test_store import Harness, delta, view


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    built = Harness(tmp_path, view(options="WITH (changelog_retain = '1 minute')"))
    for number in range(4):
        built.epoch(delta((number, 0, 1, 1)), now=number)
    yield built
    built.store.close()


def _epochs(harness: Harness) -> list[int]:
    return [row["epoch"] for row in harness.store.changes("v", -1).to_pylist()]


@pytest.mark.parametrize("needed", [-1, 0, 1, 3, 4])
def test_retention_keeps_what_a_sink_needs(harness: Harness, needed: int) -> None:
    harness.store.apply(CreateSink("S", "v", "CREATE SINK …", 0, needed, ""))
    harness.store.apply(CreateSink("ahead", "v", "CREATE SINK …", 0, 4, ""))
    harness.store.apply(CreateSink("other", "w", "CREATE SINK …", 0, -1, ""))
    harness.retain(now=1_000)
    assert _epochs(harness) == [epoch for epoch in (1, 2, 3, 4) if epoch > needed]
    assert len(harness.store.changes("v", max(needed, -1)).to_pylist()) == 4 - max(needed, 0)


def test_an_acknowledgement_lets_changes_go(harness: Harness) -> None:
    harness.store.apply(CreateSink("s", "v", "CREATE SINK …", 0, 1, "x"))
    harness.retain(now=1_000)
    harness.store.apply(Acknowledge("S", 3, "y"))
    harness.retain(now=2_000)
    assert _epochs(harness) == [4]
    harness.store.apply(DropSink("s"))
    harness.retain(now=3_000)
    assert _epochs(harness) == []


def test_positions_survive_a_restart_and_sinks_have_names_of_their_own(harness: Harness) -> None:
    harness.store.apply(CreateSink("v", "v", "CREATE SINK …", 0, 1, "mark"))
    harness.store.apply(Acknowledge("v", 2, "later"))
    harness.reopen()
    assert harness.store.sink_position("V") == (2, "later")
    assert [(kind, text) for _, kind, text, _ in harness.store.statements()][-1] == ("sink", "CREATE SINK …")
    harness.store.apply(DropSink("V"))
    assert [kind for _, kind, _, _ in harness.store.statements()] == ["stream", "view"]
