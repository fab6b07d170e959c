"""What a table must hold, said as plainly as possible: the oracle of its tests.

A change is applied to a dict, one after the other, in the order of arrival. Nothing here is shared with
the code under test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Mode = Literal["plain", "arrival", "event"]
FOREVER = 2**62


@dataclass(frozen=True, slots=True)
class Change:
    """`value` is None for a deletion; `at` is the event time, in microseconds."""

    key: int
    value: str | None
    sequence: int = 0
    at: int = 0


Row = tuple[int, str, int, int]
"""(key, value, sequence, event time)"""
Version = tuple[int, str, int, int, int, int]
"""A row, from, to"""


def row_of(change: Change) -> Row | None:
    return None if change.value is None else (change.key, change.value, change.sequence, change.at)


@dataclass(slots=True)
class TableModel:
    mode: Mode
    has_sequence: bool
    history: int | None = None
    _latest: dict[int, Change] = field(default_factory=dict)
    _events: dict[int, dict[int, Change]] = field(default_factory=dict)
    """Of each key, what happened at which instant."""
    _newest: int | None = None

    def epoch(self, changes: Sequence[Change], now: int) -> None:
        before = self.rows()
        for change in changes:
            self._newest = change.at if self._newest is None else max(self._newest, change.at)
            if self.mode == "event":
                self._put(self._events.setdefault(change.key, {}), change.at, change)
            else:
                self._put(self._latest, change.key, change)
        if self.mode == "arrival":
            after = self.rows()
            for key in before.keys() | after.keys():
                if before.get(key) != after.get(key):
                    self._events.setdefault(key, {})[now] = self._latest[key]

    def _put(self, known: dict[int, Change], place: int, change: Change) -> None:
        other = known.get(place)
        if other is None or not self.has_sequence or change.sequence >= other.sequence:
            known[place] = change

    def rows(self) -> dict[int, Row]:
        """What the table holds now, by key."""
        latest = self._latest
        if self.mode == "event":
            latest = {key: events[max(events)] for key, events in self._events.items()}
        return {key: row for key, change in latest.items() if (row := row_of(change)) is not None}

    def versions(self, now: int) -> set[Version]:
        """All versions that are kept."""
        reached = now if self.mode == "arrival" else self._newest
        horizon = None if self.history is None or reached is None else reached - self.history
        found: set[Version] = set()
        for events in self._events.values():
            instants = sorted(events)
            for start, end in zip(instants, [*instants[1:], FOREVER], strict=True):
                row = row_of(events[start])
                if row is not None and (horizon is None or end > horizon):
                    found.add((*row, start, end))
        return found
