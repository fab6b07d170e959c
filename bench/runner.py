"""Runs a contender in a fresh process and watches the memory of its whole process tree.

What always holds: one contender at a time; nothing of it on the terminal (its output goes to a log
file, whose end is shown if it fails); its working directory is gone afterwards.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.job import Answer, Job

HERE = Path(__file__).parent
WORK = HERE / "work"
LOGS = HERE / "results" / "logs"
SAMPLE_SECONDS = 0.1


class RunFailedError(Exception):
    """A contender ended without an answer."""


@dataclass(frozen=True, slots=True)
class Run:
    """One finished run: the answer, and the peak of the resident memory during its measured part."""

    contender: str
    answer: Answer
    peak_bytes: int


def run(contender: str, job: Job, python: Path | str = sys.executable) -> Run:
    """Run `bench.peers.<contender>`, perhaps by another Python; `job.work` is ignored and set here."""
    work = WORK / f"{os.getpid()}-{contender}"
    shutil.rmtree(work, ignore_errors=True)
    (work / "files").mkdir(parents=True)
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / (re.sub(r"[^\w.-]+", "-", f"{job.question}-{job.format}-{contender}-{job.settings}") + ".log")
    fields = {**asdict(job), "work": str(work / "files")}
    (work / "job.json").write_text(json.dumps(fields))
    try:
        with log.open("wb") as out:
            command = [str(python), "-m", f"bench.peers.{contender}", str(work / "job.json")]
            process = subprocess.Popen(command, cwd=HERE.parent, stdout=out, stderr=out, env=environment())
            memory = Memory(process.pid)
            try:
                status = process.wait()
            finally:
                memory.stop()
                end(process)
        answer_file = work / "answer.json"
        if status != 0 or not answer_file.exists():
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise RunFailedError(f"{contender} failed ({status}), the end of {log}:\n{tail}")
        answer = Answer(**json.loads(answer_file.read_text()))
        return Run(contender, answer, memory.peak(answer.started_at, answer.ended_at))
    finally:
        shutil.rmtree(work, ignore_errors=True)


def end(process: subprocess.Popen[Any]) -> None:
    """Leave nothing running when we are interrupted: the contender, its JVM and its Python workers."""
    if process.poll() is not None:
        return
    tree = psutil.Process(process.pid)
    for one in [*tree.children(recursive=True), tree]:
        with contextlib.suppress(psutil.Error):
            one.kill()
    process.wait()


def environment() -> dict[str, str]:
    """This process's environment, with this Python and this tree for Spark, and no other Spark's settings."""
    dropped = ("SPARK_HOME", "SPARK_CONF_DIR", "PYTHONPATH", "PYTHONHOME")
    kept = {key: value for key, value in os.environ.items() if key not in dropped}
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    # The environment's editable install may be of another tree: what is measured is the tree this file is in.
    tree = os.pathsep.join((str(HERE.parent / "src"), str(HERE.parent)))
    return {**kept, **python, "PYTHONPATH": tree, "SPARK_LOCAL_IP": "127.0.0.1"}


class Memory:
    """Samples the resident set of a process and all its descendants, added up.

    Pages that two processes share count twice: the figure is an upper bound.
    """

    def __init__(self, pid: int) -> None:
        self._samples: list[tuple[float, int]] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, args=(pid,), daemon=True)
        self._thread.start()

    def _watch(self, pid: int) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            self._samples.append((time.time(), resident(pid)))

    def stop(self) -> None:
        self._done.set()
        self._thread.join()

    def peak(self, since: float, until: float) -> int:
        """The largest sample between two instants, bounds widened by one sample."""
        margin = SAMPLE_SECONDS
        return max((size for at, size in self._samples if since - margin <= at <= until + margin), default=0)


def resident(pid: int) -> int:
    """The resident memory of a process and all its descendants, in bytes."""
    total = 0
    try:
        root = psutil.Process(pid)
        processes = [root, *root.children(recursive=True)]
    except psutil.Error:
        return 0
    for process in processes:
        try:
            total += process.memory_info().rss
        except psutil.Error:
            continue  # it has ended since
    return total
