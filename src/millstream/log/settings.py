"""What a topic can be told about how it keeps its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from millstream.model.errors import MillstreamError

HOUR_MICROS = 3_600_000_000


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """Durations are microseconds; sizes are bytes of one partition."""

    segment_bytes: int = 64 * 1024 * 1024
    segment_micros: int = 24 * HOUR_MICROS
    retention_micros: int | None = None
    retention_bytes: int | None = None
    compact_by: tuple[str, ...] = ()
    compact_sequence: str | None = None
    """A column that says which row of a key is the newest, instead of the offset."""
    compact_instant: str | None = None
    """A column of which every value is kept, as if it were part of the key."""
    tombstone_retain_micros: int | None = None
    """How long a tombstone outlives what it deletes; None is for ever."""
    message_id_window_micros: int = 24 * HOUR_MICROS
    compression: str | None = None
    """None, `lz4` or `zstd`: of the column data within a frame."""

    def __post_init__(self) -> None:
        for name in ("segment_bytes", "segment_micros", "message_id_window_micros"):
            if getattr(self, name) <= 0:
                raise _refused(f"{name} must be positive")
        for name in ("retention_micros", "retention_bytes", "tombstone_retain_micros"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise _refused(f"{name} must not be negative")
        if self.compression not in (None, "lz4", "zstd"):
            raise _refused(f"compression {self.compression!r} is not one of lz4, zstd")

    @property
    def compaction(self) -> tuple[object, ...]:
        """All that decides which rows compaction keeps."""
        return self.compact_by, self.compact_sequence, self.compact_instant, self.tombstone_retain_micros

    @property
    def roll_micros(self) -> int:
        """The age at which a segment is sealed: never so old that its rows outlive retention twice."""
        if self.retention_micros is None:
            return self.segment_micros
        return min(self.segment_micros, max(self.retention_micros, 1))

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "compact_by": list(self.compact_by)}

    @staticmethod
    def from_json(saved: Mapping[str, Any]) -> TopicSettings:
        # Settings that a newer version saved are left aside, so that it can be rolled back.
        known = {field.name for field in fields(TopicSettings)}
        values = {name: value for name, value in saved.items() if name in known}
        return TopicSettings(**{**values, "compact_by": tuple(values.get("compact_by", ()))})


def _refused(message: str) -> MillstreamError:
    return MillstreamError("BAD_TOPIC_SETTINGS", message)
