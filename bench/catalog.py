"""The workloads: what each is called, what it reads, how often it is run, and the function that measures it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.outcome import Section
from bench.plan import Plan
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


@dataclass(frozen=True, slots=True)
class Workload:
    about: str
    measure: Callable[[Plan], list[Section]]
    reads: Callable[[Plan], str]
    runs: int = 3
    """Of a full run; the best counts."""
    remark: str = ""
    """Why fewer runs are enough, here or for some of it."""


def _bids(plan: Plan) -> str:
    return f"{plan.bids.rows:,} bids in {plan.bids.files} files"


def _rates(plan: Plan) -> str:
    return f"{', '.join(f'{rate:,}' for rate in plan.rates)} events/s for {plan.rate_seconds} s each"


ONCE = "limits and other settings, which are for orientation, once"

WORKLOADS: dict[str, Workload] = {
    "W1": Workload("tumbling windows", tumbling.measure, _bids, remark=ONCE),
    "W2": Workload("hopping windows", hopping.measure, _bids, remark=ONCE),
    "W3": Workload("small epochs", small_epochs.measure, lambda plan: f"{plan.small.rows:,} bids"),
    "W4": Workload(
        "a backfill beside live rows",
        backfill.measure,
        lambda plan: f"{plan.bids.rows // 2:,} retained bids",
        runs=1,
        remark="a run is the median of hundreds of batches",
    ),
    "nexmark": Workload(
        "the queries of Nexmark",
        nexmark.measure,
        lambda plan: f"{plan.events.events:,} events",
        runs=2,
        remark="what is asked of it is over all queries; limits, which are for orientation, once",
    ),
    "state": Workload(
        "whether memory and store stay bounded",
        state.measure,
        lambda plan: f"{plan.state_events:,} orders and payments",
        runs=1,
        remark="a run is 150 slices",
    ),
    "latency": Workload(
        "from insert to visible",
        latency.measure,
        _rates,
        runs=1,
        remark="a run is fifty batches a second",
    ),
    "queries": Workload(
        "many standing queries",
        standing_queries.measure,
        lambda plan: f"{plan.query_bids.rows:,} bids",
        remark="a hundred of native's once",
    ),
    "growth": Workload(
        "throughput as one thing grows",
        growth.measure,
        lambda plan: f"{plan.clicks.rows:,} clicks",
        remark="all but the number of groups once",
    ),
    "recovery": Workload(
        "from a kill to the next commit",
        recovery.measure,
        lambda plan: f"{plan.recovery_clicks.rows:,} clicks",
    ),
}
