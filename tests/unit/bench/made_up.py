"""Sections as every workload makes them, with figures that nobody measured."""

from __future__ import annotations

from dataclasses import replace

from bench.grid import Grid, QueryTimes
from bench.outcome import Check, Figure, Measured, Section, Target, Trace

MEASURED = Measured(
    at="2026-05-01T10:00:00+00:00",
    commit="abc1234",
    dirty=False,
    machine={"processor": "Abacus", "cores": "2", "pyspark": "4"},
    load=0.1,
    runs=3,
    size="full",
    input="1,000 bids",
    seconds=600.0,
)
LABELS = {
    "millstream": "Millstream: durable view",
    "millstream_own": "Millstream: epochs of its own choice",
    "native": "Structured Streaming: RocksDB, no-op sink",
    "native_tuned": "Structured Streaming: the same, tuned",
    "flink_heap": "Flink: heap state, no checkpoints",
    "flink_rocksdb": "Flink: RocksDB, 5 s checkpoints",
    "duckdb_once": "one-shot DuckDB",
    "polars_once": "one-shot Polars",
}
SPEEDS = {
    "millstream": 2.9e6,
    "millstream_own": 3.6e6,
    "native": 0.7e6,
    "flink_heap": 1.2e6,
    "flink_rocksdb": 0.74e6,
    "native_tuned": 0.8e6,
    "duckdb_once": 28e6,
}
OPEN = "database open"


def runs(value: float) -> tuple[float, ...]:
    """Three of them, of which the best is `value`, if much is good."""
    return (value * 0.9, value, value * 0.95)


def throughput(workload: str, format_: str, found: float = 2.5) -> Section:
    figures = [
        Figure(name, LABELS[name], speed, "events/s", runs(speed), name in ("native_tuned", "duckdb_once"), 2**30)
        for name, speed in SPEEDS.items()
    ]
    target = Target(f"from {format_}: times native", ">=", 2.0, found, "x")
    section = Section(workload, f"{workload} {format_}", f"windows, from {format_}", figures, [target])
    section.checks = [Check("rows", True, "")]
    return replace(section, measured=MEASURED)


def small_epochs() -> Section:
    figures = [
        Figure("millstream", "Millstream: insert to committed", 54.0, "ms", (54.0, 60.0)),
        Figure("native", "Structured Streaming: trigger", 262.0, "ms", (280.0, 262.0)),
    ]
    return Section("W3", "W3", "small epochs", figures, measured=MEASURED)


def backfill() -> Section:
    figures = [
        Figure("millstream", "live latency before, median", 46.0, "ms", (46.0,)),
        Figure("millstream", "live latency during, median", 73.0, "ms", (73.0,)),
        Figure("millstream", "the backfill itself", 3000.0, "ms", (3000.0,), reference=True),
    ]
    return Section("W4", "W4", "a view over retained bids", figures, measured=replace(MEASURED, runs=1))


def nexmark() -> Section:
    rows = [
        QueryTimes(
            f"q{number}",
            {
                "millstream": (1.1, 1.0),
                "flink_heap": (1.2 + number % 4, 1.3 + number % 4),
                "flink_rocksdb": (1.5 + number % 7,),
                "native": (2.0 + number,),
                "duckdb_once": (0.1 + 0.1 * number,),
            },
            peak_bytes=dict.fromkeys(("millstream", "native"), 2**30),
        )
        for number in range(4)
    ]
    rows += [
        QueryTimes("q4", {"millstream": (1.0,), "native": ()}, {"native": "cannot express it: two | aggregations"}),
        QueryTimes("q5", {"millstream": (), "native": (1.0,)}, {"millstream": "failed: out of\nmemory"}),
    ]
    rivals = ("flink_heap", "flink_rocksdb", "native")
    absent = dict.fromkeys((*rivals, "duckdb_once"), "cannot express it: not tried")
    rows[-2:] = [replace(row, absent={**absent, **row.absent}) for row in rows[-2:]]
    skipped = {"flink_heap": "not installed", "polars_once": "not installed"}
    grid = Grid(1_000_000, "millstream", rivals, LABELS, tuple(rows), skipped, ("duckdb_once",))
    targets = [Target("the worst: times Flink", ">=", 1.0, None, "x")]
    checks = [Check("q5: Ours", False, "out of\nmemory")]
    notes = {"unchecked": ["q0, Native: not checked"]}
    return Section("nexmark", "nexmark", "Nexmark", [], targets, checks, grid, notes=notes, measured=MEASURED)


def state(question: str = "sessions") -> Section:
    traces = [
        Trace("resident memory of the process tree", "MiB", (1000.0, 1600.0, 1700.0, 1700.0, 1710.0, 1700.0)),
        Trace("store file", "MiB", (10.0, 20.0, 20.0, 20.0, 30.0, 30.0)),
        Trace("written to the store per slice", "MiB", (1.0, 2.0, 2.0, 2.0, 3.0, 3.0)),
    ]
    notes = {"bounds": ["state: rows up to 10 seconds"]}
    return Section(
        "state", f"state {question}", f"state of {question}, 20 M", traces=traces, notes=notes, measured=MEASURED
    )


def latency(rate: int) -> Section:
    labels = {"millstream": "Millstream: insert to visible", "native": "Structured Streaming: default settings"}
    figures = [
        Figure(name, f"{label}, {part}", value, "ms", (value * 1.2, value), part=part, at=rate)
        for name, label, base in (("millstream", labels["millstream"], 250.0), ("native", labels["native"], 3000.0))
        for part, value in (("p50", base), ("p95", base * 1.3), ("p99", base * 1.4))
    ]
    targets = [
        Target("p50: share of native's", "<=", 0.35, 0.08, "x"),
        Target("p50", "<=", 100.0, 250.0, "ms", aim=True),
    ]
    section = Section("latency", f"latency {rate}", f"insert to visible in 10 views, {rate:,} events/s", figures)
    section.targets = targets if rate == 10_000 else []
    return replace(section, measured=MEASURED)


def queries() -> Section:
    seconds = {("millstream", 1): 0.65, ("millstream", 10): 0.9, ("millstream", 100): 2.5, ("millstream", 1000): 12.9}
    seconds |= {("native", 1): 2.8, ("native", 10): 14.0, ("native", 100): 138.0}
    figures = [
        Figure(name, f"{LABELS[name].partition(':')[0]}: {count:,} queries", value, "s", (value, value * 1.1), at=count)
        for (name, count), value in seconds.items()
    ]
    return Section("queries", "queries", "standing queries over 2,000,000 bids", figures, measured=MEASURED)


def growth(what: str, speeds: dict[float, float]) -> Section:
    figures = [
        Figure("millstream", f"{at:,} {what}", speed, "events/s", runs(speed), at=at) for at, speed in speeds.items()
    ]
    return Section("growth", f"growth {what}", f"{what}, 20,000,000 clicks", figures, measured=MEASURED)


def recovery() -> Section:
    figures = [
        Figure(
            "millstream", f"{groups:,} groups: {part}", value, "s", (value, value + 0.4), part == OPEN, 0, part, groups
        )
        for groups, seconds in ((10_000, 8.0), (1_000_000, 8.5), (5_000_000, 9.1))
        for part, value in (("first commit", seconds), (OPEN, seconds - 3))
    ]
    return Section("recovery", "recovery", "recovery after a kill", figures, measured=MEASURED)


def everything() -> list[Section]:
    """Of every workload, in the order of the catalogue."""
    return [
        throughput("W1", "parquet"),
        throughput("W1", "csv", found=1.9),
        throughput("W2", "csv"),
        small_epochs(),
        backfill(),
        nexmark(),
        state("interval join"),
        state("sessions"),
        *(latency(rate) for rate in (1_000, 10_000, 100_000)),
        queries(),
        growth("groups", {1e3: 6e6, 1e4: 5.5e6, 1e5: 5e6, 1e6: 3e6, 1e7: 1.3e6}),
        growth("disorder", {0: 5e6, 1: 4.9e6, 10: 4.8e6, 60: 4.4e6}),
        growth("log partitions", {1: 4e6, 2: 5e6, 4: 5e6, 16: 4.5e6}),
        growth("epoch size", {1e4: 0.12e6, 1e5: 0.7e6, 1e6: 4.6e6}),
        growth("window size", {1: 3e6, 10: 4e6, 60: 4.4e6, 600: 4.5e6}),
        recovery(),
    ]
