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


class Source(Protocol):
    """Rows by offset, the same ones every time."""

    @property
    def partitions(self) -> int: ...

    def start(self) -> Offsets:
        """The oldest offsets that can still be read."""

    def end(self) -> Offsets:
        """Behind the newest row there is now."""

    def cut(self, offsets: Offsets, limit: int, until: Offsets | None = None) -> Cut | None:
        """The next rows after some offsets, at most about `limit` and not beyond `until`; None if there are none."""

    def announces(self) -> bool:
        """Whether it wakes the engine by itself; if not, the engine looks now and then."""

    def close(self) -> None: ...
