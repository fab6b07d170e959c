"""Millstream killed in mid-run: how long after its start the next process has committed an epoch.

The first process is ended by SIGKILL, with everything it started, while it works on the epoch after the one that
completed the state. Measured is the second one, from before it is started (Python, its imports, Spark and the store
included) to its first commit. It then goes on to the end, and the view must be what a one-shot query answers: nothing
lost, nothing counted twice.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.job import Answer, Job, main
from bench.peers.growth import DEFAULTS, check

INTO_EPOCH_SECONDS = 0.1
"""How long after a commit the process is killed: while it works on the next epoch."""


def start(directory: Path, job: Job) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.peers.recovery_victim", str(directory), job.path, str(job.rows)]
    # A session of its own, so that all of it can be killed at once.
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)


def kill(process: subprocess.Popen[str]) -> None:
    """The process and what it started, at once and without a warning."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def events(process: subprocess.Popen[str]) -> Iterator[tuple[str, int, float]]:
    """(what, number, when) of every line it tells; Spark may print others."""
    assert process.stdout is not None
    for line in process.stdout:
        words = line.split()
        if len(words) == 3 and words[0] in ("opened", "committed", "ended"):
            yield words[0], int(words[1]), float(words[2])


def run_until_killed(directory: Path, job: Job) -> int:
    """How many epochs were committed, as far as the process could tell."""
    process = start(directory, job)
    committed = 0
    try:
        for what, number, _ in events(process):
            if what == "committed":
                committed = number
                if committed >= job.slices:
                    time.sleep(INTO_EPOCH_SECONDS)
                    break
    finally:
        kill(process)
    return committed


def run(job: Job) -> Answer:
    directory = Path(job.work) / "data"
    told = run_until_killed(directory, job)
    if told < job.slices:
        raise RuntimeError(f"the first process ended after {told} epochs")
    store = sum(path.stat().st_size for path in directory.glob("store.duckdb*"))
    started_at = time.time()
    process = start(directory, job)
    opened_at = first_commit_at = 0.0
    found_epoch = 0
    ended = False
    try:
        for what, number, at in events(process):
            if what == "opened":
                opened_at, found_epoch = at, number
            elif what == "committed" and not first_commit_at:
                first_commit_at = at
            ended = ended or what == "ended"
        process.wait()
    finally:
        kill(process)
    if not (ended and first_commit_at):
        raise RuntimeError("the second process did not reach the end")
    settings = {**DEFAULTS, "groups": job.rows}
    found, truth = check(settings, job.path, directory)
    notes = {
        "truth": truth,
        "opened_seconds": opened_at - started_at,
        "epochs_told": told,
        "epochs_found": found_epoch,
        "store_bytes": store,
    }
    return Answer(started_at, first_commit_at, first_commit_at - started_at, digest=found, notes=notes)


if __name__ == "__main__":
    main(run)
