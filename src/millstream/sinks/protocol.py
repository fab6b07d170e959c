"""The interface between delivery and the target of a sink.

Owns what delivery may ask of any sink. What always holds: whole epochs are delivered, in order, and a
delivery that failed or was cut off is repeated. Exactly once is the sink's part: `position` asks the
target how far it is, and `deliver` leaves out whatever the target has already. Must not know the
store: positions are kept there by delivery.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from millstream.log import Log
from millstream.model.errors import Position as Place


@dataclass(frozen=True, slots=True)
class Position:
    """How far a target is."""

    epoch: int
    """It has all changes up to and with this epoch; -1 before the first."""
    target: str = ""
    """What the connector needs to find its own rows again, in its own form."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What an opener may use besides the options of the sink."""

    name: str
    """Of the sink, as its author wrote it."""
    columns: tuple[str, ...]
    """Of the view."""
    log: Log
    place: Place | None = None
    """Where the statement is, for errors."""


class Sink(Protocol):
    """One target of the changes of one view. Its methods are called by one thread at a time."""

    def begin(self, epoch: int) -> Position:
        """The position of a new sink that is to get the changes after an epoch."""

    def position(self, known: Position) -> Position:
        """Ask the target how far it is: at least as far as the store knows."""

    def deliver(self, epoch: int, changes: pa.Table) -> Position:
        """Bring the changes of one epoch to the target; returns once they are durable there."""

    def acknowledge(self, position: Position) -> None:
        """The store has noted a position: nothing up to it is ever delivered again."""

    def close(self) -> None:
        """Release connections and files. Called once."""
