"""The machine, the versions and the tree that is measured: what a figure is worthless without."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

import psutil

from bench import flink, polars
from bench.job import CORES, DRIVER_MEMORY

ROOT = Path(__file__).parents[1]
REPORT = ("docs/benchmarks.md", "docs/benchmarks")
"""What a run itself changes in the tree."""


def describe() -> dict[str, str]:
    return {
        "processor": _processor(),
        "cores": f"{os.cpu_count()} ({CORES} used by every contender)",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB ({DRIVER_MEMORY} of heap for every Spark)",
        "system": f"{platform.system()} {platform.release()}",
        "java": _java(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("pyspark", "duckdb", "pyarrow", "millstream")},
        "flink": flink.ENVIRONMENT.version(),
        "polars": polars.ENVIRONMENT.version(),
    }


def load() -> float:
    """How busy the machine was in the last minute: processes that ran or waited."""
    return round(os.getloadavg()[0], 2)


def tree() -> tuple[str, bool]:
    """The short hash of the commit, and whether there are changes beside it; those of the report itself are none."""
    commit = _git("rev-parse", "--short", "HEAD").strip()
    changes = _git("status", "--porcelain", "--", ".", *(f":!{path}" for path in REPORT))
    return commit or "unknown", bool(changes)


def _git(*arguments: str) -> str:
    """What git says; nothing if there is no git, or no repository."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else None
    return found.group(1) if found else platform.processor() or platform.machine()


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    return found.group(1) if found else "unknown"
