"""Connectors: where the rows of streams come from."""

from millstream.sources.options import StreamOptions, TableOptions, TopicSpec
from millstream.sources.protocol import Cut, Offsets, Opening, Place, Source, UnreadableError
from millstream.sources.registry import SOURCES, Connector
from millstream.sources.starts import Start, read_start

__all__ = [
    "SOURCES",
    "Connector",
    "Cut",
    "Offsets",
    "Opening",
    "Place",
    "Source",
    "Start",
    "StreamOptions",
    "TableOptions",
    "TopicSpec",
    "UnreadableError",
    "read_start",
]
