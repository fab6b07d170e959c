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

from bench import report
from bench.data import Bids
from bench.machine import describe
from bench.outcome import Section
from bench.plan import Plan
from bench.runner import RunFailedError
from bench.workloads import backfill, hopping, small_epochs, tumbling

RESULTS = Path(__file__).parent / "results"
WORKLOADS: dict[str, Callable[[Plan], list[Section]]] = {
    "W1": tumbling.measure,
    "W2": hopping.measure,
    "W3": small_epochs.measure,
    "W4": backfill.measure,
}


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure Millstream against native Structured Streaming on this machine.",
        epilog="W1: tumbling windows. W2: hopping windows. W3: small epochs. W4: a backfill beside live rows.",
    )
    parser.add_argument("--quick", action="store_true", help="2 M bids, one run each: figures for orientation only")
    parser.add_argument("--only", action="append", choices=list(WORKLOADS), help="one workload; may be repeated")
    parser.add_argument("--rows", type=int, metavar="N", help="another number of bids, in as many files")
    parser.add_argument("--runs", type=int, metavar="N", help="another number of runs, of which the best counts")
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
    )


def main(argv: Sequence[str]) -> int:
    options = arguments(argv)
    console = Console()
    began = time.monotonic()

    def say(what: str) -> None:
        console.print(f"{time.monotonic() - began:6.0f} s  {what}", style="dim", highlight=False)

    plan = make_plan(options, say)
    machine = describe()
    say(f"{plan.bids.rows:,} bids in {plan.bids.files} files, best of {plan.runs}")
    sections: list[Section] = []
    failed = False
    for name in options.only or WORKLOADS:
        try:
            sections += WORKLOADS[name](plan)
        except RunFailedError as failure:
            failed = True
            console.print(str(failure), markup=False, highlight=False)
    if not sections:
        return 1
    took = f"{plan.bids.rows:,} bids, best of {plan.runs}, {time.monotonic() - began:.0f} s altogether"
    report.show(console, sections, machine, took)
    about = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": options.quick,
        "bids": plan.bids.rows,
        "runs": plan.runs,
    }
    latest = options.results / "latest.json"
    report.write_json(latest, sections, machine, about)
    written = report.plot(options.results / "latest.png", sections, machine)
    console.print("written: " + ", ".join(str(path) for path in (latest, *written)), style="dim", highlight=False)
    correct = all(check.ok for section in sections for check in section.checks)
    met = options.quick or all(target.met for section in sections for target in section.targets)
    return 0 if correct and met and not failed else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
