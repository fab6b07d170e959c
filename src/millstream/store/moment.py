"""When a merge happens."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.store.protocol import BEGINNING


@dataclass(frozen=True, slots=True)
class Moment:
    """The epoch a merge belongs to: its number, processing time and the watermarks around it."""

    epoch: int
    now: int
    before: int = BEGINNING
    after: int = BEGINNING
