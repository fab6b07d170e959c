"""W2: bids per auction in windows of ten seconds every two seconds (count), epochs of one file."""

from __future__ import annotations

from bench.outcome import Section
from bench.plan import Plan
from bench.workloads.throughput import race

AT_LEAST = {
    "parquet": {"native": 4.0},
    "csv": {"native": 4.0, "flink_heap": 2.0, "flink_rocksdb": 8.0},
}


def measure(plan: Plan) -> list[Section]:
    title = "hopping 10 s by 2 s count"
    return [race(plan, "W2", title, "hopping", format_, AT_LEAST[format_]) for format_ in plan.hopping_formats]
