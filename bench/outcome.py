"""What the benchmark found, as plain data: figures, targets and checks. Knows nothing of how they are shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from bench.grid import Grid

Comparison = Literal[">=", "<="]


@dataclass(frozen=True, slots=True)
class Figure:
    """One contender's best run, and all of them."""

    contender: str
    label: str
    value: float
    unit: str
    """'events/s', 'ms' or 's'."""
    runs: tuple[float, ...]
    reference: bool = False
    """Whether it is here for orientation only: a limit, or other settings."""
    peak_bytes: int = 0
    """The peak of the resident memory of its process tree over all runs; 0 if it was not watched."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is asked for, and what came out."""

    what: str
    comparison: Comparison
    bound: float
    value: float
    unit: str
    """'x' for ratios, 'GiB'."""

    @property
    def met(self) -> bool:
        return self.value >= self.bound if self.comparison == ">=" else self.value <= self.bound


@dataclass(frozen=True, slots=True)
class Check:
    """Whether a result is right: the same digest as the one-shot query, and nothing lost."""

    what: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Trace:
    """A quantity after every epoch of a long run, and whether it has stopped growing."""

    label: str
    unit: str
    """'MiB'."""
    values: tuple[float, ...]

    @property
    def growth(self) -> float:
        """The mean of the last third over that of the middle third; 1 is flat."""
        third = len(self.values) // 3
        if third == 0:
            raise ValueError(f"{self.label}: {len(self.values)} values have no thirds")
        middle, last = self.values[third : 2 * third], self.values[-third:]
        return (sum(last) / third) / (sum(middle) / third)


@dataclass(slots=True)
class Section:
    """One workload on one input."""

    name: str
    title: str
    figures: list[Figure] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    grid: Grid | None = None
    """Many queries, instead of figures."""
    traces: list[Trace] = field(default_factory=list)
    """What was measured after every epoch."""
    notes: dict[str, Any] = field(default_factory=dict)
    against: str = "native"
    """What the ratio of the first target is to."""
