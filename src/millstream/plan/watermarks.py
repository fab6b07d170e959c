"""How watermarks move: pure functions of what arrived and what time it is.

What always holds: a watermark never goes back. It trails the newest event of the slowest partition
that is not idle by the slack; a partition that never had an event does not count.
"""

from __future__ import annotations

from collections.abc import Mapping

from millstream.model.lateness import Lateness
from millstream.sql.statements import Watermark


def advance(
    watermark: int,
    newest: Mapping[int, int],
    active_at: Mapping[int, int],
    *,
    slack: int,
    idle_timeout: int | None,
    now: int,
) -> int:
    """The watermark after an epoch.

    >>> advance(0, {0: 100, 1: 60}, {0: 5, 1: 5}, slack=10, idle_timeout=None, now=9)
    50
    >>> advance(0, {0: 100, 1: 60}, {0: 5, 1: 1}, slack=10, idle_timeout=6, now=9)
    90
    """
    if not newest:
        return watermark
    busy = [at for partition, at in newest.items() if not is_idle(active_at.get(partition), idle_timeout, now)]
    # When all are idle none of them is being waited for.
    reached = min(busy) if busy else max(newest.values())
    return max(watermark, reached - slack)


def is_idle(active_at: int | None, idle_timeout: int | None, now: int) -> bool:
    return idle_timeout is not None and active_at is not None and now - active_at >= idle_timeout


def next_idle_at(active_at: Mapping[int, int], idle_timeout: int | None, now: int) -> int | None:
    """When the next partition becomes idle, if that can still move the watermark."""
    if idle_timeout is None or len(active_at) < 2:
        return None
    return min((at + idle_timeout for at in active_at.values() if at + idle_timeout > now), default=None)


def slack_of(watermark: Watermark, lateness: Lateness | None) -> int | None:
    """How far the watermark of a stream runs behind now; None while it waits for enough rows."""
    if watermark.percentile is None:
        return watermark.slack
    return lateness.slack(watermark.percentile) if lateness is not None else None
