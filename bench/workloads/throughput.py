"""What W1 and W2 have in common: the same question to all contenders over the same files, interleaved."""

from __future__ import annotations

from bench.data import prepare
from bench.job import Job
from bench.outcome import Check, Figure, Section, Target
from bench.peers.duckdb_once import expected
from bench.plan import Plan
from bench.runner import Run, run

LABELS = {
    "millstream": "Millstream: durable view",
    "native": "Structured Streaming: RocksDB, no-op sink",
    "native_tuned": "Structured Streaming: the same, tuned",
    "spark_once": "one-shot Spark batch",
    "duckdb_once": "one-shot DuckDB",
}
RACERS = ("millstream", "native")
LIMITS = ("native_tuned", "spark_once", "duckdb_once")


def race(plan: Plan, name: str, title: str, question: str, format_: str, at_least: float) -> tuple[Section, list[Run]]:
    """Measure one question from one format; also all runs of Millstream."""
    prepare(plan.bids, (format_,))
    prepare(plan.warm_up, (format_,))
    runs: dict[str, list[Run]] = {}
    order = [(contender, turn) for turn in range(plan.runs) for contender in RACERS]
    if plan.references:
        order += [(contender, 0) for contender in LIMITS]
    for contender, turn in order:
        plan.say(f"{name} {question} from {format_}: {LABELS[contender]}, run {turn + 1}")
        job = Job(
            question,
            format_,
            str(plan.bids.path(format_)),
            str(plan.warm_up.path(format_)),
            work="",
            # Millstream's result is checked every time; native's takes a second run, so once.
            verify=contender == "millstream" or (turn == 0 and contender != "native_tuned"),
            settings="rocksdb" if contender == "native" else "tuned",
        )
        runs.setdefault(contender, []).append(run(contender.removesuffix("_tuned"), job))
    section = Section(f"{name} {format_}", f"{title}, from {_SPELT[format_]}")
    section.figures = [_figure(plan, contender, done) for contender, done in runs.items()]
    ours, native = (_figure(plan, contender, runs[contender]).value for contender in RACERS)
    section.targets = [Target(f"{title}, from {_SPELT[format_]}: times native", ">=", at_least, ours / native, "x")]
    section.checks = checks(plan, section.title, question, format_, runs)
    section.notes = {"millstream": [done.answer.notes for done in runs["millstream"]]}
    return section, runs["millstream"]


_SPELT = {"parquet": "Parquet", "csv": "CSV"}


def _figure(plan: Plan, contender: str, runs: list[Run]) -> Figure:
    speeds = tuple(plan.bids.rows / done.answer.seconds for done in runs)
    return Figure(contender, LABELS[contender], max(speeds), "events/s", speeds, reference=contender in LIMITS)


def checks(plan: Plan, title: str, question: str, format_: str, runs: dict[str, list[Run]]) -> list[Check]:
    """Every digest there is against the one of the one-shot query; and the accounting of every Millstream run."""
    plan.say(f"checking the results of {title}")
    truth = expected(question, plan.bids.path(format_), format_)
    found = []
    for contender, done in runs.items():
        digests = [one.answer.digest for one in done if one.answer.digest is not None]
        if digests:
            wrong = [digest for digest in digests if digest != truth]
            detail = f"expected {truth}, found {wrong[0]}" if wrong else spell(truth)
            found.append(Check(f"{title}: {LABELS[contender]}", not wrong, detail))
    found.append(accounting(f"{title}: rows accounted for", plan.bids.rows, plan.bids.files, runs["millstream"]))
    return found


def accounting(what: str, rows: int, epochs: int, runs: list[Run]) -> Check:
    """Rows in = used + late + dead; none of these bids is late; and as many epochs as there are files."""
    good = {"epochs": epochs, "rows_in": rows, "rows_used": rows, "rows_late": 0, "rows_dead": 0}
    for done in runs:
        notes = {key: done.answer.notes.get(key) for key in good}
        if notes != good:
            return Check(what, False, f"expected {good}, found {notes}")
    return Check(what, True, f"{rows:,} in, {rows:,} used, 0 late, 0 dead, in {epochs} epochs")


def spell(digest: dict[str, int]) -> str:
    return ", ".join(f"{name} {value:,}" if name != "hash" else f"hash {value:x}" for name, value in digest.items())
