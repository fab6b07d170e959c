"""Instants, durations and clocks.

Instants are UTC microseconds since 1970-01-01 held in an `int`, durations are microseconds.
Processing time is read only through a `Clock`, so that a test can hold it in its hand.
"""

from __future__ import annotations

import re
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable

from millstream.model.errors import MillstreamError

MICROS = 1_000_000
EPOCH = datetime(1970, 1, 1)

_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": MICROS,
    "minute": 60 * MICROS,
    "hour": 3_600 * MICROS,
    "day": 86_400 * MICROS,
    "week": 7 * 86_400 * MICROS,
}
_ABBREVIATIONS = {
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "m": "minute",
    "min": "minute",
    "h": "hour",
    "d": "day",
    "w": "week",
}


def unit_micros(unit: str) -> int | None:
    """Microseconds in a unit written in any usual way (`SECONDS`, `second`, `s`), or None."""
    name = unit.lower()
    name = _ABBREVIATIONS.get(name, name)
    return _UNITS.get(name, _UNITS.get(name.removesuffix("s")))


def parse_duration(text: str) -> int:
    """Microseconds of `'30 seconds'`, `'1 hour 30 minutes'`, `'250ms'`.

    >>> parse_duration("1 minute 30 seconds") // MICROS
    90
    """
    pieces = re.findall(r"([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)", text)
    rest = re.sub(r"([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)", "", text).strip(" ,")
    total = 0
    if pieces and not rest:
        for number, unit in pieces:
            micros = unit_micros(unit)
            if micros is None:
                break
            whole, _, fraction = number.partition(".")
            sign = -1 if whole.startswith("-") else 1
            total += int(whole) * micros
            if fraction:
                total += sign * int(fraction) * micros // 10 ** len(fraction)
        else:
            return total
    raise MillstreamError(
        "BAD_DURATION",
        f"{text!r} is not a duration",
        hint="write a number and a unit, as in '30 seconds', '5 minutes' or '1 hour 30 minutes'",
    )


def format_duration(micros: int) -> str:
    """The shortest exact spelling of a duration, in one unit.

    >>> format_duration(90 * MICROS)
    '90 seconds'
    """
    for unit in ("day", "hour", "minute", "second", "millisecond"):
        size = _UNITS[unit]
        if micros and micros % size == 0:
            count = micros // size
            return f"{count} {unit}" + ("" if abs(count) == 1 else "s")
    return "0 seconds" if micros == 0 else f"{micros} microseconds"


def about_duration(micros: int) -> str:
    """A duration to four digits or so, in the unit that reads best.

    >>> [about_duration(n) for n in (0, 250, 1_234_567, 2 * 3600 * MICROS)]
    ['0 seconds', '250 microseconds', '1.235 seconds', '2 hours']
    """
    for unit in ("day", "hour", "minute", "second", "millisecond"):
        if micros >= _UNITS[unit]:
            count = f"{micros / _UNITS[unit]:.3f}".rstrip("0").rstrip(".")
            return f"{count} {unit}" + ("" if count == "1" else "s")
    return format_duration(micros)


def to_datetime(micros: int) -> datetime:
    """The naive UTC datetime of an instant."""
    return EPOCH + timedelta(microseconds=micros)


def to_micros(instant: datetime) -> int:
    """The instant of a datetime; a naive one is taken as UTC."""
    if instant.tzinfo is not None:
        instant = instant.astimezone(UTC).replace(tzinfo=None)
    return (instant - EPOCH) // timedelta(microseconds=1)


@runtime_checkable
class Clock(Protocol):
    """Processing time."""

    def now(self) -> int:
        """Microseconds since 1970, UTC."""

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        """Wait on a held condition until it is notified or the time has passed on this clock."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        condition.wait(seconds)


class ManualClock:
    """A clock that stands still until it is told to move.

    >>> clock = ManualClock(0)
    >>> clock.advance(2.5)
    >>> clock.now()
    2500000
    """

    def __init__(self, start: float = 0) -> None:
        self._now = round(start * MICROS)
        self._moved = threading.Condition()
        self._listeners: list[threading.Condition] = []

    def now(self) -> int:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move forward; whoever waits on this clock looks again."""
        if seconds < 0:
            raise MillstreamError("CLOCK_BACKWARDS", "a clock cannot go backwards")
        self._now += round(seconds * MICROS)
        for condition in list(self._listeners):
            with condition:
                condition.notify_all()

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        # The wait ends by notification, also when the clock is advanced; the short real
        # time-out only bounds how long a notification sent between two waits can be missed.
        if condition not in self._listeners:
            self._listeners.append(condition)
        condition.wait(0.05)
