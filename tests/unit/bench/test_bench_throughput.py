"""W1 and W2: who takes part, what is asked of us against whom, and when a result is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.__main__ import QUICK, arguments, make_plan
from bench.catalog import WORKLOADS
from bench.data import Bids, prepare
from bench.environments import Environment, UnavailableError
from bench.job import Answer
from bench.plan import Plan
from bench.runner import Run
from bench.workloads import hopping, recovery, throughput, tumbling


def plan(*options: str) -> Plan:
    return make_plan(arguments(options), lambda _: None)


def names(*options: str, question: str = "tumbling", format_: str = "csv") -> set[str]:
    return {entrant.name for entrant, _ in throughput.taking_part(plan(*options), question, format_)[0]}


@pytest.fixture
def everything_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Environment, "python", lambda self, *, install: Path("/x/python"))


@pytest.mark.usefixtures("everything_installed")
def test_flink_reads_csv_only_and_a_quick_run_does_without() -> None:
    assert names() >= {
        "millstream",
        "native",
        "flink_heap",
        "flink_rocksdb",
        "duckdb_once",
        "spark_once",
        "polars_once",
    }
    assert not names(format_="parquet") & {"flink_heap", "flink_rocksdb"}
    assert names("--quick") == {"millstream", "native", "duckdb_once"}


@pytest.mark.usefixtures("everything_installed")
def test_epochs_of_its_own_choice_are_for_tumbling_windows() -> None:
    assert "millstream_own" in names()
    assert "millstream_own" not in names(question="hopping")


def test_who_is_not_installed_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Environment, *, install: bool) -> Path:
        raise UnavailableError(f"{self.name} is not here")

    monkeypatch.setattr(Environment, "python", refuse)
    field, skipped = throughput.taking_part(plan("--no-install"), "tumbling", "csv")
    assert "millstream" in {entrant.name for entrant, _ in field}
    assert skipped["one-shot Polars"] == "polars is not here"
    assert len(skipped) == 3


def test_a_rival_that_was_not_measured_is_judged_by_nobody_and_still_named() -> None:
    speeds = {"millstream": 10.0, "native": 1.0, "flink_heap": 5.0}
    met, missed, unknown = throughput.targets("from CSV", speeds, tumbling.AT_LEAST["csv"])
    assert (met.met, met.bound, missed.missed, missed.bound) == (True, 5.0, True, 2.5)
    assert (unknown.value, unknown.met, unknown.missed) == (None, False, False)
    assert unknown.what == "from CSV, an epoch a file: times Flink (RocksDB, 5 s checkpoints)"


def test_epochs_of_its_own_choice_are_what_is_judged_where_there_are_any() -> None:
    speeds = {"millstream": 4.0, "millstream_own": 6.0, "native": 2.0}
    (target,) = throughput.targets("from CSV", speeds, {"native": 2.0})
    assert target.value == 3.0
    assert "epochs of its own choice" in target.what


def test_every_target_is_against_somebody() -> None:
    for asked in (*tumbling.AT_LEAST.values(), *hopping.AT_LEAST.values()):
        assert set(asked) <= set(throughput.LABELS)


def test_a_digest_without_a_hash_is_compared_by_the_rest() -> None:
    truth = {"groups": 2, "n": 3, "hash": 7}
    assert throughput.compared("x", truth, [{"groups": 2, "n": 3}]).ok
    assert throughput.compared("x", truth, [truth]).ok
    assert not throughput.compared("x", truth, [{"groups": 2, "n": 4}]).ok
    assert not throughput.compared("x", truth, [{"groups": 2, "n": 3, "hash": 8}]).ok
    assert not throughput.compared("x", truth, [{"groups": 2}]).ok


def test_a_quick_run_is_a_part_of_the_whole_and_installs_nothing() -> None:
    assert set(QUICK) < set(WORKLOADS)
    assert not plan("--quick").install
    assert not plan("--no-install").install
    assert plan().install


def test_readers_get_the_same_lines_as_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.data.ROOT", tmp_path)
    bids = Bids(2, 500)
    prepare(bids, ("readers",))

    def lines(layout: str) -> list[str]:
        return sorted(line for path in bids.path(layout).glob("*.csv") for line in path.read_text().splitlines())

    assert len(lines("csv")) == 1_000
    assert lines("readers") == lines("csv")


@pytest.mark.parametrize(("found", "ok"), [(5, True), (6, True), (4, False)])
def test_an_epoch_that_was_told_must_be_there_after_a_kill(found: int, ok: bool) -> None:
    notes = {"truth": {"n": 1}, "epochs_told": 5, "epochs_found": found}
    checks = recovery.checks(10, [Run("x", Answer(0, 1, 1, digest={"n": 1}, notes=notes), 0)])
    assert [check.ok for check in checks] == [True, ok]
