"""Changes of a view as they are committed."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from millstream.engine.surface.result import Result
from millstream.model.errors import MillstreamError

_LOOK_SECONDS = 0.5


class Subscription(Iterator[dict[str, Any]]):
    """An endless iterator over the changes of a view, whole epochs at a time.

    `from_epoch` is the first epoch to see; to go on after a break, pass the last one seen plus one.
    The iteration ends when the database is closed or `close` is called. When the view is dropped it ends with
    UNKNOWN_VIEW, whatever is created under the name later.
    """

    def __init__(
        self,
        incarnation: str,
        read: Callable[[int], Result],
        check_there: Callable[[], None],
        last_epoch: Callable[[], int],
        committed: threading.Condition,
        is_open: Callable[[], bool],
        from_epoch: int,
    ) -> None:
        self.incarnation = incarnation
        """With the last epoch seen, it says where to go on: in another incarnation epochs mean something else."""
        self._read = read
        self._check_there = check_there
        self._last_epoch = last_epoch
        self._committed = committed
        self._is_open = is_open
        self._seen = from_epoch - 1
        self._first = True
        self._pending: deque[dict[str, Any]] = deque()
        self._closed = False

    def __iter__(self) -> Subscription:
        return self

    def __next__(self) -> dict[str, Any]:
        while not self._pending:
            change = self._wait()
            if not change:
                raise StopIteration
        return self._pending.popleft()

    def _wait(self) -> bool:
        """Fill `_pending` from new epochs; False once there will be none."""
        try:
            return self._filled()
        except MillstreamError:
            if not self._is_open():
                return False
            raise

    def _filled(self) -> bool:
        with self._committed:
            while not self._first and self._last_epoch() <= self._seen:
                if self._closed or not self._is_open():
                    return False
                self._check_there()
                self._committed.wait(_LOOK_SECONDS)
        if self._closed or not self._is_open():
            return False
        until = self._last_epoch()
        rows = self._read(self._seen).rows()
        # An epoch may have been committed since `until` was read: what was read decides.
        self._seen = max([until, *(row["epoch"] for row in rows)])
        self._first = False
        self._pending.extend(rows)
        return True

    def end(self) -> None:
        """Have the iteration end soon. Takes no lock, so a signal handler may call it."""
        self._closed = True

    def close(self) -> None:
        self._closed = True
        with self._committed:
            self._committed.notify_all()
