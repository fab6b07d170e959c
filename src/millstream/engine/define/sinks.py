"""Creating and dropping sinks.

Owns their definitions. What always holds: a sink is valid before anything of it exists, it reads a
view that stays as long as the sink, and its first position is noted together with its statement. Must
not deliver: that is for `engine.run.delivery`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from millstream.engine.define.catalog import Catalog, SinkEntry
from millstream.log import Log
from millstream.model.errors import MillstreamError, did_you_mean
from millstream.sinks import SINKS, Connector, Opening, Position, SinkOptions
from millstream.sql import render
from millstream.sql.statements import CreateSink, Drop
from millstream.store import commands
from millstream.store.protocol import Store


@dataclass(frozen=True, slots=True)
class Sinks:
    catalog: Catalog
    store: Store
    log: Log

    def create(self, create: CreateSink, now: int) -> SinkEntry | None:
        """Create a sink; None if it was there and that is fine."""
        known = self.catalog.sinks.get(create.name.lower())
        if known is not None:
            if create.if_not_exists:
                return None
            raise MillstreamError(
                "ALREADY_EXISTS",
                f"there is a sink {known.name!r} already",
                hint="drop it first, or use IF NOT EXISTS",
                position=create.position,
            )
        view = self.catalog.view(create.view, create.position)
        create = replace(create, view=view.name, if_not_exists=False)
        options = _options(create)
        sink = SINKS[options.connector].open(options, self.opening(create))
        begin = sink.begin(-1 if options.start == "earliest" else self.store.last_epoch())
        self.store.apply(commands.CreateSink(create.name, create.view, render(create), now, begin.epoch, begin.target))
        entry = SinkEntry(create, options, begin, begin, begin.epoch, sink)
        self.catalog.sinks[create.name.lower()] = entry
        return entry

    def restore(self, create: CreateSink) -> None:
        """Know a sink that the store has. Delivery opens it: a target that is not there stops nothing else."""
        position = Position(*self.store.sink_position(create.name))
        entry = SinkEntry(create, _options(create), position, position, position.epoch)
        self.catalog.sinks[create.name.lower()] = entry

    def find(self, drop: Drop) -> SinkEntry | None:
        """The sink that is to be dropped; None if there is none and that is fine."""
        entry = self.catalog.sinks.get(drop.name.lower())
        if entry is None and not drop.if_exists:
            raise MillstreamError(
                "UNKNOWN_SINK",
                f"there is no sink {drop.name!r}",
                hint=did_you_mean(drop.name, self.catalog.sinks),
                position=drop.position,
            )
        return entry

    def drop(self, entry: SinkEntry) -> None:
        """Drop a sink whose delivery has ended. What it has delivered stays where it is."""
        self.store.apply(commands.DropSink(entry.name))
        del self.catalog.sinks[entry.name.lower()]

    def opening(self, create: CreateSink) -> Opening:
        """What the opener of a sink is given."""
        columns = tuple(self.store.columns(create.view).names)
        return Opening(create.name, columns, self.log, create.position)


def _options(create: CreateSink) -> SinkOptions:
    options = dict(create.options)
    kind = next((value for name, value in create.options if name.lower() == "connector"), None)
    if kind is None:
        raise MillstreamError(
            "MISSING_OPTION",
            f"sink {create.name} does not say where changes go",
            hint="write INTO TOPIC name, or WITH (connector = '…')",
            position=create.position,
        )
    connector: Connector[Any] | None = SINKS.get(kind)
    if connector is None:
        raise MillstreamError(
            "UNKNOWN_CONNECTOR",
            f"there is no connector {kind!r}",
            hint=did_you_mean(kind, SINKS),
            position=create.position,
        )
    read: SinkOptions = connector.options.read(options, create.position)
    return read
