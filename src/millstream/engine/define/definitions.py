"""Making and dropping streams, tables and views.

A definition is valid before anything of it exists: options are read, the query is planned and
typed. Then it is created in the store in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.engine.define.catalog import SUCCESSOR, Catalog, Entry, StreamEntry, ViewEntry, read_names
from millstream.engine.define.functions import Functions
from millstream.engine.define.tables import split_options, table_rules, table_watermark
from millstream.log import Log
from millstream.model.errors import MillstreamError, Position, did_you_mean, own_fault
from millstream.model.schema import check_names
from millstream.model.settings import ViewOptions
from millstream.model.time import Clock
from millstream.plan.compute import Compute, Streaming
from millstream.plan.nodes import Stream, ViewPlan
from millstream.plan.queries import plan_query
from millstream.plan.relations import Relation
from millstream.sources import SOURCES, Connector, Opening, Source, StreamOptions, TableOptions
from millstream.sql import check_query, render
from millstream.sql.statements import CreateStream, CreateTable, CreateView, Drop
from millstream.store.duckdb.store import DuckDBStore
from millstream.store.protocol import Progress


@dataclass(slots=True)
class Definitions:
    catalog: Catalog
    store: DuckDBStore
    log: Log
    clock: Clock
    compute: Compute
    directory: Path
    functions: Functions
    _known_types: dict[tuple[Stream, str], pa.DataType] = field(default_factory=dict)

    # -- streams and tables --------------------------------------------------------------------

    def create_stream(self, create: CreateStream) -> bool:
        """Create a stream; False if it was there and that is fine."""
        if self._exists(create):
            return False
        self.catalog.check_free(create.name, create.position)
        entry, skipped = self._placed(self.open_stream(replace(create, options=self._completed(create))))
        self.store.create_stream(entry.stream, render(entry.statement), self.clock.now(), skipped)
        self.catalog.add(entry)
        return True

    def begin_at(self, entry: StreamEntry, start: str) -> None:
        """Let a stream that nothing was read of begin elsewhere."""
        said = tuple(o for o in entry.statement.options if o[0].lower() not in ("start", "start_offsets"))
        statement = replace(entry.statement, options=(*said, ("start", start)))
        entry.source.close()
        self.store.change_stream(entry.name, render(statement))
        entry, skipped = self._placed(self._open(statement))
        self.store.change_stream(entry.name, render(entry.statement), skipped)
        self.catalog.add(entry)

    def _open(self, create: CreateStream | CreateTable, files: Sequence[str] | None = None) -> StreamEntry:
        return self.open_table(create, files) if isinstance(create, CreateTable) else self.open_stream(create, files)

    def _placed(self, entry: StreamEntry) -> tuple[StreamEntry, Sequence[str]]:
        """A new stream with its start noted as offsets, and the files that it leaves out."""
        options, source = entry.options, entry.source
        start = options.pending_start()
        if start is None:
            return entry, ()
        try:
            place = source.place(start)
        finally:
            source.close()
        noted = ("start_offsets", options.offset_form.write(place.offsets))
        statement = replace(entry.statement, options=(*entry.statement.options, noted))
        return self._open(statement, place.skipped), place.skipped

    def _completed(self, create: CreateStream | CreateTable) -> tuple[tuple[str, str], ...]:
        """The options of a statement, with those whose default depends on the time."""
        options = {name.lower(): value for name, value in create.options}
        added = _connector(create).options.completed(options, self.clock.now())
        return (*create.options, *added.items())

    def _source_options(
        self, create: CreateStream | CreateTable, options: dict[str, str], also: Iterable[str] = ()
    ) -> StreamOptions:
        """What a statement says about its source; the rest of it is checked on the way."""
        read: StreamOptions = _connector(create).options.read(options, create.position, also)
        check_names(create.schema)
        return read

    def open_stream(self, create: CreateStream, files: Sequence[str] | None = None) -> StreamEntry:
        """A stream as its statement says, with its source opened; `files` were read already, by default as stored."""
        read = self._source_options(create, dict(create.options))
        if create.correction is not None:
            event_time = create.watermark.column if create.watermark else None
            if create.correction.column != event_time:
                raise MillstreamError(
                    "BAD_CORRECTION",
                    f"EVENT TIME names {create.correction.column}, WATERMARK FOR names {event_time or 'nothing'}",
                    hint="correct the column that the watermark is for",
                    position=create.position,
                )
        stream = Stream(
            create.name, create.schema, create.watermark, create.correction, letters_retain=read.letters_retain
        )
        return StreamEntry(create, stream, read, self._source(stream, read, create, files))

    def _source(
        self,
        stream: Stream,
        options: StreamOptions,
        create: CreateStream | CreateTable,
        files: Sequence[str] | None,
    ) -> Source:
        def done() -> Sequence[str]:
            return files if files is not None else self.store.files(stream.name)

        def reached() -> Mapping[int, int] | None:
            progress = self.store.progress(stream.name)
            return progress.offsets if progress is not None else None

        opening = Opening(stream, self.log, self.clock, done, reached, create.position)
        return SOURCES[options.source].open(options, opening)

    def agree_on_compaction(self, tables: Sequence[StreamEntry]) -> bool:
        """Whether tables that read one topic need the same rows of it, and the topic keeps these."""
        wanted = [topic for entry in tables if (topic := entry.topic) is not None]
        return all(spec.settings.compaction == self.log.topic(spec.name).settings.compaction for spec in wanted)

    def streaming_source(self, entry: StreamEntry) -> Streaming:
        """The Structured Streaming side of a `source = 'spark'` stream."""
        pushed = entry.options.pushed()
        assert pushed is not None
        checkpoint = self.directory / "spark" / "checkpoints" / entry.name
        return self.compute.streaming(pushed.format, pushed.path, pushed.options, entry.stream.schema, checkpoint)

    def create_table(self, create: CreateTable) -> bool:
        if self._exists(create):
            return False
        self.catalog.check_free(create.name, create.position)
        entry, skipped = self._placed(self.open_table(replace(create, options=self._completed(create))))
        self.store.create_table(entry.stream, render(entry.statement), self.clock.now(), skipped)
        self.catalog.add(entry)
        return True

    def open_table(self, create: CreateTable, files: Sequence[str] | None = None) -> StreamEntry:
        """A table as its statement says, with the source of its changes opened."""
        options, rest = split_options(create)
        read = self._source_options(create, rest, TableOptions.model_fields)
        rules = table_rules(create, options)
        watermark = table_watermark(create)
        stream = Stream(create.name, create.schema, watermark, None, create.primary_key, read.letters_retain, rules)
        return StreamEntry(create, stream, read, self._source(stream, read, create, files))

    def _exists(self, create: CreateStream | CreateTable | CreateView) -> bool:
        entry = self.catalog.find(create.name)
        if entry is None:
            return False
        if create.if_not_exists:
            return True
        if create.or_replace and not isinstance(create, CreateView):
            same = not isinstance(entry, ViewEntry) and as_said(entry, create) == replace(create, or_replace=False)
            if same:
                return True
            self.drop(Drop("table" if isinstance(create, CreateTable) else "stream", create.name))
        return False

    # -- views ---------------------------------------------------------------------------------

    def create_view(self, create: CreateView) -> bool:
        """Create a view; False if it was there and that is fine. To replace one is `Replacing`'s."""
        if self._exists(create):
            return False
        self.catalog.check_free(create.name, create.position)
        entry = ViewEntry(create)
        options = ViewOptions.read(dict(create.options), create.position)
        self.create_parts(self.plan(entry), create, backfill=options.backfill)
        self.catalog.add(entry)
        return True

    def create_parts(self, plan: ViewPlan, create: CreateView, *, backfill: bool, kind: str = "view") -> None:
        """Create the parts of a view in the store, those over streams with a past at its beginning."""
        schemas: dict[str, pa.Schema] = {}
        history: dict[str, Progress] = {}
        for part in plan.on_spark:
            stream = self.catalog.stream(part.stream)
            schemas[part.name] = self.compute.schema(stream.stream, part)
            past = self._history(stream) if backfill else None
            if past is not None:
                history[part.name] = past
        statement = render(replace(create, or_replace=False))
        self.store.create_view(plan, schemas, statement, self.clock.now(), history, kind=kind)

    def _history(self, entry: StreamEntry) -> Progress | None:
        """Where a new view begins to read, if the stream has a past that can be read."""
        progress = self.store.progress(entry.name)
        if progress is None or not entry.connector.replays:
            return None
        start = dict(entry.source.start())
        behind = any(progress.offsets.get(partition, 0) > offset for partition, offset in start.items())
        return Progress(offsets=start) if behind else None

    def plan(self, entry: ViewEntry) -> ViewPlan:
        """The plan of a view, made once."""
        if entry.plan is None:
            entry.plan = self.plan_statement(entry.statement)
        return entry.plan

    def planned(self, entry: ViewEntry) -> ViewPlan | None:
        """The plan of a view; None if it cannot be planned any more."""
        try:
            return self.plan(entry)
        except Exception as error:
            if own_fault(error) is None:
                raise
            return None

    def reads(self, entry: ViewEntry) -> set[str]:
        """The relations that a view reads."""
        plan = self.planned(entry)
        return plan.reads() if plan is not None else self._named(entry.statement)

    def _named(self, create: CreateView) -> set[str]:
        found = [self.catalog.find(name) for name in read_names(create.query)]
        return {entry.name for entry in found if entry is not None}

    def plan_over(self, create: CreateView, relation: Relation) -> ViewPlan:
        """The plan of a view if one of the relations that it reads were another."""

        def find(name: str) -> Relation | None:
            return relation if name.lower() == relation.name.lower() else self._relation(name)

        return plan_query(replace(create, query=create.query.copy()), find, self._types)

    def plan_statement(self, create: CreateView) -> ViewPlan:
        text = create.position.text if create.position else ""
        source = create.position.source if create.position else "<sql>"
        check_query(create.query, text=text, source=source, continuous=True, udfs=self.functions.names())
        query = self.functions.bind(create.query.copy(), text, source)
        return plan_query(replace(create, query=query), self._relation, self._types)

    def _relation(self, name: str) -> Relation | None:
        """What a query finds under a name."""
        entry = self.catalog.find(name)
        match entry:
            case StreamEntry() if not entry.is_table:
                return Relation(entry.name, entry.stream.schema.names(), entry.stream)
            case StreamEntry():
                return Relation(
                    entry.name,
                    tuple(self.store.columns(entry.name).names),
                    versioned=entry.stream.rules.versioned,
                    event_stream=entry.stream if entry.stream.has_event_versions else None,
                )
            case ViewEntry():
                columns = tuple(self.store.columns(entry.name).names)
                return Relation(entry.name, columns, append_only=self.plan(entry).view.only_grows)
        return None

    def _types(self, stream: Stream, sqls: Sequence[str]) -> list[pa.DataType]:
        """The types of expressions, each asked for once."""
        new = [sql for sql in dict.fromkeys(sqls) if (stream, sql) not in self._known_types]
        for sql, type_ in zip(new, self.compute.types(stream, new), strict=True):
            self._known_types[stream, sql] = type_
        return [self._known_types[stream, sql] for sql in sqls]

    # -- dropping ------------------------------------------------------------------------------

    def drop(self, drop: Drop) -> bool:
        entry = self.catalog.find(drop.name)
        if entry is None or _kind(entry) != drop.kind:
            if drop.if_exists and entry is None:
                return False
            known = [e.name.lower() for e in self.catalog if _kind(e) == drop.kind]
            raise MillstreamError(
                f"UNKNOWN_{drop.kind.upper()}",
                f"there is no {drop.kind} {drop.name!r}",
                detail=f"{entry.name} is a {_kind(entry)}" if entry is not None else None,
                hint=did_you_mean(drop.name, known),
                position=drop.position,
            )
        self._check_unread(entry.name, drop.position)
        self._check_undelivered(entry.name, drop.position)
        if isinstance(entry, StreamEntry):
            entry.source.close()
        parts = [entry.name]
        if isinstance(entry, ViewEntry):
            # Not by its plan: what cannot be planned any more can be dropped.
            names = [entry.name, *([entry.name + SUCCESSOR] if entry.successor is not None else ())]
            parts = [part for name in names for part in self.store.parts_of(name)]
        self.store.drop(*parts)
        self.catalog.remove(entry.name)
        self.tidy_forms()
        if isinstance(entry, StreamEntry) and entry.topic is not None:
            self._drop_topic(entry.topic.name)
        return True

    def tidy_forms(self) -> None:
        """Release what was made to compute views that are gone, or that never came to be. Runs nothing."""
        views = self.catalog.views()
        plans = [view.plan for view in views] + [view.successor.made for view in views if view.successor is not None]
        self.compute.keep(part for plan in plans if plan is not None for part in plan.on_spark)

    def _check_unread(self, name: str, position: Position | None) -> None:
        """Refuse to take away what a view reads."""
        readers = [
            v.name
            for v in self.catalog.views()
            if name in self.reads(v) or (v.successor is not None and name in self._named(v.successor.statement))
        ]
        if readers:
            raise MillstreamError(
                "IN_USE",
                f"{name} is read by {', '.join(sorted(readers))}",
                hint="drop the views first",
                position=position,
            )

    def _check_undelivered(self, name: str, position: Position | None) -> None:
        """Refuse to take away a view whose changes a sink gets."""
        sinks = self.catalog.sinks_of(name)
        if sinks:
            raise MillstreamError(
                "IN_USE",
                f"{name} is delivered by {'sinks' if len(sinks) > 1 else 'sink'} "
                f"{', '.join(sorted(sink.name for sink in sinks))}",
                hint="drop the sinks first",
                position=position,
            )

    def _drop_topic(self, topic: str) -> None:
        """A topic goes with the last stream that reads it, unless a sink writes it."""
        used = {e.topic.name for e in self.catalog.streams() if e.topic is not None} | self.catalog.written_topics()
        if topic not in used and topic in self.log.topics():
            self.log.drop_topic(topic)


def as_said(entry: StreamEntry, create: CreateStream | CreateTable) -> CreateStream | CreateTable:
    """The definition of a stream without what the engine noted, or the command line said, and `create` does not say."""
    said = {name.lower() for name, _ in create.options}
    added = {"start", "start_offsets"} - said
    options = tuple(option for option in entry.statement.options if option[0].lower() not in added)
    return replace(entry.statement, options=options, or_replace=False, if_not_exists=False)


def _connector(create: CreateStream | CreateTable) -> Connector[Any]:
    kind = next((value for name, value in create.options if name.lower() == "source"), "log")
    if kind not in SOURCES:
        raise MillstreamError(
            "UNKNOWN_SOURCE", f"there is no source {kind!r}", hint=did_you_mean(kind, SOURCES), position=create.position
        )
    return SOURCES[kind]


def _kind(entry: Entry) -> str:
    if isinstance(entry, ViewEntry):
        return "view"
    return "table" if entry.is_table else "stream"
