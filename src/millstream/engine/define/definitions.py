"""Making and dropping streams, tables and views.

A definition is valid before anything of it exists: options are read, the query is planned and
typed. Then it is created in the store in one transaction, in the place of the old one if it replaces one. What
always holds: a statement that is refused, at whatever point, has changed nothing. What streams own outside of the store
is for `holdings`.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from millstream.engine.define.catalog import SUCCESSOR, Catalog, Entry, StreamEntry, ViewEntry, read_names
from millstream.engine.define.functions import Functions
from millstream.engine.define.holdings import Holdings
from millstream.engine.define.tables import split_options, table_rules, table_watermark
from millstream.log import Log, Topic
from millstream.model.errors import MillstreamError, Position, did_you_mean, own_fault
from millstream.model.progress import Progress
from millstream.model.schema import check_names
from millstream.model.settings import ViewOptions
from millstream.model.time import Clock
from millstream.plan.compute import Compute, Streaming
from millstream.plan.nodes import Stream, ViewPlan
from millstream.plan.queries import plan_query
from millstream.plan.relations import Relation, Relations, stream_relation, view_relation
from millstream.sources import SOURCES, Connector, Opening, Source, StreamOptions, TableOptions
from millstream.sql import called_names, check_query, render
from millstream.sql.statements import CreateFunction, CreateStream, CreateTable, CreateView, Drop
from millstream.sql.user_calls import store_name
from millstream.store import commands
from millstream.store.protocol import EARLY_INCARNATION, Store

RelationKind = Literal["stream", "table", "view"]


@dataclass(frozen=True, slots=True)
class TypedPlan:
    """A plan with what Spark says of it: the columns of its deltas, and where its parts begin to read history."""

    plan: ViewPlan
    deltas: Mapping[str, pa.Schema]
    history: Mapping[str, Progress]


@dataclass(slots=True)
class Definitions:
    catalog: Catalog
    store: Store
    log: Log
    clock: Clock
    compute: Compute
    directory: Path
    functions: Functions
    holdings: Holdings = field(init=False)
    new_incarnation: Callable[[], str] = field(default=lambda: secrets.token_hex(6))
    """An id that no relation ever had. It goes to the store with the statement."""
    _known_types: dict[tuple[Stream, str], pa.DataType] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.holdings = Holdings(self.catalog, self.log, self.directory / "spark" / "checkpoints")

    # -- streams and tables --------------------------------------------------------------------

    def create_stream(self, create: CreateStream | CreateTable) -> bool:
        """Create a stream or a table, in the place of another if the statement says so; False if it was there and that
        is fine."""
        old = self._replaced(create)
        if isinstance(old, bool):
            return old
        entry, skipped = self._new(create, old)
        try:
            if old is not None:
                self.holdings.end_with(old, entry)
            self.store.apply(
                commands.CreateStream(
                    entry.stream,
                    render(entry.statement),
                    self.clock.now(),
                    skipped,
                    incarnation=entry.incarnation,
                    instead_of=old.name if old is not None else None,
                )
            )
        except BaseException:
            self._end(entry)
            raise
        if old is not None:
            self.catalog.remove(old.name)
        self.catalog.add(entry)
        self._begin(entry)
        if old is not None:
            self._end(old)
        return True

    def _replaced(self, create: CreateStream | CreateTable) -> StreamEntry | Literal[False] | None:
        """The stream that a statement replaces, if any; False if there is nothing to do. Refuses what cannot be."""
        old = self.catalog.find(create.name)
        if old is not None and create.if_not_exists:
            return False
        if old is None or not create.or_replace:
            self.catalog.check_free(create.name, create.position)
            return None
        if isinstance(old, StreamEntry) and as_said(old, create) == replace(create, or_replace=False):
            return False
        kind: RelationKind = "table" if isinstance(create, CreateTable) else "stream"
        found = self._droppable(Drop(kind, create.name, position=create.position))
        assert isinstance(found, StreamEntry)
        return found

    def begin_at(self, entry: StreamEntry, start: str) -> None:
        """Let a stream that nothing was read of begin elsewhere."""
        said = tuple(o for o in entry.statement.options if o[0].lower() not in ("start", "start_offsets"))
        statement = replace(entry.statement, options=(*said, ("start", start)))
        changed, skipped = self._placed(statement, entry.incarnation, entry.topic, entry.source)
        try:
            self.store.apply(commands.ChangeStream(entry.name, render(changed.statement), skipped))
        except BaseException:
            self._end(changed)
            raise
        self.catalog.add(changed)
        self._begin(changed)
        self._end(entry)

    def restore_stream(self, create: CreateStream | CreateTable, incarnation: str) -> None:
        """Open a stream or table again that the store has."""
        stream, options = self._described(create)
        spec = options.topic_of(stream)
        topic = self.holdings.topic_again(spec, incarnation) if spec is not None else None
        progress = self.store.progress(stream.name)
        opening = Opening(
            stream,
            self.log,
            self.clock,
            lambda: self.store.files(stream.name),
            lambda: progress.offsets if progress is not None else None,
            create.position,
            topic,
            is_known=True,
        )
        source = SOURCES[options.source].open(options, opening)
        entry = StreamEntry(create, stream, options, source, incarnation, topic)
        if incarnation.startswith(EARLY_INCARNATION):
            self.holdings.keep_early_checkpoint(entry)
        self.catalog.add(entry)
        source.begin()

    def _new(self, create: CreateStream | CreateTable, old: StreamEntry | None) -> tuple[StreamEntry, Sequence[str]]:
        """A stream that is about to be created, with its topic and its source, and the files that it leaves out."""
        create = replace(create, options=self._completed(create))
        stream, options = self._described(create)
        incarnation = self.new_incarnation()
        spec = options.topic_of(stream)
        try:
            topic = self.holdings.new_topic(spec, incarnation) if spec is not None else None
            return self._placed(create, incarnation, topic, old.source if old is not None else None)
        except BaseException:
            self.holdings.sweep()
            raise

    def _placed(
        self, create: CreateStream | CreateTable, incarnation: str, topic: Topic | None, instead_of: Source | None
    ) -> tuple[StreamEntry, Sequence[str]]:
        """A stream that nothing was read from, with its start noted as offsets, and the files that it leaves out."""
        skipped: Sequence[str] = ()

        def opened() -> StreamEntry:
            stream, options = self._described(create)
            opening = Opening(
                stream, self.log, self.clock, lambda: skipped, lambda: None, create.position, topic, instead_of
            )
            source = SOURCES[options.source].open(options, opening)
            return StreamEntry(create, stream, options, source, incarnation, topic)

        entry = opened()
        start = entry.options.pending_start()
        if start is None:
            return entry, skipped
        try:
            place = entry.source.place(start)
        finally:
            entry.source.close()
        noted = ("start_offsets", entry.options.offset_form.write(place.offsets))
        create, skipped = replace(create, options=(*create.options, noted)), place.skipped
        return opened(), skipped

    def _begin(self, entry: StreamEntry) -> None:
        """After the commit: rows may land, and a shared topic gets the settings of the stream."""
        spec = entry.options.topic_of(entry.stream)
        if entry.topic is not None and spec is not None and entry.topic.settings != spec.settings:
            # Otherwise they change when the database is opened.
            with suppress(MillstreamError):
                entry.topic.change_settings(spec.settings)
        entry.source.begin()

    def _end(self, entry: StreamEntry) -> None:
        """Close a stream that is gone, or never came to be, and remove what it owned."""
        # Its end is committed: a connection that fails to close changes nothing about it.
        with suppress(Exception):
            entry.source.close()
        self.holdings.sweep()

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

    def _described(self, create: CreateStream | CreateTable) -> tuple[Stream, StreamOptions]:
        """A stream or table as its statement says, and the options of its source. Makes nothing."""
        if isinstance(create, CreateTable):
            return self._described_table(create)
        return self._described_stream(create)

    def _described_stream(self, create: CreateStream) -> tuple[Stream, StreamOptions]:
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
        return stream, read

    def _described_table(self, create: CreateTable) -> tuple[Stream, StreamOptions]:
        options, rest = split_options(create)
        read = self._source_options(create, rest, TableOptions.model_fields)
        rules = table_rules(create, options)
        watermark = table_watermark(create)
        stream = Stream(create.name, create.schema, watermark, None, create.primary_key, read.letters_retain, rules)
        return stream, read

    def agree_on_compaction(self, tables: Sequence[StreamEntry]) -> bool:
        """Whether tables that read one topic need the same rows of it, and the topic keeps these."""
        wanted = [(e.topic, spec) for e in tables if (spec := e.options.topic_of(e.stream)) is not None]
        return all(t is not None and spec.settings.compaction == t.settings.compaction for t, spec in wanted)

    def streaming_source(self, entry: StreamEntry) -> Streaming:
        """The Structured Streaming side of a `source = 'spark'` stream."""
        pushed = entry.options.pushed()
        assert pushed is not None
        checkpoint = self.holdings.checkpoint(entry)
        return self.compute.streaming(pushed.format, pushed.path, pushed.options, entry.stream.schema, checkpoint)

    # -- views ---------------------------------------------------------------------------------

    def create_view(self, create: CreateView) -> bool:
        """Create a view; False if it was there and that is fine. To replace one is `Replacing`'s."""
        if create.if_not_exists and self.catalog.find(create.name) is not None:
            return False
        self.catalog.check_free(create.name, create.position)
        entry = ViewEntry(create, self.new_incarnation())
        options = ViewOptions.read(dict(create.options), create.position)
        try:
            parts = self.typed(self.plan(entry), backfill=options.backfill)
            self.store_view(parts, create, incarnation=entry.incarnation)
        except BaseException:
            self.tidy_forms()
            raise
        self.catalog.add(entry)
        return True

    def typed(self, plan: ViewPlan, *, backfill: bool) -> TypedPlan:
        """Types and beginnings of the parts of a view; those over streams with a past begin there."""
        schemas: dict[str, pa.Schema] = {}
        history: dict[str, Progress] = {}
        for part in plan.on_spark:
            stream = self.catalog.stream(part.stream)
            schemas[part.name] = self.compute.schema(stream.stream, part)
            past = self._history(stream) if backfill else None
            if past is not None:
                history[part.name] = past
        return TypedPlan(plan, schemas, history)

    def store_view(
        self,
        typed: TypedPlan,
        create: CreateView,
        *,
        incarnation: str,
        kind: Literal["view", "successor"] = "view",
        built: Sequence[str] = (),
        instead_of: Sequence[str] = (),
    ) -> None:
        """Create the parts of a view in the store."""
        self.store.apply(
            commands.CreateView(
                typed.plan,
                typed.deltas,
                render(replace(create, or_replace=False)),
                self.clock.now(),
                typed.history,
                kind,
                built=built,
                incarnation=incarnation,
                instead_of=instead_of,
                letters_of=self.streams_with_letters() if instead_of else (),
            )
        )

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

        return self._plan(create, find)

    def plan_statement(self, create: CreateView) -> ViewPlan:
        text = create.position.text if create.position else ""
        source = create.position.source if create.position else "<sql>"
        check_query(create.query, text=text, source=source, continuous=True, udfs=self.functions.names())
        return self._plan(create, self._relation)

    def _plan(self, create: CreateView, find: Relations) -> ViewPlan:
        text = create.position.text if create.position else ""
        source = create.position.source if create.position else "<sql>"
        query = self.functions.bind(create.query.copy(), text, source)
        return plan_query(replace(create, query=query), find, self._types)

    def _relation(self, name: str) -> Relation | None:
        """What a query finds under a name."""
        entry = self.catalog.find(name)
        match entry:
            case StreamEntry():
                return stream_relation(entry.stream)
            case ViewEntry():
                return view_relation(self.plan(entry).view)
        return None

    def _types(self, stream: Stream, sqls: Sequence[str]) -> list[pa.DataType]:
        """The types of expressions, each asked for once."""
        new = [sql for sql in dict.fromkeys(sqls) if (stream, sql) not in self._known_types]
        for sql, type_ in zip(new, self.compute.types(stream, new), strict=True):
            self._known_types[stream, sql] = type_
        return [self._known_types[stream, sql] for sql in sqls]

    # -- functions -----------------------------------------------------------------------------

    def create_function(self, create: CreateFunction, function: Callable[..., Any] | None) -> bool:
        """Create or replace a function; False if it was there and that is fine.

        Views use new code from the next epoch on, so it must not be called in the store: there rows that go are
        computed again, and would not be those that came. What was read ahead must be discarded afterwards.
        """
        known = self.functions.find(create.name)
        if create.or_replace and known is not None and known.function is not None:
            call = re.compile(rf"\b{re.escape(store_name(create.name))}\(")
            plans = [(view.name, plan) for view in self.catalog.views() for plan in self._calling(view, create.name)]
            if found := sorted({name for name, plan in plans if plan is None or call.search(repr(plan))}):
                raise MillstreamError(
                    "IN_USE",
                    f"function {create.name} is called in the store by {', '.join(found)} and cannot be replaced",
                    detail="only functions that are called on rows of streams can be replaced while views use them",
                    hint="drop the views first",
                    position=create.position,
                )
        return self.functions.create(create, function, self.clock.now())

    def _calling(self, view: ViewEntry, function: str) -> Iterator[ViewPlan | None]:
        """The plans of a view, and of the one that is being built, that call a function."""
        if function.lower() in called_names(view.statement.query):
            yield self.planned(view)
        if view.successor is not None and function.lower() in called_names(view.successor.statement.query):
            yield view.successor.parts

    # -- dropping ------------------------------------------------------------------------------

    def drop(self, drop: Drop) -> bool:
        """Drop a relation; False if it was not there and that is fine."""
        entry = self._droppable(drop)
        if entry is None:
            return False
        if isinstance(entry, ViewEntry):
            # Not by its plan: a view that can no longer be planned can be dropped.
            names = [entry.name, *([entry.name + SUCCESSOR] if entry.successor is not None else ())]
            parts = [part for name in names for part in self.store.parts_of(name)]
            self.store.apply(commands.Drop(parts, self.streams_with_letters()))
            self.catalog.remove(entry.name)
            self.tidy_forms()
            return True
        self.holdings.end_with(entry)
        self.store.apply(commands.Drop([entry.name]))
        self.catalog.remove(entry.name)
        self._end(entry)
        return True

    def _droppable(self, drop: Drop) -> Entry | None:
        """What a statement drops, if it can be dropped."""
        entry = self.catalog.find(drop.name)
        if entry is None and drop.if_exists:
            return None
        if entry is None or _kind(entry) != drop.kind:
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
        return entry

    def streams_with_letters(self) -> list[str]:
        """The streams in which a view may have letters."""
        return [entry.name for entry in self.catalog.streams() if not entry.is_table]

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


def as_said(entry: StreamEntry, create: CreateStream | CreateTable) -> CreateStream | CreateTable:
    """The definition of a stream without what the engine noted, or the command line said, and `create` does not say."""
    said = {name.lower() for name, _ in create.options}
    added = {"start", "start_offsets"} - said
    options = tuple(option for option in entry.statement.options if option[0].lower() not in added)
    return replace(entry.statement, options=options, or_replace=False, if_not_exists=False)


def _kind(entry: Entry) -> str:
    if isinstance(entry, ViewEntry):
        return "view"
    return "table" if entry.is_table else "stream"


def _connector(create: CreateStream | CreateTable) -> Connector[Any]:
    kind = next((value for name, value in create.options if name.lower() == "source"), "log")
    if kind not in SOURCES:
        raise MillstreamError(
            "UNKNOWN_SOURCE", f"there is no source {kind!r}", hint=did_you_mean(kind, SOURCES), position=create.position
        )
    return SOURCES[kind]
