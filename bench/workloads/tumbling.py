"""W1: bids per auction in tumbling windows of ten seconds, epochs of one file and of our own choice."""

from __future__ import annotations

from bench.outcome import Section, Target
from bench.plan import Plan
from bench.workloads.throughput import EPOCHS, SPELT, race, targets

AT_LEAST = {
    "parquet": {"native": 2.0, "duckdb_once": 0.12},
    "csv": {"native": 5.0, "flink_heap": 2.5, "flink_rocksdb": 3.5},
}
BY_FILE_AT_LEAST = 2.0
"""Times native, if both take a file at a time."""
AT_MOST_GIB = 3.0


def measure(plan: Plan) -> list[Section]:
    sections = []
    for format_ in plan.tumbling_formats:
        section = race(plan, "W1", "tumbling 10 s count, sum, max", "tumbling", format_, AT_LEAST[format_])
        where = f"from {SPELT[format_]}"
        speeds = {figure.contender: figure.value for figure in section.figures}
        if speeds.pop("millstream_own", None) is not None:
            section.targets += targets(where, speeds, {"native": BY_FILE_AT_LEAST})
        peak = max(figure.peak_bytes for figure in section.figures if figure.contender in EPOCHS) / 2**30
        section.targets.append(
            Target(f"{where}: peak memory of the whole process tree", "<=", AT_MOST_GIB, peak, "GiB")
        )
        sections.append(section)
    return sections
