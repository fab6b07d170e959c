"""Nexmark: its queries over the same CSV files by Millstream, Structured Streaming and Flink.

Contenders stay for the whole workload and are asked query by query, in turn. Limits, which answer each query as one
batch over all files, are asked after the others and in the first turn only; nothing is asked of the ratios to them.
A query that a contender cannot express, or on which it fails, is named with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace

from bench import flink, polars
from bench.environments import UnavailableError
from bench.grid import Grid, QueryTimes
from bench.nexmark.data import prepare
from bench.nexmark.job import Question, Reply
from bench.nexmark.truth import QUERIES, Truth
from bench.outcome import Check, Section, Target, times
from bench.plan import Plan
from bench.resident import Resident

LABELS = {
    "millstream": "Millstream: durable view",
    "flink_heap": "Flink: heap state, no checkpoints",
    "flink_rocksdb": "Flink: RocksDB, 5 s checkpoints",
    "native": "Structured Streaming: RocksDB",
    "duckdb_once": "one-shot DuckDB",
    "spark_once": "one-shot Spark batch",
    "polars_once": "one-shot Polars",
}
OURS = "millstream"
AT_LEAST = {"worst": ("flink_heap", 1.0), "mean": ("flink_heap", 2.0), "median": ("flink_rocksdb", 1.5)}
"""Of all ratios against a rival."""
SPELT = {"worst": "the worst", "mean": "geometric mean", "median": "median"}
RIVALS = ("flink_heap", "flink_rocksdb", "native")
LIMITS = ("duckdb_once", "spark_once", "polars_once")
ROW_BY_ROW = (OURS, "spark_once")
"""Whose rows are compared with the truth one by one."""

Replies = dict[tuple[str, str], list[tuple[Reply, int]]]
"""By query and contender: every reply, with the peak of the memory."""


def measure(plan: Plan) -> list[Section]:
    prepare(plan.events)
    prepare(plan.warm_up_events)
    queries = plan.queries or QUERIES
    contenders, skipped = _contenders(plan)
    replies: Replies = {}
    with ExitStack() as opened:
        for contender in contenders:
            opened.callback(contender.close)
        for turn in range(plan.runs):
            for query in queries:
                for contender in contenders:
                    known = replies.setdefault((query, contender.name), [])
                    if known and (contender.name in LIMITS or known[-1][0].seconds == 0):
                        continue  # once is enough, or refused or failed before
                    plan.say(f"nexmark {query}: {LABELS[contender.name]}, run {turn + 1}")
                    known.append(contender.ask(_question(plan, contender.name, query, verify=turn == 0)))
            for contender in contenders:
                if contender.name in LIMITS:
                    contender.close()  # nothing more will be asked of it
    names = [contender.name for contender in contenders]
    rows = tuple(_times(query, names, replies) for query in queries)
    rivals, limits = (tuple(name for name in known if name in names) for known in (RIVALS, LIMITS))
    section = Section("nexmark", "nexmark", f"Nexmark, {plan.events.events:,} events from CSV")
    section.grid = Grid(plan.events.events, OURS, rivals, LABELS, rows, skipped, limits)
    section.targets = targets(section.grid)
    plan.say("checking the results of Nexmark")
    section.checks = _checks(plan, queries, names, replies)
    section.notes = {
        "millstream": {query: replies[query, OURS][0][0].notes for query in queries},
        "rows": plan.events.rows(),
        "unchecked": _unchecked(queries, names, replies),
        # The clocks differ: Flink's time is its job's, this one includes its planning and the start of its cluster.
        "wall_seconds": {
            query: {name: [one.ended_at - one.started_at for one, _ in replies[query, name]] for name in names}
            for query in queries
        },
    }
    return [section]


def targets(grid: Grid) -> list[Target]:
    """What is asked of the ratios of all queries."""
    found = []
    for what, (rival, bound) in AT_LEAST.items():
        summary = grid.summary(rival)
        label = f"{SPELT[what]} of {summary.queries if summary else 'all'} queries: {times(LABELS[rival])}"
        found.append(Target(label, ">=", bound, getattr(summary, what) if summary else None, "x"))
    return found


def _contenders(plan: Plan) -> tuple[list[Resident], dict[str, str]]:
    """Who takes part, and who does not and why."""
    taking_part = [Resident(OURS, "bench.peers.nexmark_millstream")]
    skipped: dict[str, str] = {}
    settings = {"flink_heap": "heap", "flink_rocksdb": "rocksdb"}
    try:
        python = flink.ENVIRONMENT.python(install=plan.install)
        for name, chosen in settings.items():
            taking_part.append(Resident(name, "bench.peers.nexmark_flink", [chosen], python=python))
    except UnavailableError as reason:
        plan.say(f"without Flink: {reason}")
        skipped = dict.fromkeys(settings, str(reason))
    taking_part.append(Resident("native", "bench.peers.nexmark_native", ["rocksdb"]))
    taking_part.append(Resident("duckdb_once", "bench.peers.nexmark_duckdb_once"))
    taking_part.append(Resident("spark_once", "bench.peers.nexmark_spark_once"))
    try:
        python = polars.ENVIRONMENT.python(install=plan.install)
        taking_part.append(Resident("polars_once", "bench.peers.nexmark_polars_once", python=python))
    except UnavailableError as reason:
        plan.say(f"without Polars: {reason}")
        skipped["polars_once"] = str(reason)
    return taking_part, skipped


def _question(plan: Plan, contender: str, query: str, *, verify: bool) -> Question:
    layout = "readers" if contender.startswith("flink") else "epochs"
    path, warm_up = (str(getattr(events, layout)) for events in (plan.events, plan.warm_up_events))
    return Question(query, path, warm_up, work="", verify=verify)


def _times(query: str, contenders: list[str], replies: Replies) -> QueryTimes:
    seconds: dict[str, tuple[float, ...]] = {}
    absent: dict[str, str] = {}
    peaks: dict[str, int] = {}
    for name in contenders:
        answered = [reply for reply, _ in replies[query, name]]
        # A run that failed is a wrong result (`_checks`), and takes nothing from those that did not.
        seconds[name] = tuple(r.seconds for r in answered if r.refused is None and r.failed is None)
        if not seconds[name]:
            why = answered[-1]
            absent[name] = f"cannot express it: {why.refused}" if why.failed is None else f"failed: {why.failed}"
        peaks[name] = max(peak for _, peak in replies[query, name])
    return QueryTimes(query, seconds, absent, peaks)


def _checks(plan: Plan, queries: tuple[str, ...], contenders: list[str], replies: Replies) -> list[Check]:
    """Row by row, by sums or by the number of rows, as far as each can be; a failure is no result and not right."""
    found = []
    with Truth(plan.events.epochs) as truth:
        for query in queries:
            expected = truth.rows(query)
            for name in contenders:
                reply = replies[query, name][0][0]
                if reply.sums is not None:
                    reply = replace(reply, difference=differing(reply.sums, truth.sums(query)))
                check = judge(query, name, reply, expected)
                if check is not None:
                    found.append(check)
                found += _later_failures(query, name, replies)
    return found


def _later_failures(query: str, contender: str, replies: Replies) -> list[Check]:
    later = enumerate(replies[query, contender][1:], 2)
    what = f"{query}: {LABELS[contender]}"
    return [Check(f"{what}, run {run}", False, reply.failed) for run, (reply, _) in later if reply.failed is not None]


def _unchecked(queries: tuple[str, ...], contenders: list[str], replies: Replies) -> list[str]:
    """Results that nothing is known of: named, so that nobody takes them for right."""
    found = []
    for query in queries:
        for name in contenders:
            reply = replies[query, name][0][0]
            if reply.seconds and reply.rows is None:
                found.append(f"{query}, {LABELS[name]}: not checked, its rows depend on the clock")
            elif reply.seconds and reply.expected_rows == 0:
                found.append(f"{query}, {LABELS[name]}: not checked, no window was complete at the end of the input")
    return found


def differing(sums: Mapping[str, int], expected: Mapping[str, int]) -> str | None:
    """The first column that does not add up to what it should; None if all do."""
    for name, total in expected.items():
        if sums.get(name) != total:
            return f"{name} adds up to {sums.get(name)}, should be {total}"
    return None


def judge(query: str, contender: str, reply: Reply, expected: int) -> Check | None:
    """Whether a result is right; None if there is none to judge."""
    what = f"{query}: {LABELS[contender]}"
    if reply.failed is not None:
        return Check(what, False, reply.failed)
    if reply.refused is not None or reply.rows is None:
        return None
    if reply.rows == 0 and reply.expected_rows == 0 and expected:
        return None  # as many as there should be, but that shows nothing
    if reply.difference is not None:
        return Check(what, False, reply.difference)
    if contender in ROW_BY_ROW:
        return Check(what, True, f"{reply.rows:,} rows, each as the one-shot query has it")
    if reply.expected_rows is not None:
        still_open = expected - reply.expected_rows
        later = f", {still_open:,} more in windows that are open at the end" if still_open else ""
        detail = f"{reply.rows:,} rows of {reply.expected_rows:,}{later}"
        return Check(what, reply.rows == reply.expected_rows, detail)
    added_up = ", and what they add up to" if reply.sums is not None else ""
    return Check(what, reply.rows == expected, f"{reply.rows:,} rows of {expected:,}{added_up}")
