"""Connectors: where the rows of streams come from."""

from millstream.sources.datagen import DatagenSource
from millstream.sources.files import FilesSource
from millstream.sources.log import LogSource
from millstream.sources.options import (
    SOURCES,
    DatagenOptions,
    FilesOptions,
    LogOptions,
    ReplayedOptions,
    SocketOptions,
    SparkOptions,
    StreamOptions,
    TableOptions,
)
from millstream.sources.protocol import Cut, Offsets, Source
from millstream.sources.socket import SocketSource
from millstream.sources.starts import Start, read_start, write_offsets

__all__ = [
    "SOURCES",
    "Cut",
    "DatagenOptions",
    "DatagenSource",
    "FilesOptions",
    "FilesSource",
    "LogOptions",
    "LogSource",
    "Offsets",
    "ReplayedOptions",
    "SocketOptions",
    "SocketSource",
    "Source",
    "SparkOptions",
    "Start",
    "StreamOptions",
    "TableOptions",
    "read_start",
    "write_offsets",
]
