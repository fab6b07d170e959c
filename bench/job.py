"""What a contender is asked to do, as a JSON file, and what it answers, as another.

Owns the form of both and the limits that all contenders share, so that nobody runs with more
cores or a larger heap than the others.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

CORES = min(2, os.cpu_count() or 1)
DRIVER_MEMORY = "1g"
SLACK_SECONDS = 4


@dataclass(frozen=True, slots=True)
class Job:
    """One run of one contender. `work` is an empty directory on a real disk, removed afterwards."""

    question: str
    """'tumbling', 'hopping', 'small_epochs' or 'backfill'; of the state workload 'interval_join' or 'sessions';
    of the others the name of the workload."""
    format: str
    path: str
    warm_up_path: str
    work: str
    verify: bool = False
    """Whether to compute the digest of the result, after the measured part."""
    settings: str = "tuned"
    """Which of the contender's settings to use, where it has several."""
    warm_up_epochs: int = 0
    rows: int = 0
    """How many rows are retained, for a backfill, or how many events to make, where the contender makes them itself."""
    slices: int = 0
    """In how many slices."""
    rates: tuple[int, ...] = ()
    """Events per second, one rate after the other."""
    seconds: int = 0
    """How long each rate is measured."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a run brought: seconds, or milliseconds per epoch; wall-clock instants frame the measured part."""

    started_at: float
    ended_at: float
    seconds: float
    epochs_ms: tuple[float, ...] = ()
    digest: dict[str, int] | None = None
    notes: dict[str, Any] = field(default_factory=dict)


def main(run: Callable[[Job], Answer]) -> None:
    """The whole of a contender's process."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    job_file = Path(sys.argv[1])
    answer = run(Job(**json.loads(job_file.read_text())))
    job_file.with_name("answer.json").write_text(json.dumps(asdict(answer)))
