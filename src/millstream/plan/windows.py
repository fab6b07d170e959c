"""Windows of event time, and the panes that hopping windows share.

Owns the arithmetic: which pane an instant falls into, which windows a pane belongs to, when a
pane has no window left to correct. Everything is in microseconds; ends are exclusive.

A *pane* is the widest stretch of time that no window boundary cuts: Spark aggregates rows by
pane, the store spreads the few panes over their windows. A tumbling window is its own pane.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any


@dataclass(frozen=True, slots=True)
class Window:
    """Windows `[start, start + size)` for every start = offset + n * slide.

    >>> hop = Window("ts", size=10, slide=2)
    >>> hop.pane_size
    2
    >>> hop.starts(pane=12)
    [12, 10, 8, 6, 4]
    """

    time_column: str
    size: int
    slide: int
    offset: int = 0

    @property
    def pane_size(self) -> int:
        return gcd(self.size, self.slide)

    @property
    def is_tumbling(self) -> bool:
        return self.size == self.slide

    @property
    def has_gaps(self) -> bool:
        """Whether some instants belong to no window."""
        return self.slide > self.size

    def starts(self, pane: int) -> list[int]:
        """The starts of the windows that hold a pane, the newest first."""
        return list(range(self.newest_start(pane), pane - self.size, -self.slide))

    def newest_start(self, pane: Any) -> Any:
        """The start of the newest window that holds a pane; of one, or of an array of them."""
        return pane - (pane - self.offset) % self.slide

    def newest_start_sql(self, pane: str) -> str:
        """`starts(pane)[0]` in the store's SQL."""
        if self.is_tumbling:
            return pane
        shifted = f"({pane} - {self.offset})"
        return f"({pane} - (({shifted} % {self.slide}) + {self.slide}) % {self.slide})"

    def is_late_sql(self, pane: str, closed_before: str) -> str:
        """Whether every window of a pane ended at or before an instant, in the store's SQL."""
        return f"({self.newest_start_sql(pane)} + {self.size} <= {closed_before})"

    def pane_sql(self, instant: str) -> str:
        """The start of the pane of an instant, in Spark SQL."""
        return f"{instant} - pmod({instant} - {self.offset}L, {self.pane_size}L)"

    def in_gap_sql(self, instant: str) -> str:
        """Whether an instant belongs to no window, in Spark SQL."""
        return f"pmod({instant} - {self.offset}L, {self.slide}L) >= {self.size}L"
