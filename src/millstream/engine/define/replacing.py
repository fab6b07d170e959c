"""Views that are built anew beside their old contents: REBUILD and CREATE OR REPLACE.

The new view is built under a name of its own, `v~`, by the same code that reads history for any new
view; `History` swaps it in at an epoch boundary when it is where its streams are. Until then the
old contents are readable and live. What always holds: a view has at most one successor, and what
reads the view fits both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from millstream.engine.define.catalog import Catalog, Successor, ViewEntry, read_names
from millstream.engine.define.definitions import Definitions
from millstream.model.errors import MillstreamError, Position
from millstream.model.settings import ViewOptions
from millstream.plan.nodes import AggregateView, AppendView, Part, QueryView, ViewPlan
from millstream.plan.relations import Relation
from millstream.sql import render
from millstream.sql.statements import CreateView, Rebuild
from millstream.store.duckdb.store import DuckDBStore
from millstream.store.protocol import Swap

SUCCESSOR = "~"
"""What is added to the name of a view while it is built anew."""


@dataclass(slots=True)
class Replacing:
    definitions: Definitions
    catalog: Catalog
    store: DuckDBStore

    def rebuild(self, rebuild: Rebuild) -> None:
        """Begin to build a view anew from the history that its streams have."""
        entry = self.catalog.view(rebuild.name, rebuild.position)
        if entry.successor is not None or self._is_behind(self.definitions.plan(entry)):
            being = "rebuilt" if entry.successor is not None else "built"
            raise MillstreamError(
                "BEING_BUILT",
                f"{entry.name} is being {being} already",
                hint="SHOW VIEWS says how far it is; DROP or CREATE OR REPLACE end it",
                position=rebuild.position,
            )
        self._begin(entry, entry.statement, share=False, backfill=True)

    def replace(self, create: CreateView) -> None:
        """Give a view another definition: in place where only its text or options differ, otherwise built anew."""
        entry = self.catalog.view(create.name, create.position)
        statement = replace(create, name=entry.name, or_replace=False, if_not_exists=False)
        if entry.successor is not None and render(entry.successor.statement) == render(statement):
            return
        old, new = self.definitions.plan(entry), self.definitions.plan_statement(statement)
        self._check_circle(entry, new, create.position)
        self.abandon(entry)
        if _without_options(old) == _without_options(new):
            if old.view.only_grows != new.view.only_grows:
                self._check_readers(entry, statement, create.position)
            self.store.change_view(old, new, render(statement))
            entry.statement, entry.plan = statement, new
            self.definitions.tidy_forms()
            return
        options = ViewOptions.read(dict(create.options), create.position)
        self._begin(entry, statement, share=True, backfill=options.backfill)

    def abandon(self, entry: ViewEntry) -> None:
        """Drop what was built so far."""
        if entry.successor is not None:
            parts = entry.successor.parts
            self.store.drop(*(part.name for part in parts.parts), letters_of=parts.streams)
            entry.successor = None
            self.definitions.tidy_forms()

    def restore(self, statement: CreateView) -> None:
        """Go on with a view that was being built when the database was closed."""
        entry = self.catalog.view(statement.name)
        entry.successor = self._successor(entry, statement, share=self._is_another(entry, statement))
        entry.successor.changes_columns = self._columns(entry) != self._columns(entry, built=True)

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
        successor = self._successor(entry, statement, share=share)
        self.definitions.create_parts(successor.parts, statement, backfill=backfill, kind="successor")
        entry.successor = successor
        try:
            successor.changes_columns = self._columns(entry) != self._columns(entry, built=True)
            if share:
                self._check_readers(entry, statement, statement.position)
        except BaseException:
            self.abandon(entry)
            raise

    def _successor(self, entry: ViewEntry, statement: CreateView, *, share: bool) -> Successor:
        def make() -> tuple[ViewPlan, tuple[str, ...]]:
            built = self.definitions.plan_statement(replace(statement, name=entry.name + SUCCESSOR))
            kept = _shared(self.definitions.plan(entry), built) if share else {}
            own = tuple(_reading(part, kept) for part in built.parts if part.name not in kept)
            return ViewPlan(own), tuple(kept.get(part.name, part.name) for part in built.parts)

        return Successor(statement, make)

    def _is_another(self, entry: ViewEntry, statement: CreateView) -> bool:
        return render(entry.statement) != render(statement)

    def _is_behind(self, plan: ViewPlan) -> bool:
        return any(self.store.view_progress(part.name) is not None for part in plan.on_spark)

    def _columns(self, entry: ViewEntry, *, built: bool = False) -> list[tuple[str, str]]:
        schema = self.store.columns(entry.name + SUCCESSOR if built else entry.name)
        return [(field.name, str(field.type)) for field in schema]

    # -- what does not go ----------------------------------------------------------------------

    def _check_circle(self, entry: ViewEntry, new: ViewPlan, position: Position | None) -> None:
        """A view may not come to read itself."""
        inputs = {i.relation for part in new.in_store for i in part.inputs}
        readers = {entry.name}
        for view in self.catalog.views():
            if readers & self.definitions.plan(view).reads():
                readers.add(view.name)
        if found := sorted(readers & (inputs | new.reads())):
            raise MillstreamError(
                "CIRCULAR_VIEW",
                f"{entry.name} would read itself",
                detail=f"it would read {', '.join(found)}"
                + ("" if found == [entry.name] else f", which reads {entry.name}"),
                position=position,
            )

    def _check_readers(self, entry: ViewEntry, statement: CreateView, position: Position | None) -> None:
        """The views that read this one must be what they are over the new one too."""
        columns = dict(self._columns(entry))
        after = dict(self._columns(entry, built=True)) if entry.successor is not None else columns
        plan = self.definitions.plan_statement(statement)
        relation = Relation(entry.name, tuple(after), append_only=plan.view.only_grows)
        broken: list[str] = []
        for view in self.catalog.views():
            old = self.definitions.plan(view)
            if entry.name not in old.reads():
                continue
            used = {c for part in old.in_store for i in part.inputs if i.relation == entry.name for c in i.columns}
            same_types = all(after.get(column) == columns[column] for column in used)
            if not same_types or self.definitions.plan_over(view.statement, relation) != old:
                broken.append(view.name)
        if columns != after or plan.view.only_grows != self.definitions.plan(entry).view.only_grows:
            built = [view for view in self.catalog.views() if view.successor is not None and view is not entry]
            broken += [v.name for v in built if v.successor and entry.name in v.successor.parts.reads()]
        if broken:
            raise MillstreamError(
                "IN_USE",
                f"{entry.name} is read by {', '.join(sorted(set(broken)))}, which would not fit the new definition",
                detail="its columns or their types would change, or its rows could change where now they only come",
                hint="drop these views first, or keep the columns that they read",
                position=position,
            )

    def check_settled(self, create: CreateView) -> None:
        """A new view cannot be over one that is about to have other columns, or rows of another nature."""
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


def _reading(part: Part, names: dict[str, str]) -> Part:
    """A part that reads relations under other names."""
    if not isinstance(part, QueryView):
        return part
    inputs = tuple(replace(i, relation=names.get(i.relation, i.relation)) for i in part.inputs)
    return replace(part, inputs=inputs)
