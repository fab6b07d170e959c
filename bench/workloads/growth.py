"""growth: what throughput becomes as one thing grows: groups, disorder, partitions of the log, epochs, windows.

One view over clicks (`growth_data.py`), one thing varied at a time. No contender: the point beside it is the measure.
Groups are varied in two ways. For *groups kept* the view has the groups already, and the clicks of an epoch are on
10,000 of them, others each time: what grows is the view alone, and that must not cost half of the throughput. *Groups*
is the worst case: ids come back as late as possible, so that every row of an epoch changes a group of its own, and what
is computed and written grows with them. It does so for everyone; a one-shot query over the same files is the limit, and
what is asked for is a share of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.growth_data import Clicks, prepare
from bench.job import Job
from bench.outcome import Check, Figure, Section, Target
from bench.plan import Plan
from bench.runner import Run, run
from bench.workloads.throughput import compared

WORST, KEPT = "groups", "groups kept"
JUDGED = (WORST, KEPT)
AT_LEAST = 0.5
MANY, FEW = 10_000_000, 10_000
"""Throughput with so many groups, in times of that with so few."""
OF_LIMIT = 0.12
"""Of the limit's throughput with so many groups, one for each row of an epoch."""
LIMIT = "one-shot DuckDB"
HOT = 10_000
"""Groups that an epoch changes where the view has them already."""


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement: what it is called and what differs."""

    label: str
    at: float
    """What is varied, as a number."""
    clicks: Clicks
    settings: tuple[tuple[str, Any], ...]


def points(plan: Plan) -> dict[str, list[Point]]:
    """What is varied, and through which values."""
    some = plan.fewer_clicks
    loaded = Clicks(max(1, plan.clicks.files // 2), plan.clicks.rows_per_file)
    found = {
        WORST: [Point(f"{groups:,} groups", groups, plan.clicks, (("groups", groups),)) for groups in plan.groups],
        KEPT: [
            Point(
                f"{groups:,} groups",
                groups,
                Clicks(plan.clicks.files, plan.clicks.rows_per_file, first=loaded.rows, hot=HOT),
                (("groups", groups), ("load", loaded)),
            )
            for groups in plan.groups
            if groups >= HOT
        ],
        "disorder": [
            Point(
                f"up to {seconds} s behind" if seconds else "in order",
                seconds,
                Clicks(some.files, some.rows_per_file, disorder_us=max(1, seconds * 1_000_000)),
                (("window_seconds", 10), ("slack_seconds", max(1, seconds))),
            )
            for seconds in (0, 1, 10, 60)
        ],
        "log partitions": [
            Point(f"{count} partitions" if count > 1 else "1 partition", count, some, (("partitions", count),))
            for count in (1, 2, 4, 16)
        ],
        "epoch size": [
            Point(f"epochs of {rows:,} rows", rows, some, (("partitions", 1), ("epoch_rows", rows)))
            for rows in (10_000, 100_000, 1_000_000)
        ],
        "window size": [
            Point(f"windows of {seconds:,} s", seconds, some, (("window_seconds", seconds),))
            for seconds in (1, 10, 60, 600)
        ],
    }
    if plan.quick:
        # The ends of each range: enough to see that it runs.
        return {what: [values[0], values[-1]] for what, values in found.items()}
    return found


def measure(plan: Plan) -> list[Section]:
    return [_measure(plan, what, values) for what, values in points(plan).items()]


def _measure(plan: Plan, what: str, values: list[Point]) -> Section:
    runs: dict[Point, list[Run]] = {}
    limits: dict[Point, list[Run]] = {}
    # What has no target is there for its shape, and that one run shows.
    for turn in range(plan.runs if what in JUDGED else 1):
        for point in values:
            plan.say(f"growth, {what}: {point.label}, run {turn + 1}")
            runs.setdefault(point, []).append(_run("growth", point, verify=turn == 0))
            if what == WORST:
                plan.say(f"growth, {what}: {LIMIT}, {point.label}, run {turn + 1}")
                limits.setdefault(point, []).append(_run("growth_once", point, verify=turn == 0))
    section = Section("growth", f"growth {what}", f"{what}, {values[0].clicks.rows:,} clicks")
    section.figures = [_figure("millstream", point.label, point, done) for point, done in runs.items()]
    section.figures += [_figure("duckdb_once", f"{LIMIT}: {point.label}", point, limits[point]) for point in limits]
    speeds = {figure.label: figure.value for figure in section.figures}
    section.targets = targets(what, speeds) if what in JUDGED else []
    section.checks = [_check(section.name, point, done + limits.get(point, [])) for point, done in runs.items()]
    section.notes = {
        point.label: [
            {"epochs": one.answer.notes["epochs"], "store_bytes": one.answer.notes["store_bytes"]} for one in done
        ]
        for point, done in runs.items()
    }
    return section


def _figure(contender: str, label: str, point: Point, runs: list[Run]) -> Figure:
    each = tuple(point.clicks.rows / one.answer.seconds for one in runs)
    peak, is_limit = max(one.peak_bytes for one in runs), contender != "millstream"
    return Figure(contender, label, max(each), "events/s", each, is_limit, peak_bytes=peak, at=point.at)


def _run(peer: str, point: Point, *, verify: bool) -> Run:
    clicks = point.clicks
    # Other clicks: those that would come next.
    warm_up = Clicks(2, min(clicks.rows_per_file, 500_000), clicks.disorder_us, first=clicks.rows)
    path, warm_up_path = (str(prepare(one)) for one in (clicks, warm_up))
    settings = json.dumps({name: _plain(value) for name, value in point.settings})
    return run(peer, Job("growth", "clicks", path, warm_up_path, "", verify=verify, settings=settings))


def _plain(value: Any) -> Any:
    return str(prepare(value)) if isinstance(value, Clicks) else value


def targets(what: str, speeds: Mapping[str, float]) -> list[Target]:
    """Only if both ends were measured."""
    many, few = f"{MANY:,} groups", f"{FEW:,} groups"
    if many not in speeds or few not in speeds:
        return []
    falls = speeds[many] / speeds[few]
    if what == KEPT:
        label = f"throughput with {many} in the view, {HOT:,} of them in an epoch: times that with {few}"
        return [Target(label, ">=", AT_LEAST, falls, "x")]
    limits = [speeds.get(f"{LIMIT}: {groups}") for groups in (many, few)]
    kept = _ratio(*limits)
    beside = "" if kept is None else f" (of a {LIMIT}'s own: {kept:.2f} x)"
    label = f"throughput with {many}, one for each row of an epoch"
    return [
        Target(f"{label}: times a {LIMIT}", ">=", OF_LIMIT, _ratio(speeds[many], limits[0]), "x"),
        Target(f"{label}: times that with {few}{beside}", ">=", AT_LEAST, falls, "x", aim=True),
    ]


def _ratio(value: float | None, of: float | None) -> float | None:
    return None if value is None or of is None else value / of


def _check(name: str, point: Point, runs: list[Run]) -> Check:
    digests = [done.answer.digest for done in runs if done.answer.digest is not None]
    return compared(f"{name}: {point.label}", runs[0].answer.notes["truth"], digests)
