"""growth: what throughput becomes as one thing grows: groups, disorder, partitions of the log, epochs, windows.

Clicks on ids that come back as late as possible (`growth_data.py`), one view, one thing varied at a time. No contender:
the point beside it is the measure.
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

AT_LEAST = 0.5
JUDGED = "groups"
MANY, FEW = 10_000_000, 10_000
"""Throughput with so many groups, in times of that with so few."""


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
    found = {
        "groups": [Point(f"{groups:,} groups", groups, plan.clicks, (("groups", groups),)) for groups in plan.groups],
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
    # What has no target is there for its shape, and that one run shows.
    for turn in range(plan.runs if what == JUDGED else 1):
        for point in values:
            plan.say(f"growth, {what}: {point.label}, run {turn + 1}")
            runs.setdefault(point, []).append(_run(point, verify=turn == 0))
    section = Section("growth", f"growth {what}", f"{what}, {values[0].clicks.rows:,} clicks")
    speeds: dict[str, float] = {}
    for point, done in runs.items():
        each = tuple(point.clicks.rows / one.answer.seconds for one in done)
        speeds[point.label] = max(each)
        peak = max(one.peak_bytes for one in done)
        figure = Figure("millstream", point.label, max(each), "events/s", each, peak_bytes=peak, at=point.at)
        section.figures.append(figure)
    section.targets = targets(speeds) if what == JUDGED else []
    section.checks = [_check(section.name, point, done) for point, done in runs.items()]
    section.notes = {
        point.label: [
            {"epochs": one.answer.notes["epochs"], "store_bytes": one.answer.notes["store_bytes"]} for one in done
        ]
        for point, done in runs.items()
    }
    return section


def _run(point: Point, *, verify: bool) -> Run:
    clicks = point.clicks
    # Other clicks: those that would come next.
    warm_up = Clicks(2, min(clicks.rows_per_file, 500_000), clicks.disorder_us, first=clicks.rows)
    path, warm_up_path = (str(prepare(one)) for one in (clicks, warm_up))
    settings = json.dumps(dict(point.settings))
    return run("growth", Job("growth", "clicks", path, warm_up_path, "", verify=verify, settings=settings))


def targets(speeds: Mapping[str, float]) -> list[Target]:
    """Only if both ends were measured."""
    many, few = f"{MANY:,} groups", f"{FEW:,} groups"
    if many not in speeds or few not in speeds:
        return []
    return [Target(f"throughput with {many}: times that with {few}", ">=", AT_LEAST, speeds[many] / speeds[few], "x")]


def _check(name: str, point: Point, runs: list[Run]) -> Check:
    digests = [done.answer.digest for done in runs if done.answer.digest is not None]
    return compared(f"{name}: {point.label}", runs[0].answer.notes["truth"], digests)
