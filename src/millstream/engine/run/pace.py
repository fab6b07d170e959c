"""How many rows the next epoch takes, and when it begins.

An epoch costs a fixed part and a part for every row. Both are measured as epochs go by, and so is the
rate at which rows arrive; docs/design/pace.md says what follows from them, and why.

What always holds: a stream's share is never limited below `LEAST_ROWS`, and an epoch is never sized beyond
`most_rows`. A size follows from the estimates and the backlog of the moment, not from the size before it, so
nothing swings. Nothing here reads a clock: instants, in seconds, come from the caller.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

LEAST_ROWS = 10_000
"""Rows of a stream that always fit one epoch."""

_LEARNING = 0.5
"""How much of a surprise is believed at once."""
_GREATEST_SURPRISE = math.log(2)
"""What took far longer than predicted (the first epoch, a clean-up, a pause of the JVM) counts as twice as long."""
_LEAST_FIXED = 1e-4
_LEAST_PER_ROW = 1e-9
_MEMORY_SECONDS = 5.0
"""Over which time the rate of arrivals is measured."""
_PRESSING = 0.3
"""The load from which rows wait less if epochs overlap."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What an epoch costs, in seconds.

    >>> Cost(0.1, 1e-6).of(400_000)
    0.5
    """

    fixed: float
    per_row: float

    def of(self, rows: float) -> float:
        return self.fixed + self.per_row * rows

    def rows_in(self, seconds: float) -> float:
        """How many rows can be done in some time."""
        return max(0.0, (seconds - self.fixed) / self.per_row)

    def learn(self, rows: float, seconds: float) -> Self:
        """The estimate after an epoch: each part moves by its share in what was predicted.

        A step of gradient descent on the squared error of the logarithm. So both parts stay positive,
        small epochs teach the fixed part, large ones the other, and epochs that are all alike, which
        cannot tell the parts apart, still teach what such an epoch costs.
        """
        predicted = self.of(rows)
        surprise = math.log(max(seconds, _LEAST_FIXED) / predicted)
        surprise = max(-_GREATEST_SURPRISE, min(surprise, _GREATEST_SURPRISE))
        fixed = self.fixed / predicted
        per_row = 1 - fixed
        step = _LEARNING * surprise / (fixed**2 + per_row**2)
        return type(self)(
            max(_LEAST_FIXED, self.fixed * math.exp(step * fixed)),
            max(_LEAST_PER_ROW, self.per_row * math.exp(step * per_row)),
        )


@dataclass(slots=True)
class Pace:
    """The controller of live epochs. Backlogs and limits are in offsets, by stream."""

    most_rows: int
    target: float | None = None
    """Seconds that rows may take from arrival to commit; None means as soon as possible."""
    cost: Cost = Cost(0.1, 2e-6)
    rate: float = 0.0
    """Rows that arrive per second."""
    limit: int | None = None
    """How many rows the last epoch was to take at most."""
    _rows_per_offset: dict[str, float] = field(default_factory=dict)
    """An offset is a row of the log, or less where it is compacted; of files it is a file."""
    _begun_at: float | None = None
    _left: dict[str, int] = field(default_factory=dict)
    """What the epoch that began last did not take."""

    def figures(self) -> dict[str, float | None]:
        """What epochs cost and how large they may be, for people."""
        return {
            "target_latency_ms": None if self.target is None else self.target * 1000,
            "fixed_ms": self.cost.fixed * 1000,
            "ms_per_1000_rows": self.cost.per_row * 1_000_000,
            "rows_per_second": self.rate,
            "load": self.load,
            "epoch_rows": self.limit,
        }

    @property
    def load(self) -> float:
        """The share of the time that the rows themselves take."""
        return self.rate * self.cost.per_row

    def rows(self, waiting: Mapping[str, int]) -> float:
        """About how many rows a backlog has."""
        return sum(count * self._rows_per_offset.get(name, 1.0) for name, count in waiting.items())

    def size(self, waiting: float) -> int:
        """The rows of the next epoch when so many wait: one of the equal parts that make the mean wait shortest."""
        load = self.load
        parts = 1
        if load < 1:
            # So many rows cost as much as beginning an epoch.
            even = self.cost.fixed / self.cost.per_row
            best = even * (load + math.sqrt(load + (1 - load) * waiting / even)) / (1 - load)
            parts = max(1, round(waiting / best)) if best else 1
        size = waiting / parts
        if self.target is not None:
            # A row waits for the epoch under way, then for its own.
            size = max(size, self.cost.rows_in(self.target / 2))
        return max(LEAST_ROWS, math.ceil(min(size, self.most_rows)))

    def limits(self, waiting: Mapping[str, int]) -> dict[str, int]:
        """How much the next epoch takes of each stream at most: the same share, so that backlogs end together."""
        total = self.rows(waiting)
        self.limit = size = self.size(total)
        if total <= size:
            return dict.fromkeys(waiting, self.most_rows)
        limits = {}
        for name, count in waiting.items():
            density = self._rows_per_offset.get(name, 1.0)
            rows = max(LEAST_ROWS, count * density * size / total)
            limits[name] = min(self.most_rows, max(1, int(rows / density))) if density else self.most_rows
        return limits

    def begin(self, waiting: Mapping[str, int], taken: Mapping[str, int], at: float) -> None:
        """An epoch begins that takes some of what waits."""
        if self._begun_at is not None and (seconds := at - self._begun_at) > 0:
            arrived = {name: max(0, count - self._left.get(name, 0)) for name, count in waiting.items()}
            # More than can be done counts as just that: a burst is over at once, and what lasts is seen to last.
            rate = min(self.rows(arrived) / seconds, 1 / self.cost.per_row)
            self.rate += -math.expm1(-seconds / _MEMORY_SECONDS) * (rate - self.rate)
        self._begun_at = at
        self._left = {name: max(0, count - taken.get(name, 0)) for name, count in waiting.items()}

    def learn(self, taken: Mapping[str, int], rows: Mapping[str, int], seconds: float) -> None:
        """An epoch is done: what it took, the rows that this was, and the time it needed."""
        for name, count in taken.items():
            if count > 0:
                density = rows.get(name, 0) / count
                known = self._rows_per_offset.get(name, density)
                self._rows_per_offset[name] = known + _LEARNING * (density - known)
        self.cost = self.cost.learn(sum(rows.values()), seconds)

    @property
    def is_pressed(self) -> bool:
        """Whether an epoch had better be read while the one before it is committed: more is done so, but its rows
        have waited for the whole of that commit."""
        return any(self._left.values()) or self.load > _PRESSING

    def pause(self, waiting: Mapping[str, int], at: float) -> float:
        """For how many seconds the rows that wait can wait on and still meet the target; 0 without one.

        They came after the last epoch had begun, or else there is no time to lose.
        """
        if self.target is None or self._begun_at is None or any(self._left.values()):
            return 0.0
        return max(0.0, self._begun_at + self.target - self.cost.of(self.rows(waiting)) - at)
