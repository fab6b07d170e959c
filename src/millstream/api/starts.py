"""Where the streams of a script begin to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Starts:
    """A start for all streams, and starts of some. Each is written like the option `start` of a stream."""

    everywhere: str | None = None
    streams: Mapping[str, str] = field(default_factory=dict)
    """By name, in lower case."""

    def of(self, name: str) -> str | None:
        return self.streams.get(name.lower(), self.everywhere)
