"""Starting the worker, listening to it, killing it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from itertools import cycle
from pathlib import Path

SCRIPT = Path(__file__).with_name("worker.py")
# Either in turn, so that one goes on where the other was killed.
_KERNELS = cycle(("native", "spark"))


class Worker:
    """A process of its own that works on a data directory."""

    def __init__(self, directory: Path, mode: str, *, jvm: dict[str, str] | None = None, script: Path = SCRIPT) -> None:
        self._errors = (directory.parent / f"worker-{time.time_ns()}.err").open("w+b")
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(directory), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={"MILLSTREAM_KERNEL": next(_KERNELS), **os.environ, **(jvm or {})},
        )
        assert self.process.stdout is not None
        self._out = self.process.stdout.fileno()
        os.set_blocking(self._out, False)
        self._rest = b""
        self.said: list[str] = []

    def begin(self, batch: int = 0) -> None:
        """Let it open the directory and begin with a batch."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{batch}\n".encode())
        self.process.stdin.flush()

    def listen(self, seconds: float) -> bool:
        """Take in what the worker says for a while; False once it has ended."""
        until = time.monotonic() + seconds
        while True:
            ready, _, _ = select.select([self._out], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return True
            data = os.read(self._out, 65536)
            if not data:
                return False
            *lines, self._rest = (self._rest + data).split(b"\n")
            self.said.extend(line.decode() for line in lines)

    def wait_for(self, word: str, seconds: float = 120) -> None:
        until = time.monotonic() + seconds
        while not any(line.split()[0] == word for line in self.said):
            alive = self.listen(0.02)
            if not alive and not any(line.split()[0] == word for line in self.said):
                raise AssertionError(f"the worker ended before it said {word!r}: {self.said}\n{self.errors()}")
            assert time.monotonic() < until, f"the worker did not say {word!r}: {self.said}\n{self.errors()}"

    def kill(self) -> None:
        """SIGKILL, then take in what it had still said."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        while self.listen(1):
            pass
        self.close()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self._errors.close()

    def errors(self) -> str:
        self._errors.flush()
        return Path(self._errors.name).read_text(errors="replace")[-3000:]

    @property
    def acknowledged(self) -> int | None:
        """The last batch that was acknowledged."""
        batches = [int(line.split()[1]) for line in self.said if line.startswith("ack ")]
        return max(batches) if batches else None
