"""When the CSV kernel is tried again on a stream whose files it refused.

A refusal may cost most of an epoch, so a stream of files that the kernel does not take must not pay for
it each time; and one odd file must not cost a stream its speed for good.
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


class CsvTrials:
    """What is remembered of streams, by name."""

    def __init__(self) -> None:
        self._pauses: dict[str, _Pause] = {}

    def is_due(self, stream: str) -> bool:
        """Whether the kernel is tried in the next epoch; each question is an epoch."""
        pause = self._pauses.get(stream)
        if pause is None or pause.left == 0:
            return True
        self._pauses[stream] = replace(pause, left=pause.left - 1)
        return False

    def record(self, stream: str, refused: bool) -> None:
        """What came of a trial."""
        if not refused:
            self._pauses.pop(stream, None)
            return
        before = self._pauses.get(stream)
        length = 4 if before is None else min(2 * before.length, _LONGEST_PAUSE)
        self._pauses[stream] = _Pause(length, length)
