"""What the benchmark found, as plain data: figures, targets and checks. Knows nothing of how they are shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Comparison = Literal[">=", "<="]


@dataclass(frozen=True, slots=True)
class Figure:
    """One contender's best run, and all of them."""

    contender: str
    label: str
    value: float
    unit: str
    """'events/s' or 'ms'."""
    runs: tuple[float, ...]
    reference: bool = False
    """Whether it is here for orientation only: a limit, or other settings."""


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


@dataclass(slots=True)
class Section:
    """One workload on one input."""

    name: str
    title: str
    figures: list[Figure] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    against: str = "native"
    """What the ratio of the first target is to."""
