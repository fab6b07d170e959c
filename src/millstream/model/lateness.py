"""How late rows are, and the slack that follows: the arithmetic of `WATERMARK FOR … AT PERCENTILE p`.

The lateness of a row is how far its event time lies behind the newest that its partition had brought
before it, at least 0. Owns the sketch of these: counts by bucket, each bucket at most 1/128 of its
values wide. Counts are whole numbers and merging is addition, so the same epochs always give the same
slack. Knows nothing of Spark or the store but the SQL text of a bucket.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

Counts = Mapping[int, int]
"""Rows by bucket."""

_BITS = 7
_WIDTH = 1 << _BITS
# How many rows should lie above the percentile before it is believed, and how many a generation has of them.
_TAIL_ROWS = 10
_GENERATION_TAIL_ROWS = 10 * _TAIL_ROWS
_MOST_ENOUGH = 10_000


def bucket(micros: int) -> int:
    """The bucket of a lateness: up to 255 µs its own, then 128 between a power of two and the next.

    >>> [bucket(n) for n in (0, 127, 255, 256, 257, 258)]
    [0, 127, 255, 256, 256, 257]
    """
    shift = max(0, micros.bit_length() - 1 - _BITS)
    return shift * _WIDTH + (micros >> shift)


def highest(bucket_: int) -> int:
    """The highest lateness of a bucket.

    >>> [highest(bucket(n)) for n in (127, 255, 256, 1_000_000)]
    [127, 255, 257, 1003519]
    """
    shift = max(0, bucket_ // _WIDTH - 1)
    return ((bucket_ - shift * _WIDTH + 1) << shift) - 1


def buckets_sql(relation: str, micros: str) -> str:
    """`bucket` of a column of a relation as `__bucket`, in Spark SQL."""
    # A logarithm can be off by a little right where it matters, so the exponent is put right.
    guess = f"SELECT {micros} AS v, CAST(floor(log2(greatest({micros}, 1L))) AS INT) AS g FROM {relation}"
    exponent = "g - IF(shiftleft(1L, g) > v, 1, 0) + IF(shiftleft(1L, g + 1) <= v, 1, 0)"
    shift = f"SELECT v, greatest({exponent} - {_BITS}, 0) AS s FROM ({guess})"
    return f"(SELECT s * {_WIDTH}L + shiftright(v, s) AS __bucket FROM ({shift}))"


def enough_rows(percentile: float) -> int:
    """How many rows must have been seen before there is a slack.

    >>> [enough_rows(p) for p in (0.5, 0.9, 0.99, 1.0)]
    [20, 100, 1000, 10000]
    """
    return min(_MOST_ENOUGH, _rows_with_tail(percentile, _TAIL_ROWS) or _MOST_ENOUGH)


def generation_rows(percentile: float) -> int:
    """How many rows make a generation; one or two of them are what the slack is taken from.

    >>> [generation_rows(p) for p in (0.5, 0.99, 1.0)]
    [200, 10000, 100000]
    """
    most = _MOST_ENOUGH * _GENERATION_TAIL_ROWS // _TAIL_ROWS
    return min(most, _rows_with_tail(percentile, _GENERATION_TAIL_ROWS) or most)


def _rows_with_tail(percentile: float, tail: int) -> int | None:
    share = 1 - _exact(percentile)
    return ceil(tail / share) if share else None


def _exact(percentile: float) -> Fraction:
    """The number as it was written, so that 1 - 0.9 is a tenth."""
    return Fraction(repr(percentile))


@dataclass(frozen=True, slots=True)
class Lateness:
    """The lateness of the rows of a stream, in two generations: the older one is forgotten when the younger is full."""

    recent: Counts = field(default_factory=dict)
    earlier: Counts = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(self.recent.values()) + sum(self.earlier.values())

    def add(self, counts: Counts, percentile: float) -> Lateness:
        """With the rows of an epoch. An epoch is never divided between generations."""
        if not counts:
            return self
        recent = _merged(self.recent, counts)
        if sum(recent.values()) >= generation_rows(percentile):
            return Lateness({}, recent)
        return Lateness(recent, self.earlier)

    def slack(self, percentile: float) -> int | None:
        """A lateness that at least this share of the rows do not exceed; None while too few were seen."""
        total = self.rows
        if total < enough_rows(percentile):
            return None
        wanted = ceil(_exact(percentile) * total)
        seen = 0
        for number, rows in sorted(_merged(self.recent, self.earlier).items()):
            seen += rows
            if seen >= wanted:
                return highest(number)
        raise AssertionError(wanted)


def _merged(one: Counts, other: Counts) -> dict[int, int]:
    merged = dict(one)
    for number, rows in other.items():
        merged[number] = merged.get(number, 0) + rows
    return merged
