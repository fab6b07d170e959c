"""Comparing relations, and replaying a changelog."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from typing import Any

from .rows import Row

HEADER = ("epoch", "op", "pane", "pane_index", "final")


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _order(row: Row, columns: tuple[str, ...]) -> list[tuple[bool, str]]:
    return [(row[name] is None, repr(_plain(row[name]))) for name in columns]


def _same(left: Any, right: Any) -> bool:
    left, right = _plain(left), _plain(right)
    if isinstance(left, float) or isinstance(right, float):
        if left is None or right is None:
            return left is right
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
    return bool(left == right)


def difference(actual: list[Row], expected: list[Row], keys: tuple[str, ...]) -> str | None:
    """Why two relations are not the same multiset of rows; None if they are."""
    columns = keys or tuple(expected[0] if expected else actual[0] if actual else ())
    actual = sorted(actual, key=lambda row: _order(row, columns))
    expected = sorted(expected, key=lambda row: _order(row, columns))
    for left, right in zip(actual, expected, strict=False):
        if list(left) != list(right):
            return f"columns {list(left)} instead of {list(right)}"
        wrong = [name for name in left if not _same(left[name], right[name])]
        if wrong:
            return f"{wrong} differ:\n  is        {left}\n  should be {right}"
    if len(actual) != len(expected):
        longer, word = (actual, "too many") if len(actual) > len(expected) else (expected, "missing")
        return f"{len(actual)} rows instead of {len(expected)}; {word}: {longer[min(len(actual), len(expected))]}"
    return None


def _frozen(row: Row) -> tuple[Any, ...]:
    return tuple(repr(_plain(value)) for value in row.values())


class Replay:
    """A relation rebuilt from nothing but the changes of a view."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._keys = keys
        self._by_key: dict[tuple[Any, ...], Row] = {}
        self._bag: Counter[tuple[Any, ...]] = Counter()
        self._rows: dict[tuple[Any, ...], Row] = {}

    def apply(self, changes: list[Row]) -> None:
        for change in changes:
            row = {name: value for name, value in change.items() if name not in HEADER}
            match change["op"]:
                case "upsert":
                    self._by_key[self._key(row)] = row
                case "delete":
                    assert self._by_key.pop(self._key(row), None) is not None, f"nothing to delete: {change}"
                case "insert":
                    self._bag[_frozen(row)] += 1
                    self._rows[_frozen(row)] = row
                case "retract":
                    assert self._bag[_frozen(row)] > 0, f"nothing to retract: {change}"
                    self._bag[_frozen(row)] -= 1
                case op:
                    raise AssertionError(f"no such op: {op}")

    def _key(self, row: Row) -> tuple[Any, ...]:
        return tuple(repr(row[name]) for name in self._keys)

    def rows(self) -> list[Row]:
        inserted = [self._rows[frozen] for frozen, count in self._bag.items() for _ in range(count)]
        return [*self._by_key.values(), *inserted]
