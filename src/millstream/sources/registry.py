"""The registry of source connectors: one entry per value of the option `source`.

Owns what the engine must know of a connector before it opens a source. Nothing registers itself by
being imported, and nothing outside this package tells sources apart by their type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from millstream.sources.datagen import DatagenOptions, open_datagen
from millstream.sources.files import FilesOptions, open_files
from millstream.sources.log import LogOptions, open_log
from millstream.sources.options import StreamOptions
from millstream.sources.protocol import Opening, Source
from millstream.sources.socket import SocketOptions, open_socket
from millstream.sources.spark import SparkOptions, open_pushed

Read = TypeVar("Read", bound=StreamOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector(Generic[Read]):
    options: type[Read]
    """The options of `WITH (…)`, with the form of the source's offsets and the topic that has its rows."""
    open: Callable[[Read, Opening], Source]
    replays: bool
    """Rows can be read again, so that a new view gets the history: by the source, or from the log they landed in."""
    has_start: bool
    """The stream can begin anywhere in what is there: `start` and `millstream run --from`."""
    announces: bool
    """New rows wake the engine; if not, it looks every `poll_interval`."""
    takes_rows: bool
    """Rows can be inserted and deleted."""


SOURCES: dict[str, Connector[Any]] = {
    "log": Connector(options=LogOptions, open=open_log, replays=True, has_start=True, announces=True, takes_rows=True),
    "files": Connector(
        options=FilesOptions, open=open_files, replays=True, has_start=True, announces=False, takes_rows=False
    ),
    "datagen": Connector(
        options=DatagenOptions, open=open_datagen, replays=True, has_start=False, announces=False, takes_rows=False
    ),
    "socket": Connector(
        options=SocketOptions, open=open_socket, replays=True, has_start=True, announces=True, takes_rows=True
    ),
    "spark": Connector(
        options=SparkOptions, open=open_pushed, replays=False, has_start=False, announces=True, takes_rows=False
    ),
}
