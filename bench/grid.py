"""Many queries by several contenders, as plain data: who took how long, who could not, and the ratios.

A ratio is a rival's time over ours: more than 1 means that we are faster. The worst is the smallest. That to a limit,
which nobody is asked to reach, is the share that we have of its speed. Only queries that both have count, and what is
missing is named, never left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import geometric_mean, median
from typing import Any


@dataclass(frozen=True, slots=True)
class QueryTimes:
    """One query: the seconds of every run of each contender, or why there are none."""

    query: str
    seconds: Mapping[str, tuple[float, ...]]
    absent: Mapping[str, str] = field(default_factory=dict)
    peak_bytes: Mapping[str, int] = field(default_factory=dict)

    def best(self, contender: str) -> float | None:
        return min(self.seconds[contender]) if self.seconds.get(contender) else None


@dataclass(frozen=True, slots=True)
class Summary:
    """The ratios against one rival."""

    rival: str
    queries: int
    median: float
    mean: float
    """The geometric one."""
    worst: float
    worst_query: str


@dataclass(frozen=True, slots=True)
class Grid:
    """Contenders by name, ours first, and what each query brought."""

    events: int
    ours: str
    rivals: tuple[str, ...]
    labels: Mapping[str, str]
    rows: tuple[QueryTimes, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Contenders that did not take part at all, with the reason."""
    limits: tuple[str, ...] = ()
    """Contenders for orientation: what this machine can do if all is there at once and nothing is kept."""

    def ratio(self, row: QueryTimes, rival: str) -> float | None:
        ours, theirs = row.best(self.ours), row.best(rival)
        return theirs / ours if ours and theirs else None

    def ratios(self, rival: str) -> dict[str, float]:
        found = {row.query: self.ratio(row, rival) for row in self.rows}
        return {query: ratio for query, ratio in found.items() if ratio is not None}

    def summary(self, rival: str) -> Summary | None:
        """None if there is no query that both have."""
        ratios = self.ratios(rival)
        if not ratios:
            return None
        worst = min(ratios, key=lambda query: ratios[query])
        values = ratios.values()
        return Summary(rival, len(ratios), median(values), geometric_mean(values), ratios[worst], worst)

    def absences(self) -> list[tuple[str, str, str]]:
        """(contender, query, reason) of everything that has no time."""
        return [(name, row.query, reason) for row in self.rows for name, reason in row.absent.items()]

    def as_json(self) -> dict[str, Any]:
        """What is derived from the times, for the report; the times themselves are fields."""
        others = (*self.rivals, *self.limits)
        summaries = {other: self.summary(other) for other in others}
        return {
            "ratios": {other: self.ratios(other) for other in others},
            "median": {other: found.median for other, found in summaries.items() if found},
            "mean": {other: found.mean for other, found in summaries.items() if found},
            "worst": {other: found.worst for other, found in summaries.items() if found},
        }
