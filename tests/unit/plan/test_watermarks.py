"""Watermarks move by rules that need no engine."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millstream.plan.watermarks import advance, next_idle_at

by_partition = st.dictionaries(st.integers(0, 3), st.integers(-100, 100), max_size=4)


@given(watermark=st.integers(-100, 100), newest=by_partition, active=by_partition, now=st.integers(0, 300))
def test_a_watermark_never_goes_back(watermark: int, newest: dict[int, int], active: dict[int, int], now: int) -> None:
    assert advance(watermark, newest, active, slack=5, idle_timeout=10, now=now) >= watermark


def test_the_slowest_partition_holds_it() -> None:
    assert advance(0, {0: 100, 1: 40}, {0: 1, 1: 1}, slack=5, idle_timeout=None, now=1_000) == 35


def test_an_idle_partition_does_not() -> None:
    assert advance(0, {0: 100, 1: 40}, {0: 95, 1: 80}, slack=5, idle_timeout=10, now=100) == 95


def test_when_all_are_idle_the_newest_event_counts() -> None:
    assert advance(0, {0: 100, 1: 40}, {0: 1, 1: 1}, slack=5, idle_timeout=10, now=100) == 95


def test_a_partition_without_events_does_not_count() -> None:
    assert advance(0, {1: 40}, {1: 1}, slack=0, idle_timeout=None, now=2) == 40
    assert advance(7, {}, {}, slack=0, idle_timeout=None, now=2) == 7


def test_the_next_partition_to_become_idle() -> None:
    assert next_idle_at({0: 10, 1: 20}, 5, now=16) == 25
    assert next_idle_at({0: 10}, 5, now=11) is None
    assert next_idle_at({0: 10, 1: 20}, None, now=11) is None
