"""Windows: how the rows of a stream are grouped by time or by number.

Owns one frozen class per window of StreamSQL and its table function. A window is checked when it
is made. The columns it needs come from the relation: the time column is `on` or the relation's
event time, and the key of a keyed window is `by` or what the relation is grouped by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from millstream.builder.literals import Duration, duration_micros, identifier, interval
from millstream.model.errors import MillstreamError
from millstream.sql.windows import WindowFunction

BOUNDS = ("window_start", "window_end")


@dataclass(frozen=True, slots=True)
class Tumble:
    """Windows of one size, one after the other.

    >>> print(ms.stream("bids", event_time="ts").window(ms.Tumble("1 minute")).agg(n=ms.count()))
    SELECT
      window_start,
      window_end,
      COUNT(*) AS n
    FROM TUMBLE(bids, ts, INTERVAL '1' MINUTE)
    GROUP BY
      window_start,
      window_end
    """

    size: Duration
    on: str | None = None
    offset: Duration | None = None

    def __post_init__(self) -> None:
        duration_micros(self.size, positive="size of a window")
        if self.offset is not None:
            duration_micros(self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """Windows of one size that begin every `slide`; they overlap where that is shorter.

    >>> bids = ms.stream("bids", event_time="ts")
    >>> print(bids.window(ms.Hop(slide="2 seconds", size="10 seconds")).select("auction", "window_end"))
    SELECT
      auction,
      window_end
    FROM HOP(bids, ts, INTERVAL '2' SECONDS, INTERVAL '10' SECONDS)
    """

    slide: Duration
    size: Duration
    on: str | None = None
    offset: Duration | None = None

    def __post_init__(self) -> None:
        duration_micros(self.slide, positive="slide of a window")
        duration_micros(self.size, positive="size of a window")
        if self.offset is not None:
            duration_micros(self.offset)


@dataclass(frozen=True, slots=True)
class Session:
    """For every key, rows that follow one another within a gap.

    >>> clicks = ms.stream("clicks", event_time="ts")
    >>> print(clicks.window(ms.Session("30 minutes")).group_by("user").agg(n=ms.count()))
    SELECT
      window_start,
      window_end,
      user,
      COUNT(*) AS n
    FROM SESSION(clicks PARTITION BY user, ts, INTERVAL '30' MINUTES)
    GROUP BY
      window_start,
      window_end,
      user
    """

    gap: Duration
    on: str | None = None
    by: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        duration_micros(self.gap, positive="gap of a session")


@dataclass(frozen=True, slots=True)
class Slide:
    """For every row, the rows of its key up to `size` before it.

    >>> clicks = ms.stream("clicks", event_time="ts")
    >>> print(clicks.window(ms.Slide("1 hour", by="user")).agg(n=ms.count()))
    SELECT
      window_start,
      window_end,
      COUNT(*) AS n
    FROM SLIDE(clicks PARTITION BY user, ts, INTERVAL '1' HOUR)
    GROUP BY
      window_start,
      window_end
    """

    size: Duration
    on: str | None = None
    by: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        duration_micros(self.size, positive="size of a window")


@dataclass(frozen=True, slots=True)
class CountWindow:
    """For every key, `rows` rows at a time; with `slide`, anew after so many rows.

    >>> print(ms.stream("bids").window(ms.CountWindow(100, slide=10)).group_by("auction").agg(top=ms.max("price")))
    SELECT
      window_start,
      window_end,
      auction,
      MAX(price) AS top
    FROM COUNT_WINDOW(bids PARTITION BY auction, 100, 10)
    GROUP BY
      window_start,
      window_end,
      auction
    """

    rows: int
    slide: int | None = None
    by: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        for what, number in (("rows", self.rows), ("slide", self.slide)):
            if number is not None and (type(number) is not int or number < 1):
                raise MillstreamError("BAD_WINDOW", f"{what} is a whole number of at least 1, not {number!r}")


Window = Tumble | Hop | Session | Slide | CountWindow
KEYED = Session | Slide | CountWindow


def key_columns(window: Window) -> tuple[str, ...] | None:
    """The key that a window names itself, or None."""
    by = window.by if isinstance(window, KEYED) else None
    if by is None:
        return None
    return (by,) if isinstance(by, str) else tuple(by)


def window_call(window: Window, relation: str, time_column: str | None, keys: Sequence[str]) -> WindowFunction:
    """The table function of a window over a relation."""
    arguments: list[exp.Expr] = [identifier(key) for key in keys]
    if time_column is not None:
        arguments.append(identifier(time_column))
    match window:
        case Tumble(size):
            function, durations = "TUMBLE", [size]
        case Hop(slide=slide, size=size):
            function, durations = "HOP", [slide, size]
        case Session(gap):
            function, durations = "SESSION", [gap]
        case Slide(size):
            function, durations = "SLIDE", [size]
        case CountWindow(rows, rows_slide):
            function, durations = "COUNT_WINDOW", []
            arguments.extend(exp.Literal.number(n) for n in (rows, rows_slide) if n is not None)
    if isinstance(window, Tumble | Hop) and window.offset is not None:
        durations.append(window.offset)
    arguments.extend(interval(duration_micros(duration)) for duration in durations)
    return WindowFunction(this=identifier(relation), function=function, partitioned=bool(keys), expressions=arguments)
