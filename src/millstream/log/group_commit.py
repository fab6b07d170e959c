"""Whose turn it is to sync: the lock behind group commit.

Owns one rule: a thread that finds its work done by another's sync leaves at once and never queues
for the turn. With a plain lock the served threads stand in line among the unserved, each sync
finds few new writes, and sixteen writers need a third of the syncs they would need alone instead
of an eighth.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class SyncTurn:
    """A lock, also as a context manager, whose waiters may stop waiting when they are served."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._taken = False

    def take(self, served: Callable[[], bool] = lambda: False) -> bool:
        """Wait for the turn; False when `served` became true instead."""
        with self._changed:
            while not served():
                if not self._taken:
                    self._taken = True
                    return True
                self._changed.wait()
            return False

    def give_back(self) -> None:
        with self._changed:
            self._taken = False
            self._changed.notify_all()

    def __enter__(self) -> None:
        self.take()

    def __exit__(self, *_: object) -> None:
        self.give_back()
