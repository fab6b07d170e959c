"""When the kernel is tried again on a stream whose rows it refused, or on a view that it failed on.

A refusal may cost most of an epoch, so a stream of rows that the kernel does not take must not pay for
it each time; and one odd row must not cost a stream its speed for good.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

_LONGEST_PAUSE = 64
"""Epochs."""


@dataclass(frozen=True, slots=True)
class _Pause:
    """After refusals in a row, epochs are left to Spark: twice as many each time."""

    length: int
    left: int


class Trials:
    """What is remembered of streams and views, by name."""

    def __init__(self) -> None:
        self._pauses: dict[str, _Pause] = {}

    def is_due(self, name: str) -> bool:
        """Whether the kernel is tried in the next epoch; each question is an epoch."""
        pause = self._pauses.get(name)
        if pause is None or pause.left == 0:
            return True
        self._pauses[name] = replace(pause, left=pause.left - 1)
        return False

    def record(self, name: str, refused: bool) -> None:
        """What came of a trial."""
        if not refused:
            self._pauses.pop(name, None)
            return
        before = self._pauses.get(name)
        length = 4 if before is None else min(2 * before.length, _LONGEST_PAUSE)
        self._pauses[name] = _Pause(length, length)
