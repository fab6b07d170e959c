"""A lock that is given in the order it was asked for.

Epochs follow each other without a pause while there is a backlog. With a lock that anybody may
snatch, a statement or a slice of history could wait behind them for ever. What always holds: who
asked first has it first; the holder may take it again.
"""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType


class Turns:
    """A fair, reentrant lock."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._waiting: deque[tuple[int, threading.Lock]] = deque()
        self._owner: int | None = None
        self._depth = 0

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._mutex:
            if self._owner in (None, me):
                self._owner = me
                self._depth += 1
                return
            gate = threading.Lock()
            gate.acquire()
            self._waiting.append((me, gate))
        try:
            gate.acquire()
        except BaseException:
            self._give_up(me, gate)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._mutex:
            self._release()

    def _release(self) -> None:
        self._depth -= 1
        if self._depth:
            return
        self._owner = None
        if self._waiting:
            # Handed over, not put up for grabs: whoever comes by now has to queue.
            self._owner, gate = self._waiting.popleft()
            self._depth = 1
            gate.release()

    def _give_up(self, me: int, gate: threading.Lock) -> None:
        """Leave the queue, or pass on a turn that came while we were interrupted."""
        with self._mutex:
            if (me, gate) in self._waiting:
                self._waiting.remove((me, gate))
            elif self._owner == me:
                self._release()
