"""The interface between the engine and a source of rows.

Owns what the engine may ask of any source, and what an opener is given. What always holds: offsets
are addresses, so reading a range twice gives the same rows. A source keeps no position of its own:
positions are in the store, committed with the results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from millstream.log import Log, Topic
from millstream.model.errors import MillstreamError, Position
from millstream.model.time import Clock
from millstream.plan.nodes import Stream
from millstream.plan.slices import Slice
from millstream.sources.starts import Start

Offsets = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Cut:
    """The rows of one epoch: the slice, and where the next one begins."""

    slice: Slice
    offsets: Offsets
    files: Sequence[tuple[int, str]] = ()
    length: int = 0
    """How many offsets it covers; 0 where they are not the source's own."""


class UnreadableError(MillstreamError):
    """The rows of a cut are gone. Waiting brings them back only if somebody puts them back."""

    def __init__(self, code: str, message: str, cut: Cut, *, hint: str | None = None) -> None:
        super().__init__(code, message, hint=hint)
        self.cut = cut


@dataclass(frozen=True, slots=True)
class Place:
    """The offsets of a start, and the files before them."""

    offsets: Offsets
    skipped: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Opening:
    """What an opener may use besides the options of the stream."""

    stream: Stream
    log: Log
    clock: Clock
    files: Callable[[], Sequence[str]]
    """The files that epochs have read, in order."""
    progress: Callable[[], Offsets | None]
    """The offsets that epochs have reached; None before the first one."""
    position: Position | None = None
    """Where the statement is, for errors."""
    topic: Topic | None = None
    """The topic of the stream, where it has one that exists already."""
    instead_of: Source | None = None
    """A source that is still open and ends when this one begins."""
    is_known: bool = False
    """The stream exists already. What it connects to may be missing for now: that is a `failure`, not an error."""


class Source(Protocol):
    """Rows by offset, the same ones every time."""

    @property
    def partitions(self) -> int: ...

    @property
    def failure(self) -> MillstreamError | None:
        """Why no rows arrive at the moment, where the source reads in a thread of its own."""
        return None

    def start(self) -> Offsets:
        """The oldest offsets that can still be read."""

    def place(self, start: Start) -> Place:
        """The offsets that a start means now; the oldest ones where the connector has no `start`."""
        return Place(self.start())

    def end(self) -> Offsets:
        """Behind the newest row there is now."""

    def waiting(self, offsets: Offsets) -> int:
        """How many offsets there are after some, as far as is known now."""

    def cut(self, offsets: Offsets, limit: int, until: Offsets | None = None) -> Cut | None:
        """What follows some offsets, at most about `limit` of them and not beyond `until`; None if there is nothing.

        Raises `UnreadableError` if the first of it is gone.
        """

    def begin(self) -> None:
        """The stream exists now: take rows in, where the source reads in a thread of its own. Called once."""
        return

    def close(self) -> None:
        """Release threads, sockets and files. Called once."""
