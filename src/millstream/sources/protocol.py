"""What the engine asks of a source whose rows have addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from millstream.plan.slices import Slice

Offsets = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Cut:
    """The rows of one epoch: the slice, and where the next one begins."""

    slice: Slice
    offsets: Offsets
    files: Sequence[tuple[int, str]] = ()
    length: int = 0
    """How many offsets it covers; 0 where they are not the source's own."""


class Source(Protocol):
    """Rows by offset, the same ones every time."""

    @property
    def partitions(self) -> int: ...

    def start(self) -> Offsets:
        """The oldest offsets that can still be read."""

    def end(self) -> Offsets:
        """Behind the newest row there is now."""

    def waiting(self, offsets: Offsets) -> int:
        """How many offsets there are after some, as far as is known now."""

    def cut(self, offsets: Offsets, limit: int, until: Offsets | None = None) -> Cut | None:
        """What follows some offsets, at most about `limit` of them and not beyond `until`; None if there is nothing."""

    def announces(self) -> bool:
        """Whether it wakes the engine by itself; if not, the engine looks now and then."""

    def close(self) -> None: ...
