"""How far processing has come: of streams, of windows, of a whole database.

Plain data that the store keeps and everybody above it may know. Instants are microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millstream.model.lateness import Lateness

BEGINNING = -(2**62)
"""An instant before all others: the watermark of a stream that had no event yet."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stream, or a view that is catching up, has come. Per partition, by number."""

    offsets: Mapping[int, int] = field(default_factory=dict)
    newest: Mapping[int, int] = field(default_factory=dict)
    active_at: Mapping[int, int] = field(default_factory=dict)
    """When the partition last brought a row, in processing time."""
    watermark: int = BEGINNING
    clock: int = BEGINNING
    """Up to which processing time all rows have been read: what closes windows on processing time."""
    lateness: Lateness | None = None
    """How late rows have been, where the slack follows that."""


@dataclass(frozen=True, slots=True)
class Completeness:
    """Rows of windows that fired: those that were there, and those that came later as far as is known."""

    on_time: int
    later: int
    last_on_time: int
    last_later: int
    """The same of the last window that fired."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the recorded epochs of a database."""

    committed_at: int | None = None
    """When the last epoch was committed; None before the first."""
    rows_in: int = 0
    rows_late: int = 0
    rows_dead: int = 0
    """Rows that could not be decoded."""
    rows_failed: int = 0
    """Rows on which an expression of a view failed, once per view."""
