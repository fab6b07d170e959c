"""Any range of the events, by itself.

Owns the order of arrival and the division into blocks. An event is a function of the settings and
its number; so is the place at which it arrives. What always holds: the events from a to b and
those from b to c are the events from a to c; no event arrives behind one that is newer by more
than the disorder.

Blocks are always made whole, each from a stream of chance of its own: that is what makes text
cheap, since all the letters of a block are drawn at once. A block takes a few milliseconds.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millstream.nexmark.chance import Draws, Ints, scatter
from millstream.nexmark.numbers import OF_KIND, numbers_of_kind, places_of_kind
from millstream.nexmark.rows import auctions, bids, persons
from millstream.nexmark.settings import CYCLE, Settings

BLOCK_CYCLES = 400
BLOCK = BLOCK_CYCLES * CYCLE
_MAKERS = (persons, auctions, bids)


@dataclass(frozen=True, slots=True)
class Events:
    """Some events, of each kind in the order of their arrival."""

    person: pa.Table
    auction: pa.Table
    bid: pa.Table

    @property
    def rows(self) -> int:
        return sum(table.num_rows for table in self.tables().values())

    def tables(self) -> dict[str, pa.Table]:
        return {"person": self.person, "auction": self.auction, "bid": self.bid}


class Nexmark:
    """The endless sequence of events that some settings describe."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._blocks: OrderedDict[int, tuple[pa.Table, ...]] = OrderedDict()
        # What two ranges next to each other both need; beyond that a block is cheaper to make than to keep.
        self._kept_blocks = 2 + 2 * self.settings.spread // BLOCK

    def events(self, start: int, end: int) -> Events:
        """The events that arrive from place `start` up to place `end`, exclusive."""
        numbers = self.numbers(start, end)
        first, last = (int(numbers.min()) // BLOCK, int(numbers.max()) // BLOCK) if len(numbers) else (0, 0)
        blocks = [self._block(number) for number in range(first, last + 1)]
        tables = [
            _pick(pa.concat_tables([block[kind] for block in blocks]), kind, numbers, first)
            for kind in range(len(OF_KIND))
        ]
        return Events(*tables)

    def numbers(self, start: int, end: int) -> Ints:
        """The numbers of the events that arrive from place `start` up to place `end`, in that order."""
        spread = self.settings.spread
        if spread == 0:
            return np.arange(start, end, dtype=np.int64)
        # An event is at most `spread` places from its number, so these are all that can be among them.
        lowest = max(0, start - spread)
        numbers = np.arange(lowest, end + spread, dtype=np.int64)
        delays = scatter(numbers, self.settings.seed) % np.uint64(spread + 1)
        order = np.argsort(numbers + delays.astype(np.int64), kind="stable")
        arrived: Ints = numbers[order[start - lowest : end - lowest]]
        return arrived

    def _block(self, number: int) -> tuple[pa.Table, ...]:
        block = self._blocks.pop(number, None)
        if block is None:
            block = tuple(
                make(
                    numbers_of_kind(kind, number * BLOCK_CYCLES, BLOCK_CYCLES),
                    self.settings,
                    Draws(self.settings.seed, number, kind),
                )
                for kind, make in enumerate(_MAKERS)
            )
        self._blocks[number] = block
        while len(self._blocks) > self._kept_blocks:
            self._blocks.popitem(last=False)
        return block


def _pick(table: pa.Table, kind: int, numbers: Ints, first_block: int) -> pa.Table:
    """The rows of some events, from the blocks that begin with the first."""
    _, places = places_of_kind(kind, numbers)
    places = places - first_block * BLOCK_CYCLES * OF_KIND[kind]
    if len(places) == 0:
        return table.slice(0, 0)
    if places[-1] - places[0] == len(places) - 1 and bool((np.diff(places) == 1).all()):
        return table.slice(int(places[0]), len(places))
    return table.combine_chunks().take(pa.array(places))
