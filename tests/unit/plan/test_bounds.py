"""Bounds in time that follow from the conditions of a join."""

from __future__ import annotations

from math import inf

import pytest
import sqlglot

from millstream.plan.bounds import Clock, time_bounds

CLOCKS = {(alias, "ts"): Clock(alias) for alias in "abc"}
SECOND = 1_000_000


def bounds(text: str) -> dict[tuple[str, str], float]:
    condition = sqlglot.parse_one(text, dialect="spark")
    parts = list(condition.flatten()) if isinstance(condition, sqlglot.exp.And) else [condition]
    return time_bounds(parts, CLOCKS)


@pytest.mark.parametrize(
    ("text", "forward", "back"),
    [
        ("b.ts = a.ts", 0, 0),
        ("b.ts >= a.ts", inf, 0),
        ("a.ts + INTERVAL 2 SECONDS < b.ts", inf, -2 * SECOND),
        ("b.ts BETWEEN a.ts - INTERVAL 1 MINUTE AND a.ts + INTERVAL 3 SECONDS", 3 * SECOND, 60 * SECOND),
        ("b.ts - INTERVAL 3 SECONDS <= a.ts AND b.ts >= a.ts - INTERVAL 5 SECONDS", 3 * SECOND, 5 * SECOND),
        ("(b.ts <= (a.ts + INTERVAL 3 SECONDS))", 3 * SECOND, inf),
        ("b.ts <= a.ts + INTERVAL 1 MONTH", inf, inf),
        ("b.ts <= a.ts * 2", inf, inf),
        ("b.ts > TIMESTAMP '2024-01-01'", inf, inf),
        ("NOT b.ts = a.ts", inf, inf),
    ],
)
def test_two_streams(text: str, forward: float, back: float) -> None:
    found = bounds(text)
    assert (found["a", "b"], found["b", "a"]) == (forward, back)


def test_bounds_add_up_along_a_chain() -> None:
    found = bounds(
        "b.ts BETWEEN a.ts AND a.ts + INTERVAL 2 SECONDS AND c.ts BETWEEN b.ts AND b.ts + INTERVAL 3 SECONDS"
    )
    assert found["a", "c"] == 5 * SECOND
    assert found["c", "a"] == 0


def test_equal_windows_are_less_than_a_window_apart() -> None:
    size = 10 * SECOND
    clocks = {
        (alias, column): Clock(alias, behind=size, ahead=size if column == "window_end" else 0)
        for alias in "ab"
        for column in ("window_start", "window_end")
    }
    for column in ("window_start", "window_end"):
        condition = sqlglot.parse_one(f"a.{column} = b.{column}", dialect="spark")
        found = time_bounds([condition], clocks)
        assert (found["a", "b"], found["b", "a"]) == (size, size)
