"""How much is measured: the full benchmark, and the quick one for orientation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.data import Bids
from bench.growth_data import Clicks
from bench.nexmark.data import Events

SMALL_EPOCH_ROWS = 1_000
FULL_GROUPS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
FULL_STATES = (10_000, 1_000_000, 5_000_000)


@dataclass(frozen=True, slots=True)
class Plan:
    """The inputs and the number of runs."""

    quick: bool
    bids: Bids
    runs: int
    tumbling_formats: tuple[str, ...]
    hopping_formats: tuple[str, ...]
    warm_up_epochs: int
    measured_epochs: int
    say: Callable[[str], None]
    """Told before each run."""
    events: Events
    """The input of the Nexmark workload."""
    queries: tuple[str, ...] | None
    """Which Nexmark queries; all of them if it is not said."""
    install: bool
    """Whether to install contenders that are not there (Flink, Polars); otherwise they are left out."""
    state_events: int
    """How many events the state workload sees."""
    rates: tuple[int, ...]
    """Of the latency workload: events per second, one after the other."""
    rate_seconds: int
    """How long each rate is measured."""
    query_bids: Bids
    """What the standing queries read."""
    query_counts: tuple[int, ...]
    native_query_counts: tuple[int, ...]
    clicks: Clicks
    """The input of the growth workload, where it varies the number of groups."""
    groups: tuple[int, ...]
    states: tuple[int, ...]
    """Of the recovery workload: how many groups are kept when the process is killed."""

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

    @property
    def query_warm_up(self) -> Bids:
        return Bids(files=2, rows_per_file=self.query_bids.rows_per_file, seed=7)

    @property
    def fewer_clicks(self) -> Clicks:
        """A quarter of them, for what does not depend on having many groups."""
        return Clicks(self.clicks.files, max(1, self.clicks.rows_per_file // 4))

    @property
    def recovery_clicks(self) -> Clicks:
        """Enough for the largest state, and as much again for the time after the kill."""
        return Clicks(10, max(1, self.clicks.rows // 20))
