"""W1: bids per auction in tumbling windows of ten seconds (count, sum, max), epochs of one file."""

from __future__ import annotations

from bench.outcome import Section, Target
from bench.plan import Plan
from bench.workloads.throughput import race

AT_LEAST = {
    "parquet": {"native": 2.0, "duckdb_once": 0.12},
    "csv": {"native": 5.0, "flink_heap": 2.5, "flink_rocksdb": 3.5},
}
AT_MOST_GIB = 3.0


def measure(plan: Plan) -> list[Section]:
    sections = []
    for format_ in plan.tumbling_formats:
        section, ours = race(plan, "W1", "tumbling 10 s count, sum, max", "tumbling", format_, AT_LEAST[format_])
        peak = max(done.peak_bytes for done in ours) / 2**30
        section.targets.append(Target(f"peak memory of the process tree, {format_}", "<=", AT_MOST_GIB, peak, "GiB"))
        sections.append(section)
    return sections
