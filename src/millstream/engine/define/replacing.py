"""Views that are built anew beside their old contents: REBUILD and CREATE OR REPLACE.

The new view is built under a name of its own, `v~`, by the same code that reads history for any new
view; `History` swaps it in at an epoch boundary when it is where its streams are. Until then the
old contents are readable and live. What always holds: a view has at most one successor, and what
reads the view fits both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from millstream.engine.define.catalog import SUCCESSOR, Catalog, Successor, ViewEntry, read_names
from millstream.engine.define.definitions import Definitions
from millstream.engine.define.readers import Readers
from millstream.model.errors import MillstreamError, Position
from millstream.model.settings import ViewOptions
from millstream.plan.nodes import AggregateView, AppendView, QueryView, ViewPlan
from millstream.sql import render
from millstream.sql.statements import CreateView, Rebuild
from millstream.store import commands
from millstream.store.commands import Swap
from millstream.store.protocol import Store


@dataclass(slots=True)
class Replacing:
    definitions: Definitions
    catalog: Catalog
    store: Store

    def rebuild(self, rebuild: Rebuild) -> None:
        """Begin to build a view anew from the history that its streams have."""
        entry = self.catalog.view(rebuild.name, rebuild.position)
        self._check_inputs(entry.statement, rebuild.position)
        stands_still = entry.name in self.store.failures()
        building = entry.successor is not None and entry.name + SUCCESSOR not in self.store.failures()
        if building or (not stands_still and self._is_behind(self.definitions.plan(entry))):
            being = "rebuilt" if building else "built"
            raise MillstreamError(
                "BEING_BUILT",
                f"{entry.name} is being {being} already",
                hint="SHOW VIEWS says how far it is; DROP or CREATE OR REPLACE end it",
                position=rebuild.position,
            )
        self._begin(entry, entry.statement, share=False, backfill=True)

    def recover(self, entry: ViewEntry) -> None:
        """Begin to build a view that was blocked, or the one that was to take its place, again."""
        statement = entry.successor.statement if entry.successor is not None else entry.statement
        self._begin(entry, statement, share=False, backfill=True)

    def replace(self, create: CreateView) -> None:
        """Give a view another definition: in place where only its text or options differ, otherwise built anew."""
        entry = self.catalog.view(create.name, create.position)
        statement = replace(create, name=entry.name, or_replace=False, if_not_exists=False)
        failures = self.store.failures()
        building = entry.successor if entry.name + SUCCESSOR not in failures else None
        if building is not None and render(building.statement) == render(statement):
            return
        self._check_inputs(statement, create.position)
        new = self.definitions.plan_statement(statement)
        self._check_circle(entry, new, create.position)
        options = ViewOptions.read(dict(create.options), create.position)
        old = self.definitions.planned(entry)
        if old is None:
            self._start_over(entry, statement, new, backfill=options.backfill)
            return
        if entry.name in failures:
            self._begin(entry, statement, share=False, backfill=options.backfill)
            return
        if _without_options(old) == _without_options(new):
            if old.view.only_grows != new.view.only_grows:
                columns = self.store.columns(entry.name)
                self._check_readers(entry, columns, columns, new, create.position)
            streams = self.definitions.streams_with_letters()
            self.store.apply(commands.ChangeView(old, new, render(statement), self._ending(entry), streams))
            entry.statement, entry.plan, entry.successor = statement, new, None
            self.definitions.tidy_forms()
            return
        self._begin(entry, statement, share=True, backfill=options.backfill)

    def _start_over(self, entry: ViewEntry, statement: CreateView, new: ViewPlan, *, backfill: bool) -> None:
        """Create a view in the place of one that cannot be planned any more, whose contents go."""
        typed = self.definitions.typed(new, backfill=backfill)
        gone = [*self.store.parts_of(entry.name), *self._ending(entry)]
        self.definitions.store_view(typed, statement, incarnation=entry.incarnation, instead_of=gone)
        entry.statement, entry.plan, entry.successor = statement, new, None
        self.catalog.arrange()

    def abandon(self, entry: ViewEntry) -> None:
        """Drop what was built so far."""
        if entry.successor is not None:
            self.store.apply(commands.Drop(self._ending(entry), self.definitions.streams_with_letters()))
            entry.successor = None
            self.definitions.tidy_forms()

    def restore(self, statement: CreateView) -> None:
        """Go on with a view that was being built when the database was closed."""
        entry = self.catalog.view(statement.name)
        share = entry.name not in self.store.failures() and self._is_another(entry, statement)
        entry.successor = self._successor(entry, statement, share=share)
        entry.successor.changes_columns = self._changes_columns(entry)

    def is_ready(self, entry: ViewEntry) -> bool:
        """Whether a successor is where its streams are."""
        successor = entry.successor
        return successor is not None and not any(self.store.view_progress(name) for name in successor.built)

    def swap(self, entry: ViewEntry) -> Swap:
        """What the store has to do to put a successor in place."""
        successor = entry.successor
        assert successor is not None
        new = self.definitions.plan_statement(successor.statement)
        return Swap(self.definitions.plan(entry), new, successor.built, render(successor.statement))

    def swapped(self, entry: ViewEntry, swap: Swap) -> None:
        """Note what has been committed."""
        assert entry.successor is not None
        entry.statement, entry.plan, entry.successor = entry.successor.statement, swap.new, None
        self.catalog.arrange()
        self.definitions.tidy_forms()

    # -- beginning -----------------------------------------------------------------------------

    def _begin(self, entry: ViewEntry, statement: CreateView, *, share: bool, backfill: bool) -> None:
        """Create the successor of a view in the store, in the place of one that was being built."""
        successor, ending = self._successor(entry, statement, share=share), self._ending(entry)
        try:
            typed = self.definitions.typed(successor.parts, backfill=backfill)
            if share and (ending or self._readers(entry).names()):
                now = self.definitions.clock.now()
                columns = self.store.preview(typed.plan, typed.deltas, now, ending)
                new = self.definitions.plan_statement(statement)
                self._check_readers(entry, self.store.columns(entry.name), columns, new, statement.position)
            incarnation = self.definitions.new_incarnation()
            self.definitions.store_view(
                typed,
                statement,
                incarnation=incarnation,
                kind="successor",
                built=successor.built,
                instead_of=ending,
            )
        except BaseException:
            self.definitions.tidy_forms()
            raise
        entry.successor = successor
        successor.changes_columns = self._changes_columns(entry)
        self.definitions.tidy_forms()

    def _successor(self, entry: ViewEntry, statement: CreateView, *, share: bool) -> Successor:
        def make() -> tuple[ViewPlan, tuple[str, ...]]:
            built = self.definitions.plan_statement(replace(statement, name=entry.name + SUCCESSOR))
            kept = _shared(self.definitions.plan(entry), built) if share else {}
            names = tuple(kept.get(part.name, part.name) for part in built.parts)
            return built.sharing(names), names

        return Successor(statement, make)

    def _ending(self, entry: ViewEntry) -> list[str]:
        """The parts of a successor, which end when another takes its place."""
        return self.store.parts_of(entry.name + SUCCESSOR) if entry.successor is not None else []

    def _is_another(self, entry: ViewEntry, statement: CreateView) -> bool:
        return render(entry.statement) != render(statement)

    def _is_behind(self, plan: ViewPlan) -> bool:
        return any(self.store.view_progress(part.name) is not None for part in plan.on_spark)

    def _changes_columns(self, entry: ViewEntry) -> bool:
        return bool(self.store.columns(entry.name) != self.store.columns(entry.name + SUCCESSOR))

    def _readers(self, entry: ViewEntry) -> Readers:
        return Readers(self.definitions, self.catalog, entry, self.store.failures().__contains__)

    def _check_readers(
        self, entry: ViewEntry, before: pa.Schema, after: pa.Schema, new: ViewPlan, position: Position | None
    ) -> None:
        """The views that read this one must be the same over the new definition."""
        self._readers(entry).check(
            dict(zip(before.names, before.types, strict=True)),
            dict(zip(after.names, after.types, strict=True)),
            grew=self.definitions.plan(entry).view.only_grows,
            grows=new.view.only_grows,
            position=position,
        )

    # -- what does not go ----------------------------------------------------------------------

    def _check_inputs(self, statement: CreateView, position: Position | None) -> None:
        """A view cannot be built from one that stands still."""
        for name in read_names(statement.query):
            read = self.catalog.find(name)
            if read is not None and read.name in self.store.failures():
                raise MillstreamError(
                    "VIEW_BLOCKED",
                    f"{statement.name} reads {read.name}, which stands still",
                    detail=self.store.failures()[read.name].message,
                    hint=f"ALTER VIEW {read.name} REBUILD, or replace it; what reads it is then rebuilt by itself",
                    position=position,
                )

    def _check_circle(self, entry: ViewEntry, new: ViewPlan, position: Position | None) -> None:
        """A view may not come to read itself."""
        inputs = {i.relation for part in new.in_store for i in part.inputs}
        readers = {entry.name}
        for view in self.catalog.views():
            if readers & self.definitions.reads(view):
                readers.add(view.name)
        if found := sorted(readers & (inputs | new.reads())):
            raise MillstreamError(
                "CIRCULAR_VIEW",
                f"{entry.name} would read itself",
                detail=f"it would read {', '.join(found)}"
                + ("" if found == [entry.name] else f", which reads {entry.name}"),
                position=position,
            )

    def check_settled(self, create: CreateView) -> None:
        """A new view cannot be over one that stands still, or is about to have other columns or rows of another
        nature."""
        if self.catalog.find(create.name) is None:
            self._check_inputs(create, create.position)
        for name in read_names(create.query):
            entry = self.catalog.find(name)
            if not isinstance(entry, ViewEntry) or entry.successor is None or entry.name.lower() == create.name.lower():
                continue
            grows = self.definitions.plan(entry).view.only_grows
            if entry.successor.changes_columns or entry.successor.parts.view.only_grows != grows:
                raise MillstreamError(
                    "BEING_BUILT",
                    f"{entry.name} is being replaced by a view of another form",
                    hint="wait until SHOW VIEWS says that it is live",
                    position=create.position,
                )


def _without_options(plan: ViewPlan) -> ViewPlan:
    """A plan as it would be without the options that can change in place."""
    return ViewPlan(tuple(replace(part, retain=None, changelog_retain=None) for part in plan.parts))


def _shared(old: ViewPlan, built: ViewPlan) -> dict[str, str]:
    """The hidden parts that a new plan has in common with an old one: new name → old name.

    Only those that keep all that their stream ever brought: rows that were let go are missing for
    whoever comes later. What is computed from them in the store is made anew, which reads no history.
    """
    kept: dict[str, str] = {}
    for part in built.parts[:-1]:
        if isinstance(part, QueryView) or (isinstance(part, AppendView) and (part.horizon or part.top)):
            continue
        for other in old.parts[:-1]:
            if other.name not in kept.values() and not isinstance(other, QueryView) and _alike(part, other):
                kept[part.name] = other.name
                break
    return kept


def _alike(part: AppendView | AggregateView, other: AppendView | AggregateView) -> bool:
    return replace(part, name=other.name) == other
