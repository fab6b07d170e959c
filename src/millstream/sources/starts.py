"""Where a stream begins to read: `start = 'earliest' | 'latest' | '<instant>' | '<partition>=<offset>, …'`.

Owns the words. What they come to when the stream is made is noted in `start_offsets`, so that the
stream has the same rows for every view, however late it is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
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


def _read_numbered(text: str) -> Mapping[int, int] | None:
    if not _OFFSETS.fullmatch(text):
        return None
    pairs = [part.split("=") for part in text.split(",")]
    offsets = {int(partition): int(offset) for partition, offset in pairs}
    if len(offsets) < len(pairs):
        raise ValueError("a partition is named twice")
    return offsets


def _write_numbered(offsets: Mapping[int, int]) -> str:
    return ", ".join(f"{partition}={offset}" for partition, offset in sorted(offsets.items()))


@dataclass(frozen=True, slots=True)
class OffsetForm:
    """How the offsets of a source are written. `read` gives None for a text of another kind."""

    example: str
    read: Callable[[str], Mapping[int, int] | None]
    write: Callable[[Mapping[int, int]], str]


NUMBERED = OffsetForm("0=100, 1=250", _read_numbered, _write_numbered)
"""Partition and number, for example of a row or a file.

>>> NUMBERED.write({1: 250, 0: 100})
'0=100, 1=250'
"""


def read_start(text: str, form: OffsetForm = NUMBERED) -> Start:
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
    offsets = form.read(text)
    if offsets is not None:
        return Start(offsets=offsets)
    try:
        return Start(landed_at=to_micros(datetime.fromisoformat(text.strip())))
    except ValueError:
        raise ValueError(
            f"write 'earliest', 'latest', an instant such as '2024-01-01 00:00:00', or offsets such as {form.example!r}"
        ) from None
