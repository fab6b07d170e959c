"""What W1 and W2 have in common: the same question to all contenders over the same files, interleaved.

A contender that is not installed is left out, by name and with the reason; so are the targets against it. One that
fails counts as a wrong result, and the others go on.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench import flink, polars
from bench.data import prepare
from bench.environments import Environment, UnavailableError
from bench.job import Job
from bench.outcome import Check, Figure, Section, Target, times
from bench.peers.duckdb_once import expected
from bench.plan import Plan
from bench.runner import Run, RunFailedError, run


@dataclass(frozen=True, slots=True)
class Entrant:
    """A contender and how it is run."""

    name: str
    label: str
    peer: str
    settings: str = "tuned"
    formats: tuple[str, ...] = ("parquet", "csv")
    reference: bool = False
    """Whether it is here for orientation: a limit, or other settings."""
    once: bool = False
    """Whether one run is enough."""
    environment: Environment | None = None
    """Its own Python, if it has one."""


ENTRANTS = (
    Entrant("millstream", "Millstream: durable view", "millstream"),
    Entrant("native", "Structured Streaming: RocksDB, no-op sink", "native", "rocksdb"),
    Entrant(
        "flink_heap",
        "Flink: heap state, no checkpoints",
        "flink",
        "heap",
        formats=("csv",),
        environment=flink.ENVIRONMENT,
    ),
    Entrant(
        "flink_rocksdb",
        "Flink: RocksDB, 5 s checkpoints",
        "flink",
        "rocksdb",
        formats=("csv",),
        environment=flink.ENVIRONMENT,
    ),
    Entrant("duckdb_once", "one-shot DuckDB", "duckdb_once", reference=True),
    Entrant("millstream_own", "Millstream: epochs of its own choice", "millstream", "own_epochs"),
    Entrant("native_tuned", "Structured Streaming: the same, tuned", "native", reference=True, once=True),
    Entrant("spark_once", "one-shot Spark batch", "spark_once", reference=True, once=True),
    Entrant("polars_once", "one-shot Polars", "polars_once", reference=True, once=True, environment=polars.ENVIRONMENT),
)
OURS = "millstream"
EPOCHS = {"millstream": "an epoch a file", "millstream_own": "epochs of its own choice"}
"""What Millstream takes at a time."""
LABELS = {entrant.name: entrant.label for entrant in ENTRANTS}
QUICK = ("millstream", "native", "duckdb_once")
"""Who takes part in a quick run."""
SPELT = {"parquet": "Parquet", "csv": "CSV"}


def race(plan: Plan, name: str, title: str, question: str, format_: str, at_least: Mapping[str, float]) -> Section:
    """Measure one question from one format. `at_least` says how many times whom."""
    field, skipped = taking_part(plan, question, format_)
    layouts = {_layout(entrant, format_) for entrant, _ in field}
    for bids in (plan.bids, plan.warm_up):
        prepare(bids, tuple(sorted(layouts)))
    section = Section(name, f"{name} {format_}", f"{title}, from {SPELT[format_]}")
    runs: dict[str, list[Run]] = {}
    failed: dict[str, str] = {}
    for turn in range(plan.runs):
        for entrant, python in field:
            if entrant.name in failed or (turn > 0 and entrant.once):
                continue
            plan.say(f"{name} {question} from {format_}: {entrant.label}, run {turn + 1}")
            try:
                done = run(entrant.peer, _job(plan, entrant, question, format_, verify=turn == 0), python)
            except RunFailedError as failure:
                if entrant.name == OURS:
                    raise
                failed[entrant.name] = str(failure)
                plan.say(f"{entrant.label} failed")
                continue
            runs.setdefault(entrant.name, []).append(done)
    section.figures = [
        _figure(plan, entrant, runs[entrant.name])
        for entrant in sorted((one for one, _ in field), key=lambda one: one.reference)
        if entrant.name in runs
    ]
    speeds = {figure.contender: figure.value for figure in section.figures}
    section.targets = targets(f"from {SPELT[format_]}", speeds, at_least)
    section.checks = checks(plan, section.title, question, format_, runs)
    section.checks += [Check(f"{section.title}: {LABELS[name]}", False, text) for name, text in failed.items()]
    section.notes = {
        "millstream": [done.answer.notes for done in runs[OURS]],
        "skipped": skipped,
        # The clocks differ: Flink's time is its job's, this one includes its planning and the start of its cluster.
        "wall_seconds": {
            name: [done.answer.ended_at - done.answer.started_at for done in done_runs]
            for name, done_runs in runs.items()
        },
    }
    return section


def taking_part(plan: Plan, question: str, format_: str) -> tuple[list[tuple[Entrant, Path | str]], dict[str, str]]:
    """Who runs, each with its Python; and who does not, by label, and why."""
    field: list[tuple[Entrant, Path | str]] = []
    skipped: dict[str, str] = {}
    for entrant in ENTRANTS:
        if format_ not in entrant.formats or (plan.quick and entrant.name not in QUICK):
            continue
        if entrant.name == "millstream_own" and question != "tumbling":
            continue
        if entrant.environment is None:
            field.append((entrant, sys.executable))
            continue
        try:
            field.append((entrant, entrant.environment.python(install=plan.install)))
        except UnavailableError as reason:
            plan.say(f"without {entrant.label}: {reason}")
            skipped[entrant.label] = str(reason)
    return field, skipped


def targets(where: str, speeds: Mapping[str, float], at_least: Mapping[str, float]) -> list[Target]:
    """Our speed over that of each rival; with epochs of our own choice, where these were measured."""
    ours = "millstream_own" if "millstream_own" in speeds else OURS
    epochs = EPOCHS[ours]
    return [
        Target(
            f"{where}, {epochs}: {times(LABELS[rival])}",
            ">=",
            bound,
            speeds[ours] / speeds[rival] if rival in speeds else None,
            "x",
        )
        for rival, bound in at_least.items()
    ]


def _layout(entrant: Entrant, format_: str) -> str:
    return "readers" if entrant.peer == "flink" else format_


def _job(plan: Plan, entrant: Entrant, question: str, format_: str, *, verify: bool) -> Job:
    path, warm_up = (str(bids.path(_layout(entrant, format_))) for bids in (plan.bids, plan.warm_up))
    # Millstream's result is checked every time; those of others take a second run, so once.
    checked = entrant.peer == "millstream" or (verify and entrant.name != "native_tuned")
    return Job(question, format_, path, warm_up, work="", verify=checked, settings=entrant.settings)


def _figure(plan: Plan, entrant: Entrant, runs: list[Run]) -> Figure:
    speeds = tuple(plan.bids.rows / done.answer.seconds for done in runs)
    peak = max(done.peak_bytes for done in runs)
    return Figure(entrant.name, entrant.label, max(speeds), "events/s", speeds, entrant.reference, peak)


def checks(plan: Plan, title: str, question: str, format_: str, runs: Mapping[str, list[Run]]) -> list[Check]:
    """Every digest there is against the one of the one-shot query; and the accounting of every Millstream run."""
    plan.say(f"checking the results of {title}")
    truth = expected(question, plan.bids.path(format_), format_)
    found = []
    for contender, done in runs.items():
        digests = [one.answer.digest for one in done if one.answer.digest is not None]
        if digests:
            found.append(compared(f"{title}: {LABELS[contender]}", truth, digests))
    for name in EPOCHS:
        if name in runs:
            epochs = plan.bids.files if name == OURS else None
            what = f"{title}: rows accounted for, {LABELS[name]}"
            found.append(accounting(what, plan.bids.rows, epochs, runs[name]))
    return found


def compared(what: str, truth: dict[str, int], digests: list[dict[str, int]]) -> Check:
    """Whether all digests are the truth; one without a hash (see `peers/flink.py`) by its count and its sums."""
    for digest in digests:
        known = {name: value for name, value in truth.items() if name != "hash" or "hash" in digest}
        if digest != known:
            return Check(what, False, f"expected {known}, found {digest}")
    return Check(what, True, spell(digests[0]))


def accounting(what: str, rows: int, epochs: int | None, runs: list[Run]) -> Check:
    """Rows in = used + late + dead; none of these bids is late; and as many epochs as said, if that is said."""
    good = {"rows_in": rows, "rows_used": rows, "rows_late": 0, "rows_dead": 0}
    if epochs is not None:
        good = {"epochs": epochs, **good}
    for done in runs:
        notes = {key: done.answer.notes.get(key) for key in good}
        if notes != good:
            return Check(what, False, f"expected {good}, found {notes}")
    took = epochs if epochs is not None else runs[0].answer.notes["epochs"]
    return Check(what, True, f"{rows:,} in, {rows:,} used, 0 late, 0 dead, in {took} epochs")


def spell(digest: dict[str, int]) -> str:
    return ", ".join(f"{name} {value:,}" if name != "hash" else f"hash {value:x}" for name, value in digest.items())
