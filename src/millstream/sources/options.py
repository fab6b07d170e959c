"""The options that streams and tables share; those of one source are in its module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import field_validator

from millstream.log import TopicSettings
from millstream.model.settings import Duration, Options
from millstream.model.time import Clock, SystemClock
from millstream.plan.nodes import Stream
from millstream.sources.starts import NUMBERED, OffsetForm, Start, read_start

DAY = 86_400 * 1_000_000


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """The topic that has the rows of a stream."""

    name: str
    partitions: int
    settings: TopicSettings
    is_own: bool = False
    """The stream names no topic: it has one to itself, under its own name."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """The `readStream` call of a stream whose batches Structured Streaming pushes."""

    format: str
    path: str | None
    options: Mapping[str, str]


class StreamOptions(Options):
    """What every stream may say."""

    offset_form: ClassVar[OffsetForm] = NUMBERED
    """How texts such as `start_offsets` write the offsets of the source."""

    source: str = "log"
    idle_timeout: Duration | None = None
    max_ahead: Duration | None = None
    """How far event time may run ahead of arrival; by default one day ahead of the machine's clock."""
    letters_retain: Duration | None = 30 * DAY
    """How long late and dead rows are kept."""

    def landed_floor(self, clock: Clock) -> int:
        """The instant that `max_ahead` takes rows to have landed at, if they landed before it by the engine's clock.

        With the default bound, event time is held against the machine's clock, also where processing time is a
        test's to move.
        """
        return 0 if self.max_ahead is not None or isinstance(clock, SystemClock) else SystemClock().now()

    @classmethod
    def completed(cls, options: Mapping[str, str], now: int) -> Mapping[str, str]:
        """Options to note in the definition when the stream is created, because their default depends on the time."""
        return {}

    def notices(self) -> tuple[str, ...]:
        """What a user should know about options that are valid, a sentence each."""
        return ()

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The columns whose hash chooses the partition of an inserted row."""
        return ()

    def topic_of(self, stream: Stream) -> TopicSpec | None:
        """The topic of the embedded log that has the rows; None if they are elsewhere."""
        return None

    def pushed(self) -> Pushed | None:
        """What Structured Streaming reads for the stream; None if the engine cuts its epochs."""
        return None

    def pending_start(self) -> Start | None:
        """The start that is still to be noted as offsets; None if there is nothing to note."""
        return None


class ReplayedOptions(StreamOptions):
    """Sources whose rows are there before the stream is: it can begin anywhere among them."""

    start: str = "earliest"
    start_offsets: str | None = None
    """What `start` came to when the stream was made; noted by the engine."""

    @field_validator("start")
    @classmethod
    def _is_a_start(cls, value: str) -> str:
        read_start(value, cls.offset_form)
        return value

    @field_validator("start_offsets")
    @classmethod
    def _are_offsets(cls, value: str | None) -> str | None:
        if value is not None and cls.offset_form.read(value) is None:
            raise ValueError(f"write offsets such as {cls.offset_form.example!r}")
        return value

    @property
    def begins_at(self) -> Mapping[int, int]:
        """The offsets before which the stream has no rows."""
        return (self.offset_form.read(self.start_offsets) if self.start_offsets is not None else None) or {}

    def pending_start(self) -> Start | None:
        start = read_start(self.start, self.offset_form)
        return None if self.start_offsets is not None or start.word == "earliest" else start


class TableOptions(Options):
    """`CREATE TABLE … WITH (…)`, besides the options of its source: what its changes mean."""

    operation: str | None = None
    """The column that says what a change does."""
    deletes: str = "d, delete"
    upserts: str = "c, r, u, i, create, read, update, insert, upsert"
    sequence: str | None = None
    """The column that orders the changes of a key."""
    versioned: bool = False
    history: Duration | None = None
    """How long versions are kept after their end."""
    tombstone_retain: Duration = 7 * DAY
    """How long deletions are remembered."""

    def words(self, option: Literal["deletes", "upserts"]) -> tuple[str, ...]:
        """The operations that an option lists, in lower case."""
        listed = (word.strip().lower() for word in getattr(self, option).split(","))
        return tuple(dict.fromkeys(word for word in listed if word))
