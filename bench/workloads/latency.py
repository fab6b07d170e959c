"""latency: how long rows take to be visible in ten views, at several rates.

Millstream's latency runs from when a batch was due to the commit that shows it in all views at once, native's
from when a file had landed to the end of the micro-batch that read it, of each query on its own (see the two
peers). Both differences are in native's favour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.job import Job
from bench.outcome import Check, Figure, Section, Target
from bench.percentiles import SHARES, percentile
from bench.plan import Plan
from bench.runner import Run, run

AT_MOST = {"p50": 0.35, "p99": 0.35}
"""Of native's."""
AIM_MS = {"p50": 100.0, "p99": 250.0}
"""On an idle machine of two cores."""
JUDGED_RATE = 10_000


@dataclass(frozen=True, slots=True)
class Entrant:
    name: str
    label: str
    peer: str
    settings: str
    reference: bool = False


OURS = Entrant("millstream", "Millstream: insert to visible", "latency_millstream", "tuned")
NATIVE = Entrant("native", "Structured Streaming: default settings", "latency_native", "default")
TUNED = Entrant("native_tuned", "Structured Streaming: tuned", "latency_native", "tuned", reference=True)

Runs = dict[Entrant, list[Run]]


def measure(plan: Plan) -> list[Section]:
    runs: Runs = {}
    for turn in range(plan.runs):
        for entrant in (OURS, NATIVE) if plan.quick or turn else (OURS, NATIVE, TUNED):
            plan.say(f"latency: {entrant.label}, run {turn + 1}")
            job = Job(
                "latency", "log", "", "", "", settings=entrant.settings, rates=plan.rates, seconds=plan.rate_seconds
            )
            runs.setdefault(entrant, []).append(run(entrant.peer, job))
    sections = [section(rate, runs) for rate in plan.rates]
    sections[0].checks = [check(entrant, done) for entrant, done in runs.items()]
    return sections


def section(rate: int, runs: Runs) -> Section:
    """The percentiles of everyone at one rate; the target at the rate that is judged."""
    found = Section("latency", f"latency {rate}", f"insert to visible in 10 views, {rate:,} events/s")
    best: dict[tuple[str, str], float] = {}
    for entrant, done in runs.items():
        for name, share in SHARES.items():
            values = tuple(percentile(one.answer.notes["rates"][str(rate)]["latency_ms"], share) for one in done)
            best[entrant.name, name] = min(values)
            peak = max(one.peak_bytes for one in done)
            label = f"{entrant.label}, {name}"
            found.figures.append(
                Figure(entrant.name, label, min(values), "ms", values, entrant.reference, peak, name, rate)
            )
    if rate == JUDGED_RATE:
        found.targets = targets(best)
    found.notes = {
        # How long after the end of the input everything was visible: large if the rate was too much.
        "behind_seconds": {
            entrant.name: [one.answer.notes["rates"][str(rate)]["behind_seconds"] for one in done]
            for entrant, done in runs.items()
        },
        # What epochs were measured to cost, and how large they were to be.
        "pace": [one.answer.notes["rates"][str(rate)]["pace"] for one in runs[OURS]],
    }
    return found


def targets(best: Mapping[tuple[str, str], float]) -> list[Target]:
    """By contender and percentile: the share of native's, and what is wished for whatever native takes."""
    where = f"latency at {JUDGED_RATE:,} events/s in 10 views"
    shares = [
        Target(f"{where}, {name}: share of native's", "<=", bound, best[OURS.name, name] / best[NATIVE.name, name], "x")
        for name, bound in AT_MOST.items()
    ]
    aims = [
        Target(f"{where}, {name}", "<=", bound, best[OURS.name, name], "ms", aim=True) for name, bound in AIM_MS.items()
    ]
    return shares + aims


def check(entrant: Entrant, runs: list[Run]) -> Check:
    """Millstream's views are compared with one-shot queries; of native's queries the rows they read are counted."""
    what = f"latency: {entrant.label}"
    for done in runs:
        if done.answer.notes["wrong"]:
            return Check(what, False, f"wrong: {', '.join(done.answer.notes['wrong'])}")
    notes = runs[0].answer.notes
    how = "each as the one-shot query has it" if entrant is OURS else "each has read all rows"
    return Check(what, True, f"{notes['views']} views over {notes['rows']:,} rows, {how}")
