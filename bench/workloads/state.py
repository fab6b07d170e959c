"""state: whether what is kept stays bounded, over an input whose ids and buyers never come back.

An interval join and sessions, each a view with `retain`; after every slice the resident memory of the
process tree and the size of the store are noted. Once the horizon has passed they must not grow: the
last third of the run is at most `AT_MOST` times the middle third.
"""

from __future__ import annotations

from bench.job import Job
from bench.outcome import Check, Figure, Section, Trace
from bench.plan import Plan
from bench.runner import run
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
    plan.say(f"state: {TITLES[question]} over {plan.state_events:,} events in {SLICES} slices")
    job = Job(question, "parquet", "", "", "", rows=slices.events, slices=slices.slices)
    done = run("state_millstream", job)
    section = Section(f"state {question}", title)
    notes = done.answer.notes
    if "refused" in notes:
        section.notes = notes
        return section
    section.traces = [
        Trace("resident memory of the process tree", "MiB", tuple(size / 2**20 for size in notes["memory_bytes"])),
        Trace("store file", "MiB", tuple(size / 2**20 for size in notes["store_bytes"])),
        Trace("written to the store per slice", "MiB", tuple(size / 2**20 for size in notes["written_bytes"])),
    ]
    speed = plan.state_events / done.answer.seconds
    section.figures = [
        Figure("millstream", "Millstream: durable view", speed, "events/s", (speed,), peak_bytes=done.peak_bytes)
    ]
    section.checks = [flat(TITLES[question], trace) for trace in section.traces]
    wrong, compared = notes["rows_wrong"], notes["rows_compared"]
    section.checks.append(
        Check(
            f"{TITLES[question]}: the newest rows",
            wrong == 0 and compared > 0,
            f"{compared:,} compared, {wrong:,} wrong",
        )
    )
    section.notes = {"bounds": notes["bounds"], "rows_at_end": notes["rows_at_end"]}
    return section


def flat(what: str, trace: Trace) -> Check:
    """Whether a trace has stopped growing."""
    growth, peak = trace.growth, max(trace.values)
    detail = f"last third {growth:.2f} x the middle third, at most {AT_MOST:g}; peak {peak:,.1f} {trace.unit}"
    return Check(f"{what}: {trace.label} is flat", growth <= AT_MOST, detail)
