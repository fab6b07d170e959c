"""What a contender of the Nexmark workload is asked, one query after another, and what it answers.

Owns the form of both and the loop of a contender's process. A contender stays for the whole
workload, so that queries can be asked of all in turn without a new JVM for each: a line of JSON comes
in on standard input, one goes out on a descriptor of its own, since engines print what they like.
Needs nothing but Python: Flink's environment has its own packages.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.job import CORES

WRAP = 1_000_000_000
"""Of instants the microseconds beyond a multiple of this are added up, so that no sum is too large."""


@dataclass(frozen=True, slots=True)
class Question:
    """One query over the files of one directory. `work` is empty, on a real disk, and removed afterwards."""

    query: str
    path: str
    """The directory of `person`, `auction` and `bid`."""
    warm_up_path: str
    """The same of another input, over which the query is run first."""
    work: str
    verify: bool = False
    """Whether to say what the result is, after the measured part."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of a question: seconds, or why there are none."""

    started_at: float = 0.0
    ended_at: float = 0.0
    seconds: float = 0.0
    refused: str | None = None
    """Why the contender cannot express the query."""
    failed: str | None = None
    """What went wrong on the way."""
    rows: int | None = None
    """How many rows the result has, if that was asked."""
    expected_rows: int | None = None
    """How many it should have, where that depends on how far the contender came."""
    difference: str | None = None
    """How the result differs from the truth; only of a contender whose rows are compared one by one."""
    sums: dict[str, int] | None = None
    """What the columns add up to (see `Truth.sums`), where the contender's Python cannot compare rows."""
    notes: dict[str, Any] = field(default_factory=dict)


class RefusedError(Exception):
    """A contender cannot express a query; the text says why."""


@dataclass(slots=True)
class Stopwatch:
    """Frames the measured part of a run."""

    started_at: float = 0.0
    ended_at: float = 0.0
    seconds: float = 0.0
    _began: float = 0.0

    def __enter__(self) -> Stopwatch:
        self.started_at, self._began = time.time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds, self.ended_at = time.perf_counter() - self._began, time.time()


def serve(answer: Callable[[Question], Reply]) -> None:
    """The whole of a contender's process: `python -m bench.peers.<name> DESCRIPTOR ...`."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    with os.fdopen(int(sys.argv[1]), "w") as replies:
        for line in sys.stdin:
            question = Question(**json.loads(line))
            print(f"-- {question.query} {question.path}", flush=True)
            Path(question.work).mkdir(parents=True, exist_ok=True)
            try:
                reply = answer(question)
            except RefusedError as refusal:
                reply = Reply(refused=str(refusal))
            except Exception as error:
                traceback.print_exc()
                reply = Reply(failed=first_line(error))
            replies.write(json.dumps(asdict(reply)) + "\n")
            replies.flush()


def first_line(error: BaseException) -> str:
    """An error in one line: a Java trace has hundreds.

    >>> first_line(ValueError("no such thing\\n  at a.b.C"))
    'ValueError: no such thing'
    """
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:300] if text else ''}"
