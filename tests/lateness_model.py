"""An independent model of watermarks at a percentile: all lateness in plain lists, sorted for each epoch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from millstream.model.lateness import Lateness, bucket, highest


@dataclass
class PercentileModel:
    percentile: float
    newest: dict[int, int] = field(default_factory=dict)
    generations: list[list[int]] = field(default_factory=lambda: [[], []])
    """The one before and the one that is being filled."""
    slack: int | None = None
    watermark: int | None = None

    def epoch(self, rows: Iterable[tuple[int, int]]) -> int | None:
        """The watermark after an epoch of (partition, event time in microseconds), each partition in its order."""
        for partition, at in rows:
            before = self.newest.get(partition, at)
            self.generations[1].append(max(0, before - at))
            self.newest[partition] = max(before, at)
        tail = 1 - Decimal(repr(self.percentile))
        if len(self.generations[1]) >= min(100_000, 100 / tail if tail else 100_000):
            self.generations = [self.generations[1], []]
        known = sorted(self.generations[0] + self.generations[1])
        if len(known) >= min(10_000, 10 / tail if tail else 10_000):
            rank = math.ceil(Decimal(repr(self.percentile)) * len(known))
            self.slack = highest(bucket(known[rank - 1]))
            reached = min(self.newest.values()) - self.slack
            self.watermark = reached if self.watermark is None else max(self.watermark, reached)
        return self.watermark

    @property
    def lateness(self) -> Lateness:
        """What the engine must have counted so far, row by row."""
        earlier, recent = (dict(Counter(map(bucket, generation))) for generation in self.generations)
        return Lateness(recent, earlier)
