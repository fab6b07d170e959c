"""`python -m bench.soak`: does memory or disk grow while everything is bounded by retention?

Runs the load of `soak_load.py` on a fresh database and samples the processes and the directory. A CSV and a plot go
into `docs/benchmarks` after ten minutes or more, into `bench/results` after a shorter run. Ends with 1 if a series has
a trend after the warm-up, or if the load failed.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession

import millstream as ms
from bench.soak_load import Load
from bench.soak_plot import draw

FULL_MINUTES = 10.0
_RESULTS = Path(__file__).parent / "results"
_DOCS = Path(__file__).parents[1] / "docs" / "benchmarks"
# The heap has its full size from the beginning: whatever the JVM grows by is something else.
_HEAP = "768m"
_SPARK = ms.SparkSettings(
    driver_memory=_HEAP, conf={"spark.driver.extraJavaOptions": f"-Xms{_HEAP} -XX:+AlwaysPreTouch"}
)
# The first part of a run fills caches, compiles, and lasts until retention first removes something.
_WARM_UP = 0.4
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Series:
    """A quantity that is sampled, and by how much it may grow from one half of the run to the other."""

    name: str
    unit: str
    share: float
    """Of its first value."""
    slack: float
    """Of the unit, in addition."""


SERIES = (
    Series("python", "MiB", 0.06, 20),
    Series("jvm", "MiB", 0.06, 20),
    Series("heap", "MiB", 0.10, 15),
    Series("workers", "MiB", 0.06, 20),
    Series("threads", "", 0.0, 4),
    Series("files", "", 0.05, 10),
    Series("store", "MiB", 0.10, 6),
    Series("wal", "MiB", 0.25, 12),
    Series("log", "MiB", 0.15, 6),
    Series("other", "MiB", 0.10, 2),
)
Sample = dict[str, float]


class Sampler:
    """Looks at this process, those below it, and a data directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._own = psutil.Process()
        self._began = time.monotonic()

    def sample(self) -> Sample:
        java, workers = 0.0, 0.0
        for child in self._own.children(recursive=True):
            try:
                size = child.memory_info().rss / _MIB
                java, workers = (java + size, workers) if child.name() == "java" else (java, workers + size)
            except psutil.NoSuchProcess:
                continue
        return {
            "seconds": round(time.monotonic() - self._began, 1),
            "python": self._own.memory_info().rss / _MIB,
            "jvm": java,
            "heap": _live_heap(),
            "workers": workers,
            "threads": self._own.num_threads(),
            "files": self._own.num_fds(),
            **self._disk(),
        }

    def _disk(self) -> dict[str, float]:
        found = dict.fromkeys(("store", "wal", "log", "other"), 0.0)
        for path, _, names in os.walk(self._directory):
            for name in names:
                kind = "other"
                if name.endswith(".wal"):
                    kind = "wal"
                elif ".duckdb" in name:
                    kind = "store"
                elif Path(path).is_relative_to(self._directory / "log"):
                    kind = "log"
                try:
                    found[kind] += os.stat(os.path.join(path, name)).st_size / _MIB
                except FileNotFoundError:
                    continue
        return found


def _live_heap() -> float:
    """What the JVM holds after a collection."""
    session = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if session is None:
        return 0.0
    jvm: Any = session._jvm
    jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / _MIB


def trends(samples: Sequence[Sample]) -> list[str]:
    """The series that grew between the halves of a run, by their medians after the warm-up, in words."""
    steady = samples[int(len(samples) * _WARM_UP) :]
    middle = len(steady) // 2
    found = []
    for series in SERIES:
        before, after = (
            statistics.median(sample[series.name] for sample in half) for half in (steady[:middle], steady[middle:])
        )
        if after - before > before * series.share + series.slack:
            found.append(f"{series.name} grew from {before:.1f} to {after:.1f} {series.unit}".rstrip())
    return found


def run(minutes: float, every: float, rate: int) -> tuple[list[Sample], list[BaseException], int]:
    """The samples of a run, the errors of its load, and the rows that it sent."""
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory(prefix="soak-") as base:
        directory = Path(base) / "db"
        with ms.connect(directory, spark=_SPARK) as db:
            load = Load(db, rate)
            load.start()
            sampler = Sampler(directory)
            end = time.monotonic() + minutes * 60
            while time.monotonic() < end and not load.errors:
                time.sleep(every)
                samples.append(sampler.sample())
                _show(samples[-1])
            load.stop()
        return samples, load.errors, load.rows


def _show(sample: Sample) -> None:
    values = (f"{series.name} {sample[series.name]:.0f}" for series in SERIES)
    print(f"{sample['seconds']:6.0f} s  " + "  ".join(values), file=sys.stderr)


def write(samples: Sequence[Sample], directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "soak.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(samples[0])
        writer.writerows([f"{value:.1f}" for value in sample.values()] for sample in samples)
    draw(samples, directory / "soak.svg")


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=FULL_MINUTES, metavar="N", help="how long (default: 10)")
    parser.add_argument("--every", type=float, default=3.0, metavar="S", help="seconds between samples (default: 3)")
    parser.add_argument("--rate", type=int, default=2_000, metavar="N", help="bids per second (default: 2000)")
    parser.add_argument("--results", type=Path, metavar="DIR", help="where the CSV and the plot are written")
    given = parser.parse_args(argv)
    samples, errors, rows = run(given.minutes, given.every, given.rate)
    if samples:
        write(samples, given.results or (_DOCS if given.minutes >= FULL_MINUTES else _RESULTS))
    print(f"{rows} bids in {given.minutes:g} minutes")
    for error in errors:
        print(f"the load failed: {error}")
    # Samples of less than a few minutes are all warm-up.
    growing = trends(samples) if len(samples) >= 20 else []
    for words in growing:
        print(words)
    if not growing and not errors:
        print("nothing grows")
    return 1 if growing or errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
