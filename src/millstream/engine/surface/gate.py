"""The gate of a database: which calls are in progress, and whether new ones may begin.

What always holds: nothing is closed under a call. Once shut, the gate refuses whoever comes, and `wait` returns when
the last call of another thread has left.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from millstream.model.errors import MillstreamError


class ClosedError(MillstreamError):
    """The database is closed."""

    def __init__(self) -> None:
        super().__init__("CLOSED", "the database is closed")


class Gate:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls: Counter[int] = Counter()
        """By thread. A thread may close the database in the middle of its own call."""
        self._open = True
        self._ending = False

    @property
    def is_open(self) -> bool:
        return self._open

    def check(self) -> None:
        if not self._open:
            raise ClosedError

    @contextmanager
    def call(self, *, parks: bool = False) -> Iterator[None]:
        """A call of this thread; refused once the gate is shut.

        With `parks`, a daemon thread that calls while the process ends waits for that. It must hold no lock.
        """
        thread = threading.get_ident()
        with self._changed:
            if parks and self._ending and threading.current_thread().daemon:
                # An error would be printed after the one that ended the program.
                self._changed.wait_for(lambda: False)
            self.check()
            self._calls[thread] += 1
        try:
            yield
        finally:
            with self._changed:
                self._calls[thread] -= 1
                self._changed.notify_all()

    def shut(self, *, ending: bool = False) -> bool:
        """Let no call begin; False if it was shut already. `ending`: so is the process."""
        with self._changed:
            was_open, self._open, self._ending = self._open, False, ending
            return was_open

    def wait(self, timeout_seconds: float) -> bool:
        """Wait until no other thread is in a call; False if one still is when the time is over."""
        own = threading.get_ident()
        with self._changed:
            return self._changed.wait_for(
                lambda: not any(count for thread, count in self._calls.items() if thread != own), timeout_seconds
            )
