"""state: whether what is kept stays bounded, over an input whose ids and buyers never come back.

An interval join and sessions, each a view with `retain`; after every slice the resident memory of the
process tree and the size of the store are noted. Once the horizon has passed they must not grow: the
last third of the run is at most `AT_MOST` times the middle third. No contender; of several runs the traces
of the first are kept, and each run is judged.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.job import Job
from bench.outcome import Check, Figure, Section, Target, Trace
from bench.plan import Plan
from bench.runner import Run, run
from bench.state_data import RETAIN_SECONDS, SLICE_US, Slices

AT_MOST = 1.2
SLICES = 150
"""Of ten seconds each: what is retained for two minutes has its full size after a tenth of the run."""
TITLES = {"interval_join": "interval join", "sessions": "sessions"}


def measure(plan: Plan) -> list[Section]:
    return [_measure(plan, question) for question in TITLES]


def _measure(plan: Plan, question: str) -> Section:
    slices = Slices(plan.state_events, SLICES)
    seconds = SLICES * SLICE_US // 1_000_000
    title = f"state of {TITLES[question]}, {plan.state_events:,} events, {seconds:,} s, retained {RETAIN_SECONDS} s"
    job = Job(question, "parquet", "", "", "", rows=slices.events, slices=slices.slices)
    runs: list[Run] = []
    for turn in range(plan.runs):
        what = f"{TITLES[question]} over {plan.state_events:,} events in {SLICES} slices"
        plan.say(f"state: {what}, run {turn + 1}")
        runs.append(run("state_millstream", job))
    section = Section("state", f"state {question}", title)
    notes = runs[0].answer.notes
    if "refused" in notes:
        section.notes = notes
        return section
    traces = [_traces(done) for done in runs]
    section.traces = traces[0]
    speeds = tuple(plan.state_events / done.answer.seconds for done in runs)
    peak = max(done.peak_bytes for done in runs)
    section.figures = [
        Figure("millstream", "Millstream: durable view", max(speeds), "events/s", speeds, peak_bytes=peak)
    ]
    section.targets = [flat(TITLES[question], same) for same in zip(*traces, strict=True)]
    section.checks = [_check(TITLES[question], done) for done in runs]
    section.notes = {"bounds": notes["bounds"], "rows_at_end": notes["rows_at_end"]}
    return section


def _traces(done: Run) -> list[Trace]:
    notes = done.answer.notes
    return [
        Trace("resident memory of the process tree", "MiB", tuple(size / 2**20 for size in notes["memory_bytes"])),
        Trace("store file", "MiB", tuple(size / 2**20 for size in notes["store_bytes"])),
        Trace("written to the store per slice", "MiB", tuple(size / 2**20 for size in notes["written_bytes"])),
    ]


def flat(what: str, traces: Sequence[Trace]) -> Target:
    """Whether the same trace of every run has stopped growing."""
    growth = max(trace.growth for trace in traces)
    return Target(f"{what}, {traces[0].label}: last third, times the middle third", "<=", AT_MOST, growth, "x")


def _check(what: str, done: Run) -> Check:
    wrong, compared = done.answer.notes["rows_wrong"], done.answer.notes["rows_compared"]
    return Check(f"{what}: the newest rows", wrong == 0 and compared > 0, f"{compared:,} compared, {wrong:,} wrong")
