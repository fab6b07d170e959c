"""What follows from the number of an event alone: its kind, its time, who and what exists by then.

Owns the arithmetic of event numbers. Persons and auctions are counted from 0 here; their ids
begin at 1,000.
"""

from __future__ import annotations

import numpy as np

from millstream.model.time import MICROS
from millstream.nexmark.chance import Draws, Ints
from millstream.nexmark.settings import (
    ACTIVE_PERSONS,
    AUCTIONS,
    BIDS,
    CYCLE,
    HOT_STEP,
    LEAD,
    OPEN_AUCTIONS,
    PERSONS,
    Settings,
)

FIRST_OF_KIND = (0, PERSONS, PERSONS + AUCTIONS)
"""Where in a cycle the persons, the auctions and the bids begin."""
OF_KIND = (PERSONS, AUCTIONS, BIDS)


def numbers_of_kind(kind: int, first_cycle: int, cycles: int) -> Ints:
    """The numbers of the events of a kind in some cycles."""
    cycle = np.arange(first_cycle, first_cycle + cycles, dtype=np.int64)[:, None] * CYCLE
    return (cycle + FIRST_OF_KIND[kind] + np.arange(OF_KIND[kind], dtype=np.int64)).reshape(-1)


def places_of_kind(kind: int, numbers: Ints) -> tuple[np.ndarray, Ints]:
    """Which of some events are of a kind, and the how-manieth of their kind those are."""
    place = numbers % CYCLE - FIRST_OF_KIND[kind]
    chosen = (place >= 0) & (place < OF_KIND[kind])
    return chosen, numbers[chosen] // CYCLE * OF_KIND[kind] + place[chosen]


def event_times(numbers: Ints, settings: Settings) -> Ints:
    """Instants, evenly spaced. In two steps, because a large number times a million is too large."""
    seconds, rest = np.divmod(numbers, settings.rate)
    times: Ints = settings.start_at + seconds * MICROS + rest * MICROS // settings.rate
    return times


def last_person(numbers: Ints) -> Ints:
    """The newest person at each event."""
    return numbers // CYCLE


def last_auction(numbers: Ints) -> Ints:
    """The newest auction at each event after the person of its cycle."""
    return numbers // CYCLE * AUCTIONS + np.minimum(numbers % CYCLE - PERSONS, AUCTIONS - 1)


def hot(newest: Ints) -> Ints:
    """The person (auction) that is hot while another is the newest."""
    return newest // HOT_STEP * HOT_STEP


def some_person(newest: Ints, draws: Draws) -> Ints:
    """Anyone active, or about to be."""
    persons = newest + 1
    active = np.minimum(persons, ACTIVE_PERSONS)
    return persons - active + draws.below(active + LEAD, len(newest))


def some_auction(newest: Ints, draws: Draws) -> Ints:
    """Any auction that is likely to be open, or about to open."""
    oldest = np.maximum(newest - OPEN_AUCTIONS, 0)
    return oldest + draws.below(newest - oldest + 1 + LEAD, len(newest))


def mostly_hot(hot_ones: Ints, others: Ints, ratio: int, draws: Draws) -> Ints:
    """The hot one, but one time in `ratio` another."""
    return np.where(draws.below(ratio, len(others)) > 0, hot_ones, others)
