"""queries: the same bids for one, ten, a hundred and a thousand standing queries with different filters and keys.

Millstream's views share the scan of the stream; native has one streaming query for each. The same is asked of as many
queries that all have windows and answer when these are complete: by Millstream alone, as nothing is asked of native.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.data import prepare
from bench.job import Job
from bench.outcome import Check, Figure, Section, Target
from bench.plan import Plan
from bench.runner import Run, RunFailedError, run

AT_MOST = {100: 5.0, 1_000: 30.0}
"""How many times the time of one query so many may take."""
ONCE = {("native", 100)}
"""What takes minutes and is judged by nothing: one run."""
LABELS = {"millstream": "Millstream", "native": "Structured Streaming"}
PEERS = {"millstream": ("queries_millstream", "tuned"), "native": ("queries_native", "default")}
WAITING = {"millstream": ("queries_millstream", "waits")}
Peers = Mapping[str, tuple[str, str]]


def measure(plan: Plan) -> list[Section]:
    prepare(plan.query_bids, ("parquet",))
    prepare(plan.query_warm_up, ("parquet",))
    over = f"over {plan.query_bids.rows:,} bids from Parquet"
    return [
        _measure(plan, Section("queries", "queries", f"standing queries {over}"), PEERS, ""),
        _measure(
            plan,
            Section("queries", "queries waiting", f"standing queries {over}, answering when windows are complete"),
            WAITING,
            " that wait for complete windows",
        ),
    ]


def _measure(plan: Plan, section: Section, peers: Peers, which: str) -> Section:
    counts = {"millstream": plan.query_counts, "native": plan.native_query_counts}
    runs: dict[tuple[str, int], list[Run]] = {}
    failed: dict[tuple[str, int], str] = {}
    for turn in range(plan.runs):
        for count in plan.query_counts:
            for contender, peer in peers.items():
                point = (contender, count)
                if count not in counts[contender] or point in failed or (turn > 0 and point in ONCE):
                    continue
                plan.say(f"queries: {LABELS[contender]}, {spell(count)}{which}, run {turn + 1}")
                try:
                    runs.setdefault(point, []).append(_run(plan, peer, count, verify=turn == 0))
                except RunFailedError as failure:
                    # So many may be too much for someone; that says nothing of the others.
                    failed[point] = str(failure)
                    plan.say("failed")
    ordered = sorted((item for item in runs.items() if item[1]), key=lambda item: item[0])
    for (contender, count), done in ordered:
        seconds = tuple(one.answer.seconds for one in done)
        peak = max(one.peak_bytes for one in done)
        label = f"{LABELS[contender]}: {spell(count)}"
        section.figures.append(Figure(contender, label, min(seconds), "s", seconds, peak_bytes=peak, at=count))
    best = {count: min(one.answer.seconds for one in done) for (name, count), done in ordered if name == "millstream"}
    section.targets = targets(best, plan.query_counts, which)
    section.checks = [check(contender, count, done, which) for (contender, count), done in ordered]
    section.checks += [
        Check(f"{LABELS[name]}: {spell(count)}{which}", False, text) for (name, count), text in failed.items()
    ]
    section.notes = {
        "created_seconds": {
            count: [one.answer.notes["created_seconds"] for one in done]
            for (name, count), done in ordered
            if name == "millstream"
        }
    }
    return section


def _run(plan: Plan, contender: tuple[str, str], count: int, *, verify: bool) -> Run:
    peer, settings = contender
    path, warm_up = (str(bids.path("parquet")) for bids in (plan.query_bids, plan.query_warm_up))
    return run(peer, Job("queries", f"{count}", path, warm_up, "", verify=verify, settings=settings, rows=count))


def targets(seconds: Mapping[int, float], asked: Sequence[int], which: str = "") -> list[Target]:
    """What many queries take, in times of what one takes; only of counts that are asked for."""
    return [
        Target(
            f"{spell(count)}{which}: times the time of one",
            "<=",
            bound,
            seconds[count] / seconds[1] if count in seconds and 1 in seconds else None,
            "x",
        )
        for count, bound in AT_MOST.items()
        if count in asked
    ]


def check(contender: str, count: int, runs: list[Run], which: str = "") -> Check:
    what = f"{LABELS[contender]}: {spell(count)}{which}"
    wrong = [name for done in runs for name in done.answer.notes["wrong"] or ()]
    if wrong:
        return Check(what, False, f"{len(wrong)} are wrong, the first is {wrong[0]}")
    how = "as the one-shot query has it" if contender == "millstream" else "has read all rows"
    return Check(what, True, f"each {how}")


def spell(count: int) -> str:
    """
    >>> spell(1), spell(1000)
    ('1 query', '1,000 queries')
    """
    return "1 query" if count == 1 else f"{count:,} queries"
