"""How much is measured: the full benchmark, and the quick one for orientation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.data import Bids
from bench.nexmark.data import Events

SMALL_EPOCH_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class Plan:
    """The inputs and the number of runs."""

    bids: Bids
    runs: int
    hopping_formats: tuple[str, ...]
    warm_up_epochs: int
    measured_epochs: int
    references: bool
    """Whether to measure what has no target: one-shot queries, other settings."""
    say: Callable[[str], None]
    """Told before each run."""
    events: Events
    """The input of the Nexmark workload."""
    queries: tuple[str, ...] | None
    """Which Nexmark queries; all of them if it is not said."""
    install_flink: bool
    """Whether to install Flink if it is not there; otherwise it is left out."""
    state_events: int
    """How many events the state workload sees."""

    @property
    def warm_up(self) -> Bids:
        """Another input, long enough for the JVM to compile what it runs."""
        return Bids(files=3, rows_per_file=self.bids.rows_per_file, seed=7)

    @property
    def warm_up_events(self) -> Events:
        """Another input of Nexmark, of two epochs."""
        return Events(min(max(20_000, self.events.events // 2), 200_000), seed=7)

    @property
    def small(self) -> Bids:
        return Bids(files=self.warm_up_epochs + self.measured_epochs, rows_per_file=SMALL_EPOCH_ROWS)
