"""What exists: streams, tables, views and sinks, by name.

Names are found in any case. An entry is one incarnation of its name: what belongs to a relation (topic, checkpoint,
subscriptions, rows that are on their way) is bound to the incarnation, so that a relation that is created
again under a name inherits nothing. A view's plan is made when it is first needed, because making it asks
Spark; reading a view never does.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from millstream.log import Topic
from millstream.model.errors import MillstreamError, did_you_mean
from millstream.model.errors import Position as Place
from millstream.model.schema import check_name
from millstream.plan.nodes import Stream, ViewPlan
from millstream.sinks import SINKS, Position, Sink, SinkOptions
from millstream.sinks import Connector as SinkConnector
from millstream.sources import SOURCES, Connector, Source, StreamOptions
from millstream.sql import read_window_call
from millstream.sql.statements import CreateSink, CreateStream, CreateTable, CreateView

LETTERS = ("__late", "__dead")
SUCCESSOR = "~"
"""What is added to the name of a view while it is built anew."""


@dataclass(slots=True)
class StreamEntry:
    """A stream, or the changes of a table."""

    statement: CreateStream | CreateTable
    stream: Stream
    options: StreamOptions
    source: Source
    incarnation: str
    topic: Topic | None = None
    """The topic that has its rows; None if they are not in the embedded log."""

    @property
    def name(self) -> str:
        return self.stream.name

    @property
    def is_table(self) -> bool:
        return isinstance(self.statement, CreateTable)

    @property
    def connector(self) -> Connector[Any]:
        return SOURCES[self.options.source]


@dataclass(slots=True)
class Successor:
    """A view that is being built to take the place of another.

    Its parts are built under names of their own, except those that the old view has already.
    """

    statement: CreateView
    """As it will be: under the name of the view."""
    make: Callable[[], tuple[ViewPlan, tuple[str, ...]]]
    changes_columns: bool = False
    _made: tuple[ViewPlan, tuple[str, ...]] | None = None

    @property
    def parts(self) -> ViewPlan:
        """What is built, under its own names. Made when it is first needed, like the plan of a view."""
        return self._plan()[0]

    @property
    def built(self) -> tuple[str, ...]:
        """What every part of the plan is called until the swap, the old view's own parts included."""
        return self._plan()[1]

    @property
    def made(self) -> ViewPlan | None:
        """What is built, if it is known already."""
        return self._made[0] if self._made is not None else None

    def _plan(self) -> tuple[ViewPlan, tuple[str, ...]]:
        if self._made is None:
            self._made = self.make()
        return self._made


@dataclass(slots=True)
class ViewEntry:
    statement: CreateView
    incarnation: str
    """Stays when the view is rebuilt or replaced: its changelog goes on."""
    plan: ViewPlan | None = field(default=None)
    successor: Successor | None = field(default=None)

    @property
    def name(self) -> str:
        return self.statement.name


@dataclass(slots=True)
class SinkEntry:
    """A sink, and how far its delivery is. Delivery alone changes it, under its lock."""

    statement: CreateSink
    """As it was made; the view is spelt as the view spells itself."""
    options: SinkOptions
    acknowledged: Position
    """What the store knows."""
    delivered: Position
    """What the target is known to have; at least what the store knows."""
    reached: int
    """Up to this epoch there is nothing left to deliver."""
    sink: Sink | None = None
    """Open while delivery works; a failure closes it."""
    failure: MillstreamError | None = None
    is_dropped: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def name(self) -> str:
        return self.statement.name

    @property
    def view(self) -> str:
        return self.statement.view

    @property
    def connector(self) -> SinkConnector[Any]:
        return SINKS[self.options.connector]


Entry = StreamEntry | ViewEntry


class Catalog:
    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self.sinks: dict[str, SinkEntry] = {}
        """By name, in lower case. Sinks have names of their own."""

    def add(self, entry: Entry) -> None:
        self._entries[entry.name.lower()] = entry

    def arrange(self) -> None:
        """Put views in an order in which what they read comes first; otherwise as they were made."""
        order: dict[str, Entry] = {}

        def place(key: str, entry: Entry) -> None:
            if key in order or key in begun:
                return
            begun.add(key)
            for name in read_names(entry.statement.query) if isinstance(entry, ViewEntry) else ():
                if name in self._entries:
                    place(name, self._entries[name])
            order[key] = entry

        begun: set[str] = set()
        for key, entry in self._entries.items():
            place(key, entry)
        self._entries = order

    def remove(self, name: str) -> None:
        del self._entries[name.lower()]

    def find(self, name: str) -> Entry | None:
        return self._entries.get(name.lower())

    def has(self, entry: Entry) -> bool:
        """Whether this very incarnation is there, and not another one under its name."""
        found = self.find(entry.name)
        return found is not None and found.incarnation == entry.incarnation

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def streams(self) -> list[StreamEntry]:
        """Streams and the changes of tables."""
        return [entry for entry in self if isinstance(entry, StreamEntry)]

    def views(self) -> list[ViewEntry]:
        return [entry for entry in self if isinstance(entry, ViewEntry)]

    def view(self, name: str, position: Place | None = None) -> ViewEntry:
        entry = self.find(name)
        if not isinstance(entry, ViewEntry):
            raise self._unknown("view", name, [v.name for v in self.views()], position)
        return entry

    def stream(self, name: str, position: Place | None = None) -> StreamEntry:
        entry = self.find(name)
        if not isinstance(entry, StreamEntry):
            raise self._unknown("stream or table", name, [s.name for s in self.streams()], position)
        return entry

    def sinks_of(self, view: str) -> list[SinkEntry]:
        """The sinks that get the changes of a view."""
        return [sink for sink in list(self.sinks.values()) if sink.view == view]

    def written_topics(self) -> set[str]:
        """The topics that sinks write."""
        topics = (sink.options.written_topic for sink in list(self.sinks.values()))
        return {topic for topic in topics if topic is not None}

    def readable(self) -> dict[str, str]:
        """What a SELECT may read: lower-case name → name in the store."""
        names: dict[str, str] = {}
        for entry in self:
            if isinstance(entry, ViewEntry) or entry.is_table:
                names[entry.name.lower()] = entry.name
            if isinstance(entry, StreamEntry):
                names |= {f"{entry.name}{suffix}".lower(): f"{entry.name}{suffix}" for suffix in LETTERS}
        return names

    def check_free(self, name: str, position: Place | None) -> None:
        """Refuse names that are taken or that Millstream keeps for itself."""
        check_name(name)
        if name.lower().endswith(LETTERS) or re.search(r"\$\d+$|~", name):
            raise MillstreamError(
                "RESERVED_NAME",
                f"{name!r} is reserved",
                hint="names may not end in __late, __dead or $ and a number, nor have a ~",
                position=position,
            )
        if self.find(name) is not None:
            raise MillstreamError(
                "ALREADY_EXISTS",
                f"{name!r} exists already",
                hint="drop it first, or use IF NOT EXISTS",
                position=position,
            )

    @staticmethod
    def _unknown(kind: str, name: str, known: list[str], position: Place | None) -> MillstreamError:
        return MillstreamError(
            f"UNKNOWN_{kind.split()[0].upper()}",
            f"there is no {kind} {name!r}",
            hint=did_you_mean(name, (k.lower() for k in known)),
            position=position,
        )


def read_names(query: exp.Query) -> list[str]:
    """The relations that a query names, in lower case."""
    names = []
    for table in query.find_all(exp.Table):
        call = read_window_call(table, "", "<catalog>")
        names.append((call.source if call is not None else table.name).lower())
    return names
