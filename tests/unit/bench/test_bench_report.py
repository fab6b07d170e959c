"""Targets, and the files of the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.outcome import Check, Figure, Section, Target
from bench.report import plot, write_json

MACHINE = {"cores": "2 (2 used)", "pyspark": "4", "duckdb": "2"}


def section(value: float) -> Section:
    figures = [
        Figure("millstream", "ours", 2e6, "events/s", (2e6, 1.9e6)),
        Figure("native", "native", 1e6, "events/s", (1e6,)),
        Figure("duckdb_once", "limit", 3e7, "events/s", (3e7,), reference=True),
    ]
    target = Target("times native", ">=", 2.0, value, "x")
    return Section("W1", "tumbling", figures, [target], [Check("rows", True, "")])


@pytest.mark.parametrize(
    ("comparison", "value", "met"), [(">=", 2.0, True), (">=", 1.99, False), ("<=", 2.0, True), ("<=", 2.01, False)]
)
def test_a_target_is_met_on_its_bound(comparison: str, value: float, met: bool) -> None:
    assert Target("", comparison, 2.0, value, "x").met is met  # type: ignore[arg-type]


def test_the_json_says_which_targets_were_met(tmp_path: Path) -> None:
    write_json(tmp_path / "r" / "latest.json", [section(2.5), section(1.0)], MACHINE, {"bids": 1})
    content = json.loads((tmp_path / "r" / "latest.json").read_text())
    assert [target["met"] for target in content["targets"]] == [True, False]
    assert content["correct"] is True


def test_the_plot_is_written_as_png_and_svg(tmp_path: Path) -> None:
    written = plot(tmp_path / "latest.png", [section(2.0)], MACHINE)
    assert [path.suffix for path in written] == [".png", ".svg"]
    assert all(path.stat().st_size > 1_000 for path in written)
