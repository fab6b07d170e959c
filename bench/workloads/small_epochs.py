"""W3: a thousand rows per epoch, one tumbling view, everything warm: the time of one epoch.

Millstream's time runs from `insert` to the commit of the view, the durable log included. Native's
is `durationMs.triggerExecution`, which leaves out how the file came to be and was noticed.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from bench.data import Bids, prepare
from bench.job import Job
from bench.outcome import Check, Figure, Section, Target
from bench.peers.duckdb_once import expected
from bench.plan import SMALL_EPOCH_ROWS, Plan
from bench.runner import Run, run
from bench.workloads.throughput import accounting, spell

AT_MOST = 0.5


@dataclass(frozen=True, slots=True)
class Entrant:
    contender: str
    settings: str
    label: str
    reference: bool = False


OURS = Entrant("millstream", "tuned", "Millstream: insert to committed")
NATIVE = Entrant("native", "default", "Structured Streaming: trigger, default settings")


def measure(plan: Plan) -> list[Section]:
    prepare(plan.small, ("parquet",))
    runs: dict[Entrant, list[Run]] = {}
    for turn in range(plan.runs):
        for entrant in (OURS, NATIVE):
            runs.setdefault(entrant, []).append(_run(plan, entrant, turn, plan.small, plan.warm_up_epochs))
    section = Section("W3", "W3", f"small epochs of {SMALL_EPOCH_ROWS:,} rows, median")
    section.figures = [_figure(entrant, done) for entrant, done in runs.items()]
    ratio = _figure(OURS, runs[OURS]).value / _figure(NATIVE, runs[NATIVE]).value
    section.targets = [Target("small epochs: share of native's trigger time", "<=", AT_MOST, ratio, "x")]
    section.checks = _checks(plan, runs)
    section.notes = {
        entrant.label: [list(done.answer.epochs_ms) for done in entrant_runs] for entrant, entrant_runs in runs.items()
    }
    return [section]


def _run(plan: Plan, entrant: Entrant, turn: int, bids: Bids, warm_up_epochs: int) -> Run:
    plan.say(f"W3 small epochs: {entrant.label}, run {turn + 1}")
    job = Job(
        "small_epochs",
        "parquet",
        str(bids.path("parquet")),
        warm_up_path="",
        work="",
        verify=entrant.contender == "millstream",
        settings=entrant.settings,
        warm_up_epochs=warm_up_epochs,
    )
    return run(entrant.contender, job)


def _figure(entrant: Entrant, runs: list[Run]) -> Figure:
    medians = tuple(median(done.answer.epochs_ms) for done in runs)
    peak = max(done.peak_bytes for done in runs)
    return Figure(entrant.contender, entrant.label, min(medians), "ms", medians, entrant.reference, peak)


def _checks(plan: Plan, runs: dict[Entrant, list[Run]]) -> list[Check]:
    truth = expected("small_epochs", plan.small.path("parquet"), "parquet")
    wrong = [done.answer.digest for done in runs[OURS] if done.answer.digest != truth]
    detail = f"expected {truth}, found {wrong[0]}" if wrong else spell(truth)
    triggers = {len(done.answer.epochs_ms) for done in runs[NATIVE]}
    return [
        Check(f"small epochs: {OURS.label}", not wrong, detail),
        accounting("small epochs: rows accounted for", plan.small.rows, plan.small.files, runs[OURS]),
        Check(
            "small epochs: native triggered once per file",
            triggers == {plan.measured_epochs},
            f"{plan.measured_epochs} measured triggers each",
        ),
    ]
