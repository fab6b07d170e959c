"""The synthetic feed: posts as a pure function of the seed, sent at a steady rate.

Owns what a post looks like and how late it comes. The time of the feed runs ten times as fast as
the clock on the wall. What always holds: disorder alone stays within the slack of the stream; a
late post is within the lateness that `trending` allows; a lost post is an hour old, so it is too
late for every window whenever the engine gets to it. Batch n is the same for the same seed and
rate, however fast the machine is.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from millstream.model.time import MICROS, to_micros

SPEED = 10
STARTS_AT = to_micros(datetime(2025, 6, 1, 11, 59, 30))
TICK_SECONDS = 0.05

_DISORDER_SECONDS = 8.0
_LATE_SHARE, _LATE_SECONDS = 0.01, (20.0, 45.0)
_LOST_SHARE, _LOST_SECONDS = 0.0005, 3_600.0

_TOPICS = (
    "worldcup eclipse newalbum election heatwave rustlang catsofspark opensource marathon coffee ai chess "
    "photography hiking retrogames spacewalk baking cinema vinyl gardening cycling typography sailing origami"
)
_ADJECTIVES = "calm brave tiny quick lucky quiet amber cosmic gentle witty rusty polar velvet merry solar misty"
_ANIMALS = "otter heron lynx panda koala raven tapir gecko bison finch moose lemur squid ibis mole newt"
_LANGUAGES = ("en", "es", "pt", "ja", "de", "hi")
_LANGUAGE_SHARES = (0.42, 0.2, 0.14, 0.11, 0.08, 0.05)
_AUTHORS = 2_000

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("author", pa.string()),
        ("topic", pa.string()),
        ("language", pa.string()),
        ("likes", pa.int64()),
        ("posted_at", pa.timestamp("us")),
    ]
)


class Posts:
    """Batches of posts, by number."""

    def __init__(self, seed: int, rate: int) -> None:
        self._seed = seed
        self.batch_rows = max(1, round(rate * TICK_SECONDS))
        rng = np.random.default_rng(seed)
        names = [f"@{a}_{b}_{n}" for n in range(1, 9) for a in _ADJECTIVES.split() for b in _ANIMALS.split()]
        self._authors = rng.permutation(names)[:_AUTHORS]
        self._topics = rng.permutation([f"#{topic}" for topic in _TOPICS.split()])
        self._phases = rng.uniform(0, 2 * np.pi, len(self._topics))

    def batch(self, number: int) -> pa.Table:
        rng = np.random.default_rng((self._seed, number))
        rows = self.batch_rows
        began = number * TICK_SECONDS * SPEED
        seconds = began + np.arange(rows) * (TICK_SECONDS * SPEED / rows)
        topics = rng.choice(len(self._topics), rows, p=self._heat(began))
        # A few authors write most posts, and a few posts get most likes.
        authors = (rng.power(0.35, rows) * len(self._authors)).astype(np.int64)
        likes = np.minimum(rng.pareto(1.3, rows) * 3, 50_000).astype(np.int64)
        return pa.table(
            [
                pa.array(np.arange(number * rows, (number + 1) * rows)),
                pa.array(self._authors[authors].tolist()),
                pa.array(self._topics[topics].tolist()),
                pa.array(rng.choice(_LANGUAGES, rows, p=_LANGUAGE_SHARES).tolist()),
                pa.array(likes),
                pa.array(STARTS_AT + self._posted(rng, seconds, number)).cast(pa.timestamp("us")),
            ],
            schema=SCHEMA,
        )

    def _heat(self, seconds: float) -> np.ndarray:
        """How likely each topic is: some are always popular, and each has its hours."""
        popular = 1 / np.arange(3, 3 + len(self._topics))
        wave = np.exp(2.0 * np.sin(seconds / 45 + self._phases))
        heat: np.ndarray = popular * wave / (popular * wave).sum()
        return heat

    def _posted(self, rng: np.random.Generator, seconds: np.ndarray, number: int) -> np.ndarray:
        """When each post was written, in microseconds after the start of the feed."""
        rows = len(seconds)
        written = seconds - rng.uniform(0, _DISORDER_SECONDS, rows)
        draw = rng.uniform(0, 1, rows)
        written -= np.where(draw < _LATE_SHARE, rng.uniform(*_LATE_SECONDS, rows), 0)
        if number > 0:
            # Nothing is late before the first epoch has set a watermark.
            written -= np.where(draw > 1 - _LOST_SHARE, _LOST_SECONDS, 0)
        micros: np.ndarray = (written * MICROS).astype(np.int64)
        return micros


class Feed:
    """Sends batches in time and remembers what it sent: the rows on disk, the instants in memory."""

    def __init__(self, posts: Posts, insert: Callable[[pa.Table], object], kept: Path) -> None:
        self._posts = posts
        self._insert = insert
        self._path = kept
        self._writer = pa.ipc.new_stream(str(kept), SCHEMA)
        self._next = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.failure: Exception | None = None
        self.sent = 0
        self.pending: deque[tuple[int, float]] = deque()
        """(rows sent up to and with a batch, when its insert began), oldest first."""

    def send(self) -> None:
        """Insert the next batch."""
        rows = self._posts.batch(self._next)
        began = time.perf_counter()
        self._writer.write_table(rows)
        self.pending.append((self.sent + rows.num_rows, began))
        self._insert(rows)
        self.sent += rows.num_rows
        self._next += 1

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="demo-feed", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        origin = time.perf_counter() - self._next * TICK_SECONDS
        try:
            while not self._stop.is_set():
                ahead = origin + self._next * TICK_SECONDS - time.perf_counter()
                if ahead > 0:
                    self._stop.wait(ahead)
                else:
                    self.send()
        except Exception as error:
            self.failure = error

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def rows(self) -> pa.Table:
        """Everything that was sent, read back without a copy."""
        self._writer.close()
        return pa.ipc.open_stream(pa.memory_map(str(self._path))).read_all()
