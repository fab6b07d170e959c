"""`python -m bench`: what is measured how often and in which order, and where the report goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench import __main__ as command
from bench import archive, machine, page
from bench.catalog import WORKLOADS, Workload
from bench.environments import Environment
from bench.job import Answer, Job
from bench.outcome import Section, Target
from bench.plan import Plan
from bench.runner import Run, RunFailedError
from bench.workloads import growth, latency, small_epochs, standing_queries, state, throughput, tumbling


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> page.Place:
    """Documents and results that a test may write."""
    place = page.Place(tmp_path / "docs" / "benchmarks.md", tmp_path / "docs" / "benchmarks")
    place.page.parent.mkdir()
    place.page.write_text(f"by hand\n{page.BEGIN}\n{page.END}\n")
    monkeypatch.setattr(page, "DOCS", place)
    monkeypatch.setattr(command, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(machine, "describe", lambda: {"cores": "2"})
    monkeypatch.setattr(machine, "tree", lambda: ("abc1234", False))
    return place


def measuring(monkeypatch: pytest.MonkeyPatch, name: str, found: Callable[[Plan], list[Section]]) -> None:
    old = WORKLOADS[name]
    monkeypatch.setitem(WORKLOADS, name, Workload(old.about, found, old.reads, old.runs, old.remark))


def section(plan: Plan, value: float = 3.0) -> list[Section]:
    return [Section("W3", "W3", "small", targets=[Target("faster", ">=", 2.0, value, "x")], notes={"runs": plan.runs})]


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ([], "docs"),
        (["--runs", "1"], "docs"),
        (["--no-install"], "docs"),
        (["--quick"], "results"),
        (["--rows", "1000"], "results"),
        (["--seconds", "5"], "results"),
        (["--query", "q5"], "results"),
        (["--results", "/tmp/x"], "x"),
        (["--quick", "--results", "/tmp/x"], "x"),
    ],
)
def test_only_the_whole_input_goes_into_the_documents(docs: page.Place, options: list[str], where: str) -> None:
    found = command.place(command.arguments(options))
    expected = {"docs": docs, "results": page.in_folder(command.RESULTS), "x": page.in_folder(Path("/tmp/x"))}
    assert found == expected[where]


def test_a_full_run_is_best_of_three_unless_a_run_is_already_an_average(docs: page.Place) -> None:
    runs = command.runs_of(command.arguments([]), list(WORKLOADS))
    assert {name: count for name, count in runs.items() if count != 3} == {
        "W4": 1,
        "nexmark": 2,
        "state": 1,
        "latency": 1,
    }
    assert all(WORKLOADS[name].remark for name, count in runs.items() if count < 3)
    assert set(command.runs_of(command.arguments(["--runs", "5"]), list(WORKLOADS)).values()) == {5}
    assert set(command.runs_of(command.arguments(["--quick"]), list(WORKLOADS)).values()) == {1}


def test_a_run_is_kept_with_what_it_was_measured_on(docs: page.Place, monkeypatch: pytest.MonkeyPatch) -> None:
    measuring(monkeypatch, "W3", section)
    assert command.main(["--only", "W3"]) == 0
    (kept,) = archive.load(docs.figures)
    about = archive.measured(kept)
    assert (about.commit, about.dirty, about.machine, about.runs, about.size) == (
        "abc1234",
        False,
        {"cores": "2"},
        3,
        "full",
    )
    assert kept.notes["runs"] == 3
    assert "### W3: small epochs" in docs.page.read_text()
    assert not command.RESULTS.exists()


def test_a_quick_run_leaves_the_documents_alone(docs: page.Place, monkeypatch: pytest.MonkeyPatch) -> None:
    before = docs.page.read_text()
    measuring(monkeypatch, "W3", lambda plan: section(plan, value=1.0))
    assert command.main(["--quick", "--only", "W3"]) == 0
    assert docs.page.read_text() == before
    report = (command.RESULTS / "report.md").read_text()
    assert "for orientation only" in report
    assert "Targets are for the whole input" in report


def test_a_target_that_is_missed_fails_a_full_run(docs: page.Place, monkeypatch: pytest.MonkeyPatch) -> None:
    measuring(monkeypatch, "W3", lambda plan: section(plan, value=1.0))
    assert command.main(["--only", "W3"]) == 1
    assert "**1 of 1 targets missed**" in docs.page.read_text()


def test_a_tree_that_changes_meanwhile_counts_as_changed(docs: page.Place, monkeypatch: pytest.MonkeyPatch) -> None:
    states = iter([("abc1234", False), ("def5678", False)])
    monkeypatch.setattr(machine, "tree", lambda: next(states))
    measuring(monkeypatch, "W3", section)
    command.main(["--only", "W3"])
    assert archive.measured(archive.load(docs.figures)[0]).dirty


def test_the_time_that_is_left_is_told_as_far_as_it_is_known() -> None:
    assert command.remaining({"W1": 300.0, "W2": 630.0}, ["W1", "W2", "W3"]) == (
        "some 16 minutes left, as last time, and W3"
    )
    assert command.remaining({}, ["W3"]) == "no earlier run tells how long it takes"


def test_a_workload_that_fails_keeps_what_was_found_before(docs: page.Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(plan: Plan) -> list[Section]:
        raise RunFailedError("out of memory")

    measuring(monkeypatch, "W3", section)
    command.main(["--only", "W3"])
    before = docs.figures.read_text()
    measuring(monkeypatch, "W3", fail)
    assert command.main(["--only", "W3"]) == 1
    assert docs.figures.read_text() == before


# Contenders take turns: a while in which the machine is slow is then slow for all of them.

Log = list[tuple[str, str]]


def record(monkeypatch: pytest.MonkeyPatch, module: object, answer: Answer) -> Log:
    """Instead of running a contender, note who it was and what with."""
    asked: Log = []

    def run(contender: str, job: Job, python: object = None) -> Run:
        asked.append((contender, job.format if job.question == "queries" else job.settings))
        return Run(contender, answer, 0)

    monkeypatch.setattr(module, "run", run)
    for name in ("prepare", "_checks", "checks"):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, lambda *_: [])
    return asked


def plan(*options: str) -> Plan:
    return command.make_plan(command.arguments(options), lambda _: None)


def test_windows_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Environment, "python", lambda self, *, install: Path("/x/python"))
    asked = record(monkeypatch, throughput, Answer(0, 1, 1))
    tumbling.measure(plan("--runs", "3"))
    judged = [
        ("millstream", "tuned"),
        ("native", "rocksdb"),
        ("flink", "heap"),
        ("flink", "rocksdb"),
        ("duckdb_once", "tuned"),
        ("millstream", "own_epochs"),
    ]
    once = [("native", "tuned"), ("spark_once", "tuned"), ("polars_once", "tuned")]
    from_parquet = [one for one in judged if one[0] != "flink"]
    assert asked == [*from_parquet, *once, *from_parquet * 2, *judged, *once, *judged * 2]


def test_points_of_growth_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = {"epochs": 1, "store_bytes": 1, "truth": {}}
    asked = record(monkeypatch, growth, Answer(0, 1, 1, digest={}, notes=notes))
    monkeypatch.setattr(growth, "prepare", lambda clicks: clicks.path)
    growth.measure(plan("--runs", "2"))
    counts = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
    turn = [(peer, f'{{"groups": {count}}}') for count in counts for peer in ("growth", "growth_once")]
    assert [one for one in asked if one[1].startswith('{"groups"') and "load" not in one[1]] == turn * 2
    kept = [settings for _, settings in asked if "load" in settings]
    assert len(kept) == 2 * 4
    assert kept[:4] == kept[4:]


def test_small_epochs_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = record(monkeypatch, small_epochs, Answer(0, 1, 1, epochs_ms=(1.0,)))
    small_epochs.measure(plan("--runs", "2"))
    assert asked == [("millstream", "tuned"), ("native", "default")] * 2


def test_latency_takes_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    rate = {"latency_ms": [1.0], "behind_seconds": 0, "pace": {}}
    notes = {"rates": dict.fromkeys(("1000", "10000", "100000"), rate), "wrong": [], "views": 10, "rows": 1}
    asked = record(monkeypatch, latency, Answer(0, 1, 1, notes=notes))
    latency.measure(plan("--runs", "2"))
    turn = [("latency_millstream", "tuned"), ("latency_native", "default")]
    assert asked == [*turn, ("latency_native", "tuned"), *turn]


def test_standing_queries_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = record(monkeypatch, standing_queries, Answer(0, 1, 1, notes={"wrong": [], "created_seconds": 1}))
    standing_queries.measure(plan("--runs", "2"))
    both = [(f"queries_{name}", count) for count in ("1", "10", "100") for name in ("millstream", "native")]
    first = [*both, ("queries_millstream", "1000")]
    waiting = [("queries_millstream", count) for count in ("1", "10", "100", "1000")]
    assert asked == [*first, *(one for one in first if one != ("queries_native", "100")), *waiting * 2]


@pytest.mark.parametrize(("wrong", "ok"), [(0, True), (1, False)])
def test_every_run_of_state_is_judged(monkeypatch: pytest.MonkeyPatch, wrong: int, ok: bool) -> None:
    sizes = [2**20, 2**20, 2 * 2**20]
    traces = {"memory_bytes": sizes, "store_bytes": [1, 1, 1], "written_bytes": [1, 1, 1]}
    notes = {**traces, "rows_wrong": wrong, "rows_compared": 5, "bounds": ["none"], "rows_at_end": 1}
    asked = record(monkeypatch, state, Answer(0, 1, 1, notes=notes))
    join, sessions = state.measure(plan("--runs", "2"))
    assert len(asked) == 4
    assert [target.missed for target in join.targets] == [True, False, False]
    assert [check.ok for check in join.checks] == [ok, ok]
    assert len(sessions.figures[0].runs) == 2
    assert len(sessions.traces) == 3
