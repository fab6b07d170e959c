"""recovery: a process is killed in mid-run, and the next one goes on: the time from its start to its first commit.

Against the size of the state, since the store is the checkpoint: nothing is loaded, whatever the number of groups.
"""

from __future__ import annotations

from bench.growth_data import prepare
from bench.job import Job
from bench.outcome import Check, Figure, Section
from bench.plan import Plan
from bench.runner import Run, run
from bench.workloads.throughput import compared


def measure(plan: Plan) -> list[Section]:
    clicks = plan.recovery_clicks
    path = str(prepare(clicks))
    runs: dict[int, list[Run]] = {}
    for turn in range(plan.runs):
        for groups in plan.states:
            plan.say(f"recovery: {groups:,} groups, run {turn + 1}")
            # Killed after half of the files: by then there are as many groups as said.
            job = Job("recovery", f"{groups}", path, "", "", rows=groups, slices=clicks.files // 2)
            runs.setdefault(groups, []).append(run("recovery", job))
    section = Section(
        "recovery", "recovery", "recovery after a kill: from the start of the process to its first commit"
    )
    for groups, done in runs.items():
        peak = max(one.peak_bytes for one in done)
        for label, values, reference in (
            ("first commit", tuple(one.answer.seconds for one in done), False),
            ("database open", tuple(one.answer.notes["opened_seconds"] for one in done), True),
        ):
            text = f"{groups:,} groups: {label}"
            figure = Figure("millstream", text, min(values), "s", values, reference, peak, part=label, at=groups)
            section.figures.append(figure)
    section.checks = [check for groups, done in runs.items() for check in checks(groups, done)]
    section.notes = {
        f"{groups} groups": [{"store_bytes": one.answer.notes["store_bytes"]} for one in done]
        for groups, done in runs.items()
    }
    return [section]


def checks(groups: int, runs: list[Run]) -> list[Check]:
    """Every row once, and no epoch gone that was said to be committed."""
    what = f"recovery with {groups:,} groups"
    digests = [done.answer.digest or {} for done in runs]
    lost = [done for done in runs if done.answer.notes["epochs_found"] < done.answer.notes["epochs_told"]]
    detail = f"{runs[0].answer.notes['epochs_told']} were told, {runs[0].answer.notes['epochs_found']} were found"
    return [
        compared(f"{what}: every row once", runs[0].answer.notes["truth"], digests),
        Check(f"{what}: no committed epoch is gone", not lost, detail),
    ]
