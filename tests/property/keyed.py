"""The model's own idea of session, sliding and count windows: in Python, row by row, from the documentation.

A tracker is told which rows an epoch brings and says which of them are late; at any time it
knows which rows each window holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from .rows import Row

EPOCH = datetime(1970, 1, 1)
SECOND = 1_000_000


@dataclass(frozen=True)
class Placed:
    """A row and where it is in the log."""

    partition: int
    offset: int
    row: Row

    @property
    def at(self) -> int:
        return int((self.row["ts"] - EPOCH) // timedelta(microseconds=1))

    @property
    def place(self) -> tuple[int, int, int]:
        return self.at, self.partition, self.offset


Held = tuple[list[Placed], int, int]
"""The rows of a window, and its bounds."""


class Tracker(Protocol):
    def take(self, rows: list[Placed], before: int | None, lateness: int) -> list[Placed]:
        """Take the rows of an epoch; returns those that are late."""

    def windows(self) -> Iterator[Held]: ...


@dataclass(frozen=True)
class Keyed:
    """Windows of a key: how they are tracked, and when the watermark makes one complete."""

    start: Callable[[], Tracker]
    complete: str = "epoch_us(window_end) <= {watermark}"


@dataclass
class Sessions:
    """Rows of a key that are less than the gap apart; closed sessions are left alone."""

    gap: int
    key: str | None = "k"
    sessions: list[list[Placed]] = field(default_factory=list)

    def take(self, rows: list[Placed], before: int | None, lateness: int) -> list[Placed]:
        gap = self.gap * SECOND
        segments: dict[Any, list[Placed]] = {}
        for placed in rows:
            segments.setdefault((self._key(placed), placed.at // gap), []).append(placed)
        late: list[Placed] = []
        for segment in segments.values():
            if before is not None and self._bounds(segment)[1] + lateness * SECOND <= before:
                late += segment
            else:
                self._join(segment, before, lateness)
        return late

    def _join(self, rows: list[Placed], before: int | None, lateness: int) -> None:
        apart = []
        # Taking the sessions in order finds in one pass what the growing session touches.
        for other in sorted(self.sessions, key=self._bounds):
            start, end = self._bounds(other)
            first, last = self._bounds(rows)
            is_open = before is None or end + lateness * SECOND > before
            if is_open and self._key(other[0]) == self._key(rows[0]) and start < last and first < end:
                rows = [*other, *rows]
            else:
                apart.append(other)
        self.sessions = [*apart, rows]

    def _key(self, placed: Placed) -> Any:
        return placed.row[self.key] if self.key else None

    def _bounds(self, rows: list[Placed]) -> tuple[int, int]:
        instants = [placed.at for placed in rows]
        return min(instants), max(instants) + self.gap * SECOND

    def windows(self) -> Iterator[Held]:
        for rows in self.sessions:
            yield (rows, *self._bounds(rows))


@dataclass
class Slides:
    """For every instant of a key, the rows of the key in the time up to it."""

    size: int
    used: list[Placed] = field(default_factory=list)

    def take(self, rows: list[Placed], before: int | None, lateness: int) -> list[Placed]:
        late = [placed for placed in rows if before is not None and placed.at + lateness * SECOND < before]
        self.used += [placed for placed in rows if placed not in late]
        return late

    def windows(self) -> Iterator[Held]:
        size = self.size * SECOND
        for key, end in {(placed.row["k"], placed.at) for placed in self.used}:
            held = [p for p in self.used if p.row["k"] == key and end - size < p.at <= end]
            yield held, end - size, end


@dataclass
class Counts:
    """Every so many rows of a key: by event time in an epoch, then by epoch. None is late."""

    rows: int
    slide: int
    arrived: dict[Any, list[Placed]] = field(default_factory=dict)

    def take(self, rows: list[Placed], before: int | None, lateness: int) -> list[Placed]:
        for placed in sorted(rows, key=lambda p: p.place):
            self.arrived.setdefault(placed.row["k"], []).append(placed)
        return []

    def windows(self) -> Iterator[Held]:
        for rows in self.arrived.values():
            for end in range(self.rows, len(rows) + 1, self.slide):
                held = rows[end - self.rows : end]
                yield held, held[0].at, held[-1].at
