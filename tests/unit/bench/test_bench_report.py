"""Targets, and the files of the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.grid import Grid, QueryTimes
from bench.outcome import Check, Figure, Section, Target, Trace
from bench.plots import plot
from bench.report import write_json, write_markdown

MACHINE = {"cores": "2 (2 used)", "pyspark": "4", "duckdb": "2"}


def section(value: float) -> Section:
    figures = [
        Figure("millstream", "ours", 2e6, "events/s", (2e6, 1.9e6)),
        Figure("native", "native", 1e6, "events/s", (1e6,)),
        Figure("duckdb_once", "limit", 3e7, "events/s", (3e7,), reference=True),
    ]
    target = Target("times native", ">=", 2.0, value, "x")
    return Section("W1", "tumbling", figures, [target], [Check("rows", True, "")])


def nexmark() -> Section:
    rows = (
        QueryTimes("q0", {"millstream": (2.0, 1.0), "native": (3.0,)}),
        QueryTimes("q4", {"millstream": (1.0,), "native": ()}, {"native": "cannot express it: two | aggregations"}),
        QueryTimes("q5", {"millstream": (), "native": (1.0,)}, {"millstream": "failed: out of memory"}),
    )
    labels = {"millstream": "Ours", "native": "Native", "flink_heap": "Flink"}
    grid = Grid(1_000_000, "millstream", ("native",), labels, rows, {"flink_heap": "not installed"})
    checks = [Check("q5: Ours", False, "out of\nmemory")]
    return Section("nexmark", "Nexmark", grid=grid, checks=checks, notes={"unchecked": ["q0, Native: not checked"]})


def state() -> Section:
    traces = [Trace("memory", "MiB", (10.0, 20.0, 20.0, 20.0, 30.0, 30.0))]
    return Section("state", "state of a join", traces=traces, notes={"bounds": ["state: rows up to 10 seconds"]})


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
    written = plot(tmp_path / "latest.png", [section(2.0), nexmark(), state()], MACHINE)
    assert [path.suffix for path in written] == [".png", ".svg"]
    assert all(path.stat().st_size > 1_000 for path in written)


def test_nothing_to_draw_is_no_plot(tmp_path: Path) -> None:
    assert plot(tmp_path / "latest.png", [Section("state", "refused", notes={"refused": "not yet"})], MACHINE) == []


def test_the_json_has_the_ratios_of_queries_and_the_growth_of_traces(tmp_path: Path) -> None:
    write_json(tmp_path / "latest.json", [nexmark(), state()], MACHINE, {})
    queries, traces = json.loads((tmp_path / "latest.json").read_text())["sections"]
    assert queries["grid"]["ratios"] == {"native": {"q0": 3.0}}
    assert queries["grid"]["rows"][1]["absent"] == {"native": "cannot express it: two | aggregations"}
    assert traces["traces"][0]["growth"] == 1.5


def test_the_page_names_what_is_absent(tmp_path: Path) -> None:
    refused = Section("state sessions", "sessions", notes={"refused": "no sessions yet"})
    write_markdown(tmp_path / "latest.md", [section(2.5), nexmark(), state(), refused], MACHINE, "5 s")
    page = (tmp_path / "latest.md").read_text()
    assert "| q0 | 1.00 M | 0.33 M | 3.00 |" in page
    assert "| q4 | 1.00 M | - | - |" in page
    assert "| q5 | failed | 1.00 M | - |" in page
    assert "| worst |  |  | 3.00 (q0) |" in page
    assert "- Flink did not take part: not installed" in page
    assert "- q4, Native: cannot express it: two | aggregations" in page
    assert "| memory | 15.0 MiB | 20.0 MiB | 30.0 MiB | 1.50 | 30.0 MiB |" in page
    assert "- q0, Native: not checked" in page
    assert "- EXPLAIN: state: rows up to 10 seconds" in page
    assert "- sessions: refused, no sessions yet" in page
    assert "1 of 2 checks of results passed." in page
    assert "- wrong: q5: Ours: out of memory" in page
    assert "| times native | met | >= 2 x | 2.50 x |" in page
