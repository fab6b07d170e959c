"""Where a stream begins to read: `start = 'earliest' | 'latest' | '<instant>' | '<partition>=<offset>, …'`.

Owns the words. What they come to when the stream is made is noted in `start_offsets`, so that the
stream has the same rows for every view, however late it is made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from millstream.model.time import to_micros

_OFFSETS = re.compile(r"\s*\d+\s*=\s*\d+\s*(,\s*\d+\s*=\s*\d+\s*)*")


@dataclass(frozen=True, slots=True)
class Start:
    """One of the words, an instant of arrival, or offsets."""

    word: Literal["earliest", "latest"] | None = None
    landed_at: int | None = None
    """In microseconds: what arrived then or later is read."""
    offsets: Mapping[int, int] | None = None


def read_start(text: str) -> Start:
    """
    >>> read_start("0=100, 1=250").offsets
    {0: 100, 1: 250}
    >>> read_start("2024-01-01").landed_at
    1704067200000000
    """
    match text.strip().lower():
        case "earliest":
            return Start("earliest")
        case "latest":
            return Start("latest")
    if _OFFSETS.fullmatch(text):
        pairs = [part.split("=") for part in text.split(",")]
        offsets = {int(partition): int(offset) for partition, offset in pairs}
        if len(offsets) < len(pairs):
            raise ValueError("a partition is named twice")
        return Start(offsets=offsets)
    try:
        return Start(landed_at=to_micros(datetime.fromisoformat(text.strip())))
    except ValueError:
        raise ValueError(
            "write 'earliest', 'latest', an instant such as '2024-01-01 00:00:00', or offsets such as '0=100, 1=250'"
        ) from None


def write_offsets(offsets: Mapping[int, int]) -> str:
    """
    >>> write_offsets({1: 250, 0: 100})
    '0=100, 1=250'
    """
    return ", ".join(f"{partition}={offset}" for partition, offset in sorted(offsets.items()))
