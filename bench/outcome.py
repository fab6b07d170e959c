"""What the benchmark found, as plain data: figures, targets, checks, and how they were measured.

Knows nothing of how they are shown or kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from bench.grid import Grid

Comparison = Literal[">=", "<="]
Size = Literal["full", "quick", "other"]


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
    part: str = ""
    """Which quantity it is, where a contender has several: 'p50'."""
    at: float | None = None
    """Where one thing is varied, its value: the number of queries, of groups, of events a second."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is asked for, and what came out."""

    what: str
    comparison: Comparison
    bound: float
    value: float | None
    """None if it was not measured: a rival did not take part, or failed."""
    unit: str
    """'x' for ratios, 'GiB', 'ms'."""
    aim: bool = False
    """Whether it is wished for only: to fall short of it is said, and no failure."""

    @property
    def met(self) -> bool:
        if self.value is None:
            return False
        return self.value >= self.bound if self.comparison == ">=" else self.value <= self.bound

    @property
    def missed(self) -> bool:
        """Whether it is a failure: what was not measured and mere aims are none."""
        return self.value is not None and not self.met and not self.aim


def times(label: str) -> str:
    """How a ratio to a contender is called, by its label.

    >>> times("Flink: heap state"), times("one-shot DuckDB")
    ('times Flink (heap state)', 'times one-shot DuckDB')
    """
    name, _, how = label.partition(": ")
    return f"times {name} ({how})" if how else f"times {name}"


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


@dataclass(frozen=True, slots=True)
class Measured:
    """When, on what and how often: what a figure is worthless without. Of a workload as a whole, in one go."""

    at: str
    """When it began, in UTC, as ISO 8601 has it."""
    commit: str
    """The short hash; 'unknown' outside of a repository."""
    dirty: bool
    """Whether the tree had changes that were not committed, or was changed meanwhile."""
    machine: dict[str, str]
    load: float
    """Of the machine, before the whole benchmark began: 0 if it was idle."""
    runs: int
    size: Size
    """'other' if the input was made smaller or larger by an option."""
    input: str
    seconds: float
    """What the workload took altogether, preparations and warm-ups included."""


@dataclass(slots=True)
class Section:
    """One workload on one input."""

    workload: str
    """Its name on the command line."""
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
    measured: Measured | None = None
    """Set once the workload is done."""
