"""What is kept and what is written: targets, the JSON, the region of a page, the images."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from bench import archive, page, plots, report
from bench.outcome import Section, Target
from tests.unit.bench import made_up
from tests.unit.bench.made_up import MEASURED


@pytest.mark.parametrize(
    ("comparison", "value", "met"), [(">=", 2.0, True), (">=", 1.99, False), ("<=", 2.0, True), ("<=", 2.01, False)]
)
def test_a_target_is_met_on_its_bound(comparison: str, value: float, met: bool) -> None:
    target = Target("", comparison, 2.0, value, "x")  # type: ignore[arg-type]
    assert (target.met, target.missed) == (met, not met)


def test_an_aim_cannot_be_missed() -> None:
    aim = Target("", "<=", 100.0, 130.0, "ms", aim=True)
    assert (aim.met, aim.missed) == (False, False)


# The archive.


def test_what_is_kept_comes_back_as_it_was(tmp_path: Path) -> None:
    archive.save(tmp_path / "r" / "results.json", made_up.everything())
    assert archive.load(tmp_path / "r" / "results.json") == made_up.everything()


def test_the_json_says_what_follows_from_the_figures(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    archive.save(path, [made_up.throughput("W1", "csv", found=1.0), made_up.nexmark(), made_up.state()])
    content = json.loads(path.read_text())
    assert [target["met"] for target in content["targets"]] == [False, False]
    assert content["correct"] is False
    assert content["sections"][1]["grid"]["ratios"]["native"] == {"q0": 2.0, "q1": 3.0, "q2": 4.0, "q3": 5.0}
    assert content["sections"][1]["grid"]["limits"] == ["duckdb_once"]
    assert content["sections"][1]["grid"]["ratios"]["duckdb_once"]["q0"] == 0.1
    assert content["sections"][2]["traces"][1]["growth"] == 1.5
    assert '"runs": [3240000.0, 3600000.0, 3420000.0]' in path.read_text()


def test_a_workload_that_is_measured_again_replaces_its_own_sections_only() -> None:
    kept = [made_up.throughput("W1", "parquet"), made_up.throughput("W1", "csv"), made_up.small_epochs()]
    again = replace(made_up.throughput("W1", "csv"), measured=replace(MEASURED, commit="def5678"))
    merged = archive.merge(kept, [again])
    assert [(one.name, archive.measured(one).commit) for one in merged] == [("W1 csv", "def5678"), ("W3", "abc1234")]


def test_sections_are_in_one_order_however_they_came() -> None:
    merged = archive.merge([made_up.recovery(), made_up.small_epochs()], [made_up.nexmark()])
    assert [one.workload for one in merged] == ["W3", "nexmark", "recovery"]


def test_quick_figures_are_not_mixed_with_others() -> None:
    quick = replace(made_up.small_epochs(), measured=replace(MEASURED, size="quick"))
    assert archive.merge([made_up.recovery()], [quick]) == [quick]


def test_a_file_of_another_form_is_refused(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text('{"sections": [{"name": "W1"}]}')
    with pytest.raises(archive.UnreadableError, match="move it away"):
        archive.load(tmp_path / "results.json")


def test_the_time_is_foretold_by_the_last_one() -> None:
    kept = [made_up.small_epochs(), made_up.recovery()]
    assert archive.expected_seconds(kept, {"W3": 1, "W2": 3}, "full") == {"W3": 200.0}
    assert archive.expected_seconds(kept, {"W3": 1}, "quick") == {}


# The page.


def results(*sections: Section) -> str:
    return page.results(sections, {"W1": "benchmarks/w1.svg"}, "benchmarks/results.json")


def test_missed_targets_are_said_first_and_plainly() -> None:
    text = results(*made_up.everything())
    assert "**1 of 4 targets missed**: W1, from csv: times native." in text
    assert "| W1 | from csv: times native | ≥ 2 x | 1.90 x | **missed** |" in text
    assert "| W1 | from parquet: times native | ≥ 2 x | 2.50 x | met |" in text
    assert "1 could not be judged" in text
    assert "**1 of the results is wrong**, see [below](#whether-results-were-right)." in text
    assert "\n### Whether results were right\n" in text
    assert "| nexmark | the worst: times Flink | ≥ 1 x | - | not measured |" in text
    assert "| latency | p50 | aim: ≤ 100 ms | 250 ms | aim not reached |" in text


def test_workloads_that_were_not_measured_are_named() -> None:
    assert "All 1 targets met. Not measured: W2, W3," in results(made_up.throughput("W1", "csv"))


def test_every_run_of_a_figure_is_shown() -> None:
    text = results(made_up.throughput("W1", "csv"))
    assert "| Millstream: durable view | 2.90 M events/s | 2.61 M, 2.90 M, 2.75 M | 1.00 GiB |" in text
    assert "![W1: tumbling windows](benchmarks/w1.svg)" in text
    assert "[results.json](benchmarks/results.json)" in text


def test_the_page_names_what_is_absent_and_what_is_wrong() -> None:
    refused = Section("state", "state sessions", "sessions", notes={"refused": "no sessions yet"}, measured=MEASURED)
    text = results(made_up.nexmark(), made_up.state(), refused)
    assert "| q0 | 1.00 M (0.91 M) | 0.83 M (0.77 M) | 0.67 M | 0.50 M | 1.20 | 1.50 | 2.00 |" in text
    assert "| q5 | failed | - | - | 1.00 M | - | - | - |" in text
    assert "| worst |  |  |  |  | 1.20 (q0) | 1.50 (q0) | 2.00 (q0) |" in text
    assert "- Flink: heap state, no checkpoints did not take part: not installed" in text
    assert "- q4, Structured Streaming: RocksDB, no-op sink: cannot express it: two | aggregations" in text
    assert "| store file | 15.0 MiB | 20.0 MiB | 30.0 MiB | 1.50 | 30.0 MiB |" in text
    assert "- q0, Native: not checked" in text
    assert "- what `EXPLAIN` says of its bounds: state: rows up to 10 seconds" in text
    assert "- sessions: refused, no sessions yet" in text
    assert "0 of 1 checks of results passed" in text
    assert "- **wrong**: q5: Ours: out of memory" in text


def test_limits_have_a_table_of_their_own() -> None:
    text = results(made_up.nexmark())
    rivals, limits = text.index("and times as fast as others**"), text.index("**Nexmark: limits; Millstream")
    assert rivals < limits
    assert "one-shot" not in text[rivals:limits]
    assert "| query | one-shot DuckDB |\n|---|---:|\n| q0 | 0.10 (10.00 M) |" in text
    assert "| q4 | - |" in text
    assert "| median | 0.25 |\n| geometric mean | 0.22 |\n| worst | 0.10 (q0) |" in text
    assert "- one-shot Polars did not take part: not installed" in text
    assert "- q4, one-shot DuckDB: cannot express it: not tried" in text


def test_without_limits_there_is_no_table_of_them() -> None:
    section = made_up.nexmark()
    assert section.grid is not None
    assert "limits" not in results(replace(section, grid=replace(section.grid, limits=())))


def test_a_section_says_when_and_from_what_it_was_measured() -> None:
    text = page.provenance(replace(MEASURED, dirty=True), MEASURED, "limits once")
    assert text == (
        "Measured 2026-05-01 10:00 UTC on commit `abc1234` with changes that are not committed; 1,000 bids; "
        "best of 3 runs in turn (limits once); 10 min altogether; load of the machine before the benchmark 0.10."
    )


def test_a_section_of_another_machine_than_the_newest_is_marked() -> None:
    old = made_up.throughput("W1", "csv")
    newer = replace(MEASURED, at="2026-05-02T10:00:00+00:00", machine={**MEASURED.machine, "processor": "Slide rule"})
    text = results(old, replace(made_up.small_epochs(), measured=newer))
    assert "The machine: processor Slide rule, cores 2, pyspark 4." in text
    assert text.count("**Not the machine or the versions above**: processor Abacus instead of Slide rule.") == 1
    assert "Not the machine" not in results(old, made_up.small_epochs())


def test_the_reason_for_fewer_runs_is_given_only_where_there_were_fewer() -> None:
    reason = "a run is the median of hundreds of batches"
    assert f"one run ({reason})" in results(made_up.backfill())
    assert reason not in results(replace(made_up.backfill(), measured=replace(MEASURED, runs=3)))


def test_a_run_writes_its_region_and_leaves_the_rest_of_the_page(tmp_path: Path) -> None:
    place = page.Place(tmp_path / "benchmarks.md", tmp_path / "benchmarks")
    place.page.write_text(f"# How\n\nby hand\n\n{page.BEGIN}\nold figures\n{page.END}\n\nmore by hand\n")
    place.check()
    page.publish(place, [made_up.throughput("W1", "csv"), made_up.throughput("W1", "parquet")])
    page.publish(place, [made_up.queries()])
    text = place.page.read_text()
    assert text.startswith(f"# How\n\nby hand\n\n{page.BEGIN}\n\nEvery run")
    assert text.endswith(f"\n\n{page.END}\n\nmore by hand\n")
    assert "old figures" not in text
    assert "](benchmarks/w1.svg)" in text
    assert "](benchmarks/queries.svg)" in text
    assert len(archive.load(place.figures)) == 3
    page.publish(place, [made_up.queries()])
    assert place.page.read_text() == text


def test_a_page_without_a_place_for_results_is_refused_before_the_run(tmp_path: Path) -> None:
    place = page.Place(tmp_path / "benchmarks.md", tmp_path)
    place.page.write_text("# all by hand\n")
    with pytest.raises(page.UnmarkedError):
        place.check()


def test_the_documents_have_a_place_for_results() -> None:
    page.DOCS.check()


# The images and the terminal.


def test_there_is_an_image_of_every_workload_and_of_the_memory(tmp_path: Path) -> None:
    drawn = plots.draw(tmp_path, made_up.everything())
    assert set(drawn) == {section.workload for section in made_up.everything()} | {"memory"}
    assert all(path.suffix == ".svg" and path.stat().st_size > 5_000 for path in drawn.values())


def test_the_same_figures_are_the_same_image(tmp_path: Path) -> None:
    for name in ("a", "b"):
        plots.draw(tmp_path / name, [made_up.throughput("W1", "csv"), made_up.queries()])
    for image in ("w1.svg", "queries.svg", "memory.svg"):
        assert (tmp_path / "a" / image).read_bytes() == (tmp_path / "b" / image).read_bytes()


def test_an_image_of_nothing_is_removed(tmp_path: Path) -> None:
    plots.draw(tmp_path, [made_up.state()])
    assert (tmp_path / "state.svg").exists()
    refused = Section("state", "state", "refused", notes={"refused": "not yet"})
    assert plots.draw(tmp_path, [refused]) == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rates", [(10_000,), (1_000, 10_000)])
def test_one_point_can_be_drawn_too(tmp_path: Path, rates: tuple[int, ...]) -> None:
    short = replace(made_up.queries(), figures=made_up.queries().figures[:1])
    few = made_up.growth("groups", {1e3: 1e6})
    drawn = plots.draw(tmp_path, [*(made_up.latency(rate) for rate in rates), short, few])
    assert set(drawn) == {"latency", "queries", "growth"}


def test_the_terminal_shows_figures_targets_and_checks() -> None:
    console = Console(record=True, width=200, quiet=False, file=None)
    with console.capture() as said:
        report.show(console, made_up.everything(), {"cores": "2"}, "5 s altogether")
    text = said.get()
    for part in ("2.61 M, 2.90 M, 2.75 M", "missed", "aim not reached", "wrong", "5 s altogether"):
        assert part in text
