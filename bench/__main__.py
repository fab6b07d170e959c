"""`python -m bench`: prepare the inputs, measure the workloads, report.

A run of the whole input writes its report into `docs/`, one of another size never does.
Ends with 1 if a contender fails, a result is wrong or, in a full run, a target is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from bench import archive, machine, page, report
from bench.catalog import WORKLOADS
from bench.data import Bids
from bench.growth_data import Clicks
from bench.nexmark.data import Events
from bench.nexmark.truth import QUERIES
from bench.outcome import Measured, Section, Size
from bench.plan import FULL_GROUPS, FULL_STATES, Plan
from bench.runner import RunFailedError

RESULTS = Path(__file__).parent / "results"
QUICK = ("W1", "W3", "queries")
"""What a quick run does unless it is told otherwise: what says most in three minutes."""
QUICK_QUERIES = ("q1", "q5", "q17")


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure Millstream against native Structured Streaming and Flink on this machine.",
        epilog=". ".join(f"{name}: {workload.about}" for name, workload in WORKLOADS.items()) + ".",
    )
    parser.add_argument("--quick", action="store_true", help="small inputs, one run each: figures for orientation only")
    parser.add_argument("--only", action="append", choices=list(WORKLOADS), help="one workload; may be repeated")
    parser.add_argument("--rows", type=int, metavar="N", help="another number of bids or events, in as many files")
    parser.add_argument("--runs", type=int, metavar="N", help="another number of runs, of which the best counts")
    parser.add_argument("--seconds", type=int, metavar="N", help="how long each rate of `latency` is measured")
    parser.add_argument("--query", action="append", choices=list(QUERIES), help="one query of nexmark; may be repeated")
    parser.add_argument(
        "--no-install",
        action="store_true",
        help="leave out contenders that are not installed, instead of installing them",
    )
    parser.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        help="where the report is written, instead of docs/ for the whole input and bench/results for any other",
    )
    return parser.parse_args(argv)


def make_plan(options: argparse.Namespace, say: Callable[[str], None]) -> Plan:
    quick, asked = options.quick, options.rows
    files = 2 if quick else 10
    rows = asked or files * (100_000 if quick else 1_000_000)
    query_rows = asked or (100_000 if quick else 2_000_000)
    click_rows = asked or (400_000 if quick else 20_000_000)
    return Plan(
        quick=quick,
        bids=Bids(files, max(1, rows // files)),
        runs=options.runs or 1,
        tumbling_formats=("parquet",) if quick else ("parquet", "csv"),
        hopping_formats=("parquet",) if quick else ("parquet", "csv"),
        warm_up_epochs=8 if quick else 30,
        measured_epochs=12 if quick else 50,
        say=say,
        events=Events(asked or (100_000 if quick else 2_000_000)),
        queries=tuple(options.query) if options.query else (QUICK_QUERIES if quick else None),
        install=not quick and not options.no_install,
        state_events=asked or (500_000 if quick else 20_000_000),
        rates=(10_000,) if quick else (1_000, 10_000, 100_000),
        rate_seconds=options.seconds or (5 if quick else 20),
        query_bids=Bids(4, max(1, query_rows // 4)),
        query_counts=(1, 10) if quick else (1, 10, 100, 1_000),
        native_query_counts=() if quick else (1, 10, 100),
        clicks=Clicks(max(2, click_rows // 1_000_000), click_rows // max(2, click_rows // 1_000_000)),
        groups=tuple(groups for groups in FULL_GROUPS if groups <= click_rows),
        states=tuple(groups for groups in FULL_STATES if groups <= click_rows // 4),
    )


def size(options: argparse.Namespace) -> Size:
    """Whether it is the whole benchmark, the quick one, or one with inputs of another size."""
    if options.quick:
        return "quick"
    return "other" if options.rows or options.seconds or options.query else "full"


def place(options: argparse.Namespace) -> page.Place:
    """Only figures of the whole input go into the documents."""
    if options.results is not None:
        return page.in_folder(options.results)
    return page.DOCS if size(options) == "full" else page.in_folder(RESULTS)


def runs_of(options: argparse.Namespace, names: Sequence[str]) -> dict[str, int]:
    return {name: options.runs or (WORKLOADS[name].runs if size(options) == "full" else 1) for name in names}


def measure(name: str, plan: Plan, about: dict[str, str], load: float, kind: Size) -> list[Section]:
    """The sections of a workload, each with what it was measured on."""
    began_at, began = datetime.now(UTC), time.monotonic()
    before = machine.tree()
    sections = WORKLOADS[name].measure(plan)
    after = machine.tree()
    measured = Measured(
        at=began_at.isoformat(timespec="seconds"),
        commit=before[0],
        dirty=before[1] or after != before,
        machine=about,
        load=load,
        runs=plan.runs,
        size=kind,
        input=WORKLOADS[name].reads(plan),
        seconds=round(time.monotonic() - began, 1),
    )
    return [replace(section, measured=measured) for section in sections]


def remaining(expected: dict[str, float], names: Sequence[str]) -> str:
    """What is left, by the last time."""
    known = sum(expected.get(name, 0.0) for name in names)
    unknown = [name for name in names if name not in expected]
    if not known:
        return "no earlier run tells how long it takes"
    others = f", and {', '.join(unknown)}" if unknown else ""
    return f"some {max(1, round(known / 60))} minutes left, as last time{others}"


def main(argv: Sequence[str]) -> int:
    options = arguments(argv)
    console = Console()
    began = time.monotonic()

    def say(what: str) -> None:
        console.print(f"{time.monotonic() - began:6.0f} s  {what}", style="dim", highlight=False)

    where, kind = place(options), size(options)
    try:
        where.check()
    except (archive.UnreadableError, page.UnmarkedError) as error:
        console.print(str(error), markup=False, highlight=False)
        return 1
    plan, about, load = make_plan(options, say), machine.describe(), machine.load()
    # In the order of the catalogue, each once, however they were asked for.
    asked = options.only or (QUICK if options.quick else tuple(WORKLOADS))
    names = [name for name in WORKLOADS if name in asked]
    runs = runs_of(options, names)
    expected = archive.expected_seconds(archive.load(where.figures), runs, kind)
    sections: list[Section] = []
    written: list[Path] = []
    failed = False
    for number, name in enumerate(names):
        say(f"{name}: {WORKLOADS[name].reads(plan)}, best of {runs[name]}; {remaining(expected, names[number:])}")
        try:
            found = measure(name, replace(plan, runs=runs[name]), about, load, kind)
        except RunFailedError as failure:
            failed = True
            console.print(str(failure), markup=False, highlight=False)
            continue
        sections += found
        # After every workload: what was measured is kept, whatever becomes of the next.
        written = page.publish(where, found)
    if not sections:
        return 1
    report.show(console, sections, about, f"{time.monotonic() - began:.0f} s altogether")
    console.print("written: " + ", ".join(str(path) for path in written), style="dim", highlight=False)
    correct = all(check.ok for section in sections for check in section.checks)
    met = kind != "full" or not any(target.missed for section in sections for target in section.targets)
    return 0 if correct and met and not failed else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
