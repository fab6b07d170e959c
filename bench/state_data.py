"""The input of the `state` workload: orders and their payments, in slices of ten seconds, made when they are needed.

What always holds: the same slice has the same rows, whatever was made before; ids and buyers never
come back, so whatever is kept per id or per buyer grows for ever unless it is bounded by time.
A payment follows its order by less than `PAID_WITHIN_US`; one order in ten is not paid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bench.data import START_US

SLICE_US = 10_000_000
RETAIN_SECONDS = 120
"""How long views keep their rows, in event time, and their changelog, by the clock that goes with it."""
PAID_WITHIN_US = 8_000_000
UNPAID = 10
"""One order in so many is not paid."""
BUYERS_LAST_US = 30_000_000
"""After so long, others buy."""
ORDERS_PER_BUYER = 20

_TIME = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class Slices:
    """About `events` events in `slices` slices: half of them orders, the others payments."""

    events: int
    slices: int

    @property
    def orders_per_slice(self) -> int:
        return max(1, self.events // self.slices // 2)

    def orders(self, number: int) -> pa.Table:
        """The orders of a slice, in the order of their ids."""
        ids, at = self._ids(number), self._ordered_at(self._ids(number))
        pool = max(1, self.orders_per_slice * (BUYERS_LAST_US // SLICE_US) // ORDERS_PER_BUYER)
        buyers = at // BUYERS_LAST_US * pool + _hash(ids) % pool
        return pa.table({"id": ids, "buyer": buyers, "ts": _instants(at)})

    def payments(self, number: int) -> pa.Table:
        """The payments that come within a slice, of its orders and of those before."""
        ids = np.concatenate([self._ids(one) for one in (number - 1, number) if one >= 0])
        ids = ids[ids % UNPAID != 0]
        at = self._ordered_at(ids) + _hash(ids) % PAID_WITHIN_US
        here = at // SLICE_US == number
        ids, at = ids[here], at[here]
        return pa.table({"id": ids, "amount": _hash(ids) % 10_000, "ts": _instants(at)})

    def _ids(self, number: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.arange(number * self.orders_per_slice, (number + 1) * self.orders_per_slice, dtype=np.int64)

    def _ordered_at(
        self, ids: np.ndarray[tuple[int], np.dtype[np.int64]]
    ) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return ids * SLICE_US // self.orders_per_slice


def _hash(ids: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """A number from 0 up to 2**31 for each id, by the id alone."""
    words = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    words ^= words >> np.uint64(29)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    return (words >> np.uint64(33)).astype(np.int64)


def _instants(micros: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    return pa.array(micros + START_US).cast(_TIME)
