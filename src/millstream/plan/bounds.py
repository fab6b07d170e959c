"""How far apart in time the rows of a join can be.

Owns the arithmetic of time bounds: conditions such as `b.ts BETWEEN a.ts - INTERVAL 5 SECONDS AND
a.ts` are differences that are bounded, and what follows from several of them is a shortest path.
Everything is in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf

from sqlglot import exp

from millstream.model.errors import MillstreamError
from millstream.model.schema import folded
from millstream.sql.intervals import interval_micros

Column = tuple[str, str]
"""(alias, column), in lower case."""


@dataclass(frozen=True, slots=True)
class Clock:
    """A column that tells the event time of its row: it is in `[column - ahead, column - ahead + behind]`."""

    alias: str
    behind: int = 0
    ahead: int = 0


def time_bounds(conditions: Iterable[exp.Expr], clocks: Mapping[Column, Clock]) -> dict[tuple[str, str], float]:
    """For aliases (a, b): the largest `time of b - time of a` of rows that meet the conditions.

    >>> from sqlglot import parse_one
    >>> on = parse_one("b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS", dialect="spark")
    >>> bounds = time_bounds([on], {("a", "ts"): Clock("a"), ("b", "ts"): Clock("b")})
    >>> bounds["a", "b"], bounds["b", "a"]
    (5000000, 0)
    """
    aliases = sorted({clock.alias for clock in clocks.values()})
    reach: dict[tuple[str, str], float] = {(a, b): (0 if a == b else inf) for a in aliases for b in aliases}
    for condition in conditions:
        for low, high, most in _differences(condition, clocks):
            reach[low, high] = min(reach[low, high], most)
    for via in aliases:
        for a in aliases:
            for b in aliases:
                reach[a, b] = min(reach[a, b], reach[a, via] + reach[via, b])
    return reach


def _differences(condition: exp.Expr, clocks: Mapping[Column, Clock]) -> list[tuple[str, str, float]]:
    """What a condition says: (a, b, most), meaning `time of b - time of a <= most`."""
    match condition:
        case exp.Paren():
            return _differences(condition.this, clocks)
        case exp.Between():
            low = exp.GTE(this=condition.this, expression=condition.args["low"])
            high = exp.LTE(this=condition.this, expression=condition.args["high"])
            return _differences(low, clocks) + _differences(high, clocks)
        case exp.EQ():
            pairs = [(condition.this, condition.expression), (condition.expression, condition.this)]
        case exp.LT() | exp.LTE():
            pairs = [(condition.this, condition.expression)]
        case exp.GT() | exp.GTE():
            pairs = [(condition.expression, condition.this)]
        case _:
            return []
    found: list[tuple[str, str, float]] = []
    for smaller, larger in pairs:
        left, right = _instant(smaller), _instant(larger)
        if left is None or right is None or left[0] not in clocks or right[0] not in clocks:
            continue
        later, earlier = clocks[left[0]], clocks[right[0]]
        if later.alias != earlier.alias:
            most = right[1] - left[1] + later.behind - later.ahead + earlier.ahead
            found.append((earlier.alias, later.alias, most))
    return found


def _instant(node: exp.Expr) -> tuple[Column, int] | None:
    """A column plus a constant: (column, micros)."""
    match node:
        case exp.Paren():
            return _instant(node.this)
        case exp.Column():
            return (folded(node.table), folded(node.name)), 0
        case exp.Add() | exp.Sub():
            interval, rest = node.expression, node.this
            if isinstance(rest, exp.Interval) and isinstance(node, exp.Add):
                interval, rest = rest, interval
            inner = _instant(rest)
            if inner is None or not isinstance(interval, exp.Interval):
                return None
            try:
                micros = interval_micros(interval, None)
            except MillstreamError:
                return None
            return inner[0], inner[1] + (micros if isinstance(node, exp.Add) else -micros)
        case _:
            return None
