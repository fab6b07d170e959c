"""What the demo observes while the engine runs: latency, and values that were taken back.

Owns two threads: one notes when a batch became visible, one reads the changelog of `trending`
as any subscriber would.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from millstream.api import Connection, Subscription
from millstream.cli.demo.feed import Feed
from millstream.cli.progress import find_stream


@dataclass(frozen=True, slots=True)
class Correction:
    """A value that was published, taken back and replaced."""

    pane: str
    window_start: Any
    window_end: Any
    topic: str
    before: int
    after: int


class LatencyWatch:
    """Insert → committed, for every batch of the feed."""

    def __init__(self, db: Connection, feed: Feed) -> None:
        self._db = db
        self._feed = feed
        self._stop = False
        self._seconds: list[float] = []
        self._thread = threading.Thread(target=self._run, name="demo-latency", daemon=True)
        self.seen_at = time.perf_counter()
        """When rows last became visible."""

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        epoch = 0
        while not self._stop:
            epoch = self._db.wait_for_epoch(epoch, 0.2)
            self._look()

    def _look(self) -> None:
        stream = find_stream(self._db.status(), "posts")
        read = stream["position"] if stream is not None else 0
        now = time.perf_counter()
        pending = self._feed.pending
        while pending and pending[0][0] <= read:
            self._seconds.append(now - pending.popleft()[1])
            self.seen_at = now

    def stop(self) -> None:
        self._stop = True
        self._thread.join()
        self._look()

    def milliseconds(self, percentile: float, last: int = 0) -> float | None:
        """A percentile over all batches, or over the last few."""
        seconds = self._seconds[-last:]
        return float(np.percentile(seconds, percentile)) * 1000 if seconds else None


class ChangeWatch:
    """Counts the changes of `trending` and keeps the last corrections."""

    def __init__(self, changes: Subscription) -> None:
        self._changes = changes
        self._thread = threading.Thread(target=self._run, name="demo-changes", daemon=True)
        self._taken_back: dict[tuple[Any, str], int] = {}
        self.retracted = 0
        self.inserted = 0
        self.late = 0
        self.last: deque[Correction] = deque(maxlen=5)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        for change in self._changes:
            key = (change["window_start"], change["topic"])
            if change["op"] == "retract":
                self.retracted += 1
                self._taken_back[key] = change["posts"]
                continue
            self.inserted += 1
            before = self._taken_back.pop(key, None)
            if before is None or before == change["posts"]:
                continue
            late = change["pane"] == "late"
            self.late += late
            # Early values are refined all the time: late corrections are the ones worth a line.
            if late or not any(correction.pane == "late" for correction in self.last):
                window = change["window_start"], change["window_end"]
                self.last.append(Correction(change["pane"], *window, change["topic"], before, change["posts"]))

    def stop(self) -> None:
        self._changes.close()
        self._thread.join()
