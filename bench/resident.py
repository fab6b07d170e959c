"""Contenders that stay: a process that is asked one question after another.

What always holds: only the contender that is asked works, the others wait for a line on their standard
input; its output goes to a log file; a process that died or took too long is started anew for
the next question, and the question it died of is answered with what went wrong.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO

from bench.nexmark.job import Question, Reply
from bench.runner import HERE, LOGS, WORK, Memory, end, environment

PATIENCE_SECONDS = 900.0
GRACE_SECONDS = 10.0
"""What a process has to end by itself once nothing more will be asked."""


class Resident:
    """One contender: `<python> -m <module> DESCRIPTOR <arguments>`."""

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str] = (),
        *,
        python: Path | str = sys.executable,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.name = name
        self._command = (str(python), "-m", module)
        self._arguments = tuple(arguments)
        self._patience_seconds = patience_seconds
        self._process: subprocess.Popen[str] | None = None
        self._replies: IO[str] | None = None
        LOGS.mkdir(parents=True, exist_ok=True)
        self._log = LOGS / f"nexmark-{name}.log"
        self._log.unlink(missing_ok=True)

    def ask(self, question: Question) -> tuple[Reply, int]:
        """A reply, and the peak of the resident memory of the process tree; `question.work` is set here."""
        work = WORK / f"{os.getpid()}-{self.name}"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        process = self._process or self._start()
        # Watched only while it is asked: looking at every process of the machine takes time from the one that works.
        memory = Memory(process.pid)
        try:
            line = self._exchange(process, json.dumps(asdict(replace(question, work=str(work)))))
            if line is None:
                self.close()
                tail = " ".join(self._log.read_text(errors="replace").splitlines()[-2:])
                return Reply(failed=f"ended without an answer; the end of {self._log}: {tail}"), 0
            reply = Reply(**json.loads(line))
            return reply, memory.peak(reply.started_at, reply.ended_at)
        finally:
            memory.stop()
            shutil.rmtree(work, ignore_errors=True)

    def _exchange(self, process: subprocess.Popen[str], line: str) -> str | None:
        assert process.stdin is not None
        assert self._replies is not None
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            return None
        # A reply is one line, and the next one comes only after another question: nothing waits in the buffer.
        ready, _, _ = select.select([self._replies], [], [], self._patience_seconds)
        return (self._replies.readline() or None) if ready else None

    def _start(self) -> subprocess.Popen[str]:
        reading, writing = os.pipe()
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(
                [*self._command, str(writing), *self._arguments],
                cwd=HERE.parent,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                env=environment(),
                pass_fds=(writing,),
                text=True,
            )
        os.close(writing)
        self._replies = os.fdopen(reading)
        return self._process

    def close(self) -> None:
        """Let the process end; it has a few seconds for that."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        assert self._replies is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=GRACE_SECONDS)
        end(self._process)
        self._replies.close()
        self._process = None
