"""`python -m bench`: prepare the inputs, measure the workloads, report.

Ends with 1 if a contender fails, a result is wrong or, in a full run, a target is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from bench import plots, report
from bench.data import Bids
from bench.machine import describe
from bench.nexmark.data import Events
from bench.nexmark.truth import QUERIES
from bench.outcome import Section
from bench.plan import Plan
from bench.runner import RunFailedError
from bench.workloads import backfill, hopping, nexmark, small_epochs, state, tumbling

RESULTS = Path(__file__).parent / "results"
WORKLOADS: dict[str, Callable[[Plan], list[Section]]] = {
    "W1": tumbling.measure,
    "W2": hopping.measure,
    "W3": small_epochs.measure,
    "W4": backfill.measure,
    "nexmark": nexmark.measure,
    "state": state.measure,
}
QUICK = ("W1", "W2", "W3", "nexmark")
"""What a quick run does unless it is told otherwise: `state` needs a long input to say anything."""
QUICK_QUERIES = ("q1", "q5", "q17")


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure Millstream against native Structured Streaming and Flink on this machine.",
        epilog="W1: tumbling windows. W2: hopping windows. W3: small epochs. W4: a backfill beside live rows. nexmark: "
        "the queries of the Nexmark benchmark. state: whether memory and store stay bounded.",
    )
    parser.add_argument("--quick", action="store_true", help="small inputs, one run each: figures for orientation only")
    parser.add_argument("--only", action="append", choices=list(WORKLOADS), help="one workload; may be repeated")
    parser.add_argument("--rows", type=int, metavar="N", help="another number of bids or events, in as many files")
    parser.add_argument("--runs", type=int, metavar="N", help="another number of runs, of which the best counts")
    parser.add_argument("--query", action="append", choices=list(QUERIES), help="one query of nexmark; may be repeated")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where the report is written")
    return parser.parse_args(argv)


def make_plan(options: argparse.Namespace, say: Callable[[str], None]) -> Plan:
    files = 2 if options.quick else 10
    rows = options.rows or files * 1_000_000
    return Plan(
        bids=Bids(files, max(1, rows // files)),
        runs=options.runs or (1 if options.quick else 2),
        hopping_formats=("parquet",) if options.quick else ("parquet", "csv"),
        warm_up_epochs=15 if options.quick else 30,
        measured_epochs=25 if options.quick else 50,
        references=not options.quick,
        say=say,
        events=Events(options.rows or (100_000 if options.quick else 2_000_000)),
        queries=tuple(options.query) if options.query else (QUICK_QUERIES if options.quick else None),
        install_flink=not options.quick,
        state_events=options.rows or (500_000 if options.quick else 20_000_000),
    )


def sizes(plan: Plan, names: Sequence[str]) -> str:
    """What the chosen workloads read."""
    read = {
        "nexmark": f"{plan.events.events:,} events of Nexmark",
        "state": f"{plan.state_events:,} orders and payments",
    }
    bids = [f"{plan.bids.rows:,} bids in {plan.bids.files} files"] if any(name not in read for name in names) else []
    return ", ".join(bids + [text for name, text in read.items() if name in names])


def main(argv: Sequence[str]) -> int:
    options = arguments(argv)
    console = Console()
    began = time.monotonic()

    def say(what: str) -> None:
        console.print(f"{time.monotonic() - began:6.0f} s  {what}", style="dim", highlight=False)

    plan = make_plan(options, say)
    machine = describe()
    names = options.only or (QUICK if options.quick else tuple(WORKLOADS))
    say(f"{sizes(plan, names)}, best of {plan.runs}")
    sections: list[Section] = []
    failed = False
    for name in names:
        try:
            sections += WORKLOADS[name](plan)
        except RunFailedError as failure:
            failed = True
            console.print(str(failure), markup=False, highlight=False)
    if not sections:
        return 1
    took = f"{sizes(plan, names)}, best of {plan.runs}, {time.monotonic() - began:.0f} s altogether"
    report.show(console, sections, machine, took)
    about = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": options.quick,
        "bids": plan.bids.rows,
        "events": plan.events.events,
        "state_events": plan.state_events,
        "runs": plan.runs,
    }
    latest = options.results / "latest.json"
    report.write_json(latest, sections, machine, about)
    page = options.results / "latest.md"
    report.write_markdown(page, sections, machine, took)
    drawn = plots.plot(options.results / "latest.png", sections, machine)
    console.print("written: " + ", ".join(str(path) for path in (latest, page, *drawn)), style="dim", highlight=False)
    correct = all(check.ok for section in sections for check in section.checks)
    met = options.quick or all(target.met for section in sections for target in section.targets)
    return 0 if correct and met and not failed else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
