"""Windows: which rows they hold, where they begin and end, when no row can reach them any more.

Owns the arithmetic. Everything is in microseconds; ends are exclusive, except that a sliding window
ends *with* its event. There are four kinds, and each answers the same questions: `pane_sql` (by what
Spark groups rows), `start_sql` and `end_sql` (the bounds, over the state), `complete_sql` (when the
watermark has passed it), `complete_at` and `is_late_sql` (the same of a row of the delta).

A *pane* is what Spark aggregates rows by, the store makes windows of the few panes. For hopping
windows it is the widest stretch of time that no window boundary cuts; for a session a stretch as
long as the gap, whose rows cannot be in two sessions; for a sliding window an instant.

A window without a time column is on processing time: the instant at which its rows landed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from typing import Any

Column = Callable[[str], Any]
"""A column of a delta by its name, as an array."""


def remainder_sql(instant: str, offset: int, size: int) -> str:
    """How far an instant is past the last multiple of a size, in the SQL of both sides, whose `%` has the sign of the
    instant.

    >>> remainder_sql("t", 0, 10), remainder_sql("t", 3, 10)
    ('((t % 10 + 10) % 10)', '(((t - 3) % 10 + 10) % 10)')
    """
    shifted = f"({instant} - {offset})" if offset else instant
    return f"(({shifted} % {size} + {size}) % {size})"


@dataclass(frozen=True, slots=True)
class Window:
    """Windows `[start, start + size)` for every start = offset + n * slide.

    >>> hop = Window("ts", size=10, slide=2)
    >>> hop.pane_size
    2
    >>> hop.starts(pane=12)
    [12, 10, 8, 6, 4]
    """

    time_column: str | None
    size: int
    slide: int
    offset: int = 0

    @property
    def on_clock(self) -> bool:
        return self.time_column is None

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

    @property
    def start_sql(self) -> str:
        return "__ws"

    @property
    def end_sql(self) -> str:
        return f"__ws + {self.size}"

    @property
    def complete_sql(self) -> str:
        return self.end_sql

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
        return f"({pane} - {remainder_sql(pane, self.offset, self.slide)})"

    def is_late_sql(self, pane: str, closed_before: str) -> str:
        """Whether every window of a pane ended at or before an instant, in the SQL of both sides."""
        return f"({self.newest_start_sql(pane)} + {self.size} <= {closed_before})"

    def complete_at(self, column: Column) -> Any:
        return self.newest_start(column("__pane")) + self.size

    def pane_sql(self, instant: str) -> str:
        """The start of the pane of an instant, in Spark SQL."""
        return f"{instant} - pmod({instant} - {self.offset}L, {self.pane_size}L)"

    def pane_in_store(self, instant: str) -> str:
        """The same in the store's SQL."""
        return f"({instant} - {remainder_sql(instant, self.offset, self.pane_size)})"

    def ends_between(self, before: int, after: int) -> bool:
        """Whether a window ends after one instant and not after another.

        >>> [Window("ts", size=10, slide=10).ends_between(*bounds) for bounds in ((9, 10), (10, 19))]
        [True, False]
        """
        first, last = ((instant - self.offset - self.size) // self.slide for instant in (before, after))
        return last > first

    def in_gap_sql(self, instant: str) -> str:
        """Whether an instant belongs to no window, in Spark SQL."""
        return f"pmod({instant} - {self.offset}L, {self.slide}L) >= {self.size}L"


@dataclass(frozen=True, slots=True)
class SessionWindow:
    """Sessions of a key: events less than `gap` apart, up to `gap` after the last one.

    The state has their bounds as `__ws` and `__we`; a row of the delta has the instants of its first
    and last event as `__first` and `__last`.
    """

    time_column: str | None
    gap: int
    partition_by: tuple[str, ...] = ()

    @property
    def on_clock(self) -> bool:
        return self.time_column is None

    @property
    def start_sql(self) -> str:
        return "__ws"

    @property
    def end_sql(self) -> str:
        return "__we"

    @property
    def complete_sql(self) -> str:
        return "__we"

    def pane_sql(self, instant: str) -> str:
        # Two rows of one stretch are less than the gap apart, wherever the stretches begin.
        return f"{instant} - pmod({instant}, {self.gap}L)"

    def complete_at(self, column: Column) -> Any:
        return column("__last") + self.gap


@dataclass(frozen=True, slots=True)
class SlideWindow:
    """For every event of a key at `t`, the events of the key in `(t - size, t]`.

    The state has a row for every instant of a key, with `__ws` = t - size.
    """

    time_column: str | None
    size: int
    partition_by: tuple[str, ...] = ()

    @property
    def on_clock(self) -> bool:
        return self.time_column is None

    @property
    def start_sql(self) -> str:
        return "__ws"

    @property
    def end_sql(self) -> str:
        return f"__ws + {self.size}"

    @property
    def complete_sql(self) -> str:
        # An event at the watermark itself is still in order.
        return f"__ws + {self.size + 1}"

    def pane_sql(self, instant: str) -> str:
        return instant

    def complete_at(self, column: Column) -> Any:
        return column("__pane") + 1


@dataclass(frozen=True, slots=True)
class CountWindow:
    """The last `rows` events of a key, at every `slide`-th event from the `rows`-th on.

    No time closes them. The bounds are the event times of the first and the last event.
    """

    rows: int
    slide: int
    partition_by: tuple[str, ...] = ()

    @property
    def on_clock(self) -> bool:
        return False

    @property
    def start_sql(self) -> str:
        return "__ws"

    @property
    def end_sql(self) -> str:
        return "__we"

    def ends_at_sql(self, number: str) -> str:
        """Whether a window ends with the event of some number (from 1), in the store's SQL."""
        return f"({number} >= {self.rows} AND ({number} - {self.rows}) % {self.slide} = 0)"

    def next_end_sql(self, count: str) -> str:
        """The number of the event with which the next window ends after `count` events, likewise."""
        ended = f"greatest(({count} - {self.rows}) // {self.slide} + 1, 0)"
        return f"IF({count} < {self.rows}, {self.rows}, {self.rows} + {ended} * {self.slide})"


TimeWindow = Window | SessionWindow | SlideWindow
AnyWindow = TimeWindow | CountWindow
KeyedWindow = SessionWindow | SlideWindow | CountWindow
"""Windows of a key: they say themselves by what the rows are grouped."""
