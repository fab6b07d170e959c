"""The machine and the versions: what a figure is worthless without."""

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
        "load before": f"{os.getloadavg()[0]:.2f}",
    }


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
