"""Triggers: when a view publishes.

Owns the functions that make the parts of `Emit`, which is what the EMIT clause of StreamSQL
becomes too. A part is checked when it is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from millstream.builder.literals import Duration, duration_micros
from millstream.model.errors import MillstreamError, did_you_mean
from millstream.sql.statements import Accumulation, Emit, EveryEpoch, EveryInterval, EveryRows, Rate


@dataclass(frozen=True, slots=True)
class OnWatermark:
    """See `on_watermark`."""

    early: Rate | None = None
    late: Rate | None = None


Trigger = Rate | OnWatermark


def on_epoch() -> EveryEpoch:
    """After every epoch that changed something.

    >>> print(ms.stream("bids").agg(n=ms.count()).emit(ms.on_epoch(), accumulate="retracting"))
    SELECT
      COUNT(*) AS n
    FROM bids
    EMIT ON EPOCH RETRACTING
    """
    return EveryEpoch()


def every(interval: Duration | None = None, *, rows: int | None = None) -> EveryInterval | EveryRows:
    """Every so often in processing time, or after so many rows.

    >>> every("5 seconds"), every(rows=3)
    (EveryInterval(micros=5000000), EveryRows(count=3))
    """
    if (interval is None) == (rows is None):
        raise MillstreamError(
            "BAD_EMIT", "every takes an interval or a number of rows", hint='ms.every("5 seconds") or ms.every(rows=3)'
        )
    if interval is not None:
        return EveryInterval(duration_micros(interval, positive="interval between two firings"))
    if type(rows) is not int or rows < 1:
        raise MillstreamError("BAD_EMIT", f"every(rows=…) needs a whole number of at least 1, not {rows!r}")
    return EveryRows(rows)


def on_watermark(*, early: Rate | None = None, late: Rate | None = None) -> OnWatermark:
    """When the watermark says that a window is complete; before that and after it as given.

    >>> per_minute = ms.stream("bids", event_time="ts").window(ms.Tumble("1 minute")).agg(n=ms.count())
    >>> late = per_minute.emit(ms.on_watermark(early=ms.every(rows=3), late=ms.on_epoch()), lateness="1 hour")
    >>> print(late.to_sql().splitlines()[-1])
    EMIT EARLY EVERY 3 ROWS ON WATERMARK LATE ON EPOCH ACCUMULATING ALLOWED LATENESS INTERVAL 1 HOUR
    """
    for word, rate in (("early", early), ("late", late)):
        if rate is not None and not isinstance(rate, Rate):
            raise MillstreamError("BAD_EMIT", f"{word} takes a rate, not {rate!r}", hint="ms.every(…) or ms.on_epoch()")
    return OnWatermark(early, late)


def emit_of(trigger: Trigger, accumulate: Accumulation, lateness: Duration | None) -> Emit:
    """The EMIT clause of a trigger."""
    if accumulate not in get_args(Accumulation):
        raise MillstreamError(
            "BAD_EMIT",
            f"cannot accumulate by {accumulate!r}",
            hint=did_you_mean(str(accumulate), get_args(Accumulation)),
        )
    micros = None if lateness is None else duration_micros(lateness)
    if micros is not None and micros < 0:
        raise MillstreamError("BAD_EMIT", "the allowed lateness cannot be negative")
    match trigger:
        case OnWatermark(early, late):
            return Emit(on_watermark=True, early=early, late=late, accumulation=accumulate, lateness=micros)
        case EveryRows() | EveryInterval() | EveryEpoch():
            return Emit(repeatedly=trigger, accumulation=accumulate, lateness=micros)
        case _:
            raise MillstreamError(
                "BAD_EMIT",
                f"emit takes a trigger, not {trigger!r}",
                hint="ms.on_watermark(…), ms.every(…) or ms.on_epoch()",
            )
