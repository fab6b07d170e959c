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
from bench.growth_data import Clicks
from bench.machine import describe
from bench.nexmark.data import Events
from bench.nexmark.truth import QUERIES
from bench.outcome import Section
from bench.plan import FULL_GROUPS, FULL_STATES, Plan
from bench.runner import RunFailedError
from bench.workloads import (
    backfill,
    growth,
    hopping,
    latency,
    nexmark,
    recovery,
    small_epochs,
    standing_queries,
    state,
    tumbling,
)

RESULTS = Path(__file__).parent / "results"
WORKLOADS: dict[str, Callable[[Plan], list[Section]]] = {
    "W1": tumbling.measure,
    "W2": hopping.measure,
    "W3": small_epochs.measure,
    "W4": backfill.measure,
    "nexmark": nexmark.measure,
    "state": state.measure,
    "latency": latency.measure,
    "queries": standing_queries.measure,
    "growth": growth.measure,
    "recovery": recovery.measure,
}
QUICK = ("W1", "W3", "queries")
"""What a quick run does unless it is told otherwise: what says most in three minutes."""
QUICK_QUERIES = ("q1", "q5", "q17")


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure Millstream against native Structured Streaming and Flink on this machine.",
        epilog="W1: tumbling windows. W2: hopping windows. W3: small epochs. W4: a backfill beside live rows. nexmark: "
        "the queries of the Nexmark benchmark. state: whether memory and store stay bounded. latency: from insert to "
        "visible. queries: many standing queries. growth: throughput as state, disorder, partitions, epochs and "
        "windows grow. recovery: from a kill to the next commit.",
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
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where the report is written")
    return parser.parse_args(argv)


def make_plan(options: argparse.Namespace, say: Callable[[str], None]) -> Plan:
    quick, asked = options.quick, options.rows
    files = 2 if quick else 10
    rows = asked or files * (250_000 if quick else 1_000_000)
    query_rows = asked or (200_000 if quick else 2_000_000)
    click_rows = asked or (400_000 if quick else 20_000_000)
    return Plan(
        quick=quick,
        bids=Bids(files, max(1, rows // files)),
        runs=options.runs or (1 if quick else 2),
        tumbling_formats=("parquet",) if quick else ("parquet", "csv"),
        hopping_formats=("parquet",) if quick else ("parquet", "csv"),
        warm_up_epochs=10 if quick else 30,
        measured_epochs=15 if quick else 50,
        say=say,
        events=Events(asked or (100_000 if quick else 2_000_000)),
        queries=tuple(options.query) if options.query else (QUICK_QUERIES if quick else None),
        install=not quick and not options.no_install,
        state_events=asked or (500_000 if quick else 20_000_000),
        rates=(10_000,) if quick else (1_000, 10_000, 100_000),
        rate_seconds=options.seconds or (5 if quick else 20),
        query_bids=Bids(4, max(1, query_rows // 4)),
        query_counts=(1, 10) if quick else (1, 10, 100, 1_000),
        native_query_counts=(1,) if quick else (1, 10, 100),
        clicks=Clicks(max(2, click_rows // 1_000_000), click_rows // max(2, click_rows // 1_000_000)),
        groups=tuple(groups for groups in FULL_GROUPS if groups <= click_rows),
        states=tuple(groups for groups in FULL_STATES if groups <= click_rows // 4),
    )


def sizes(plan: Plan, names: Sequence[str]) -> str:
    """What the chosen workloads read."""
    rates = ", ".join(f"{rate:,}" for rate in plan.rates)
    read = {
        "nexmark": f"{plan.events.events:,} events of Nexmark",
        "state": f"{plan.state_events:,} orders and payments",
        "latency": f"{rates} events/s for {plan.rate_seconds} s each",
        "queries": f"{plan.query_bids.rows:,} bids for standing queries",
        "growth": f"{plan.clicks.rows:,} clicks",
        "recovery": f"{plan.recovery_clicks.rows:,} clicks around a kill",
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
        "query_bids": plan.query_bids.rows,
        "clicks": plan.clicks.rows,
        "rates": plan.rates,
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
