"""What a run of the generator can be told, and the fixed numbers of the benchmark.

Owns the settings and their limits. The ratios are those of the Nexmark benchmark
(github.com/nexmark/nexmark, `NexmarkConfiguration`), which itself follows Apache Beam's.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from millstream.model.errors import MillstreamError
from millstream.model.time import MICROS, format_duration, to_micros

PERSONS, AUCTIONS, BIDS = 1, 3, 46
"""Of every 50 events in a row: first a person, then auctions, then bids."""
CYCLE = PERSONS + AUCTIONS + BIDS

FIRST_PERSON = FIRST_AUCTION = 1_000
FIRST_CATEGORY, CATEGORIES = 10, 5

HOT_AUCTIONS, HOT_BIDDERS, HOT_SELLERS = 2, 4, 4
"""All but one in so many bids go to the hot auction, come from the hot bidder; so with auctions and the hot seller."""
HOT_STEP = 100
"""Every so many auctions (persons), another one is hot."""
OPEN_AUCTIONS = 100
"""How many auctions are open at a time, on average."""
ACTIVE_PERSONS = 1_000
LEAD = 10
"""So many persons (auctions) are spoken of before their own event."""

PERSON_BYTES, AUCTION_BYTES, BID_BYTES = 200, 500, 100
"""Idealised sizes: `extra` fills an event up to this on average."""

MAX_RATE = 100_000_000
MAX_SPREAD = 2_000_000
"""Events that may be between an event's place in time and its arrival; they are held in memory."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Which events: the same settings are the same events."""

    seed: int = 1
    rate: int = 10_000
    """Events per second of event time."""
    start_at: int = to_micros(datetime(2015, 7, 15))
    """The event time of the first event."""
    disorder: int = 0
    """How far, in microseconds of event time, an event may arrive behind a newer one."""

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**63:
            raise _bad("seed", f"{self.seed} is no seed", "give a number from 0 on")
        if not 1 <= self.rate <= MAX_RATE:
            raise _bad("rate", f"{self.rate} events a second", f"give a whole number from 1 to {MAX_RATE:,}")
        if self.disorder < 0:
            raise _bad("disorder", "a disorder cannot be negative", "give a duration such as '3 seconds'")
        if self.spread > MAX_SPREAD:
            longest = MAX_SPREAD * MICROS // self.rate
            raise _bad(
                "disorder",
                f"{format_duration(self.disorder)} are {self.spread:,} events at this rate",
                f"at {self.rate:,} events a second the limit is {longest / MICROS:,.2f} seconds",
            )

    @property
    def spread(self) -> int:
        """The disorder, in events."""
        return self.disorder * self.rate // MICROS


def _bad(option: str, detail: str, hint: str) -> MillstreamError:
    return MillstreamError("BAD_OPTION", f"{option} cannot be used", detail=detail, hint=hint)
