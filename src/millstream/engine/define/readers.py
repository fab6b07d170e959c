"""The readers of a view that is to be replaced: whether each is the same view over the new definition.

Owns the check and its words. A reader fits if its plan stays the same and the columns that it reads keep their
types: then its contents are brought up to date by the difference. What always holds: the check changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from millstream.engine.define.catalog import SUCCESSOR, Catalog, ViewEntry
from millstream.engine.define.definitions import Definitions
from millstream.model.errors import MillstreamError, Position, own_fault
from millstream.model.schema import sql_type
from millstream.plan.nodes import ViewPlan
from millstream.plan.relations import Relation
from millstream.sql.statements import CreateView

Columns = Mapping[str, pa.DataType]

_STAR = "it selects *, which would be other columns"
_OTHERWISE = "its query would mean something else"


@dataclass(frozen=True, slots=True)
class Readers:
    """Those that read the view `of`."""

    definitions: Definitions
    catalog: Catalog
    of: ViewEntry
    stands_still: Callable[[str], bool]

    def names(self) -> set[str]:
        """The views that read it, or will when they are replaced."""
        return {view.name for view in self.catalog.views() if any(True for _ in self._plans(view))}

    def check(self, before: Columns, after: Columns, *, grew: bool, grows: bool, position: Position | None) -> None:
        """Refuse other columns, or rows that change where they only came, if a reader does not fit them."""
        relation = Relation(self.of.name, tuple(after), append_only=grows)
        objections: dict[str, str] = {}
        for view in self.catalog.views():
            # One that stands still is rebuilt from what it finds then.
            if view is self.of or self.stands_still(view.name):
                continue
            for statement, plan in self._plans(view):
                objection = (
                    _of_types(self._read(plan), before, after)
                    or _of_growth(grew, grows)
                    or self._of_plan(statement, plan, relation)
                )
                if objection is not None:
                    objections.setdefault(view.name, objection)
        if objections:
            has_star = any(objection == _STAR for objection in objections.values())
            raise MillstreamError(
                "IN_USE",
                f"{self.of.name} is read by {', '.join(sorted(objections))}, which would not fit the new definition",
                detail="; ".join(f"{name}: {objection}" for name, objection in sorted(objections.items())),
                hint="keep the columns that they read, or drop these views first"
                + ("; a view that names its columns instead of * does not mind new ones" if has_star else ""),
                position=position,
            )

    def _plans(self, view: ViewEntry) -> Iterator[tuple[CreateView, ViewPlan]]:
        """The definitions of a view that read this one: its own, and the one that is being built."""
        plan = self.definitions.planned(view)
        if plan is not None and self.of.name in plan.reads():
            yield view.statement, plan
        if view.successor is not None:
            statement = replace(view.successor.statement, name=view.name + SUCCESSOR)
            try:
                built = self.definitions.plan_statement(statement)
            except MillstreamError as error:
                if own_fault(error) is None:
                    raise
                return
            if self.of.name in built.reads():
                yield statement, built

    def _read(self, plan: ViewPlan) -> set[str]:
        inputs = [input_ for part in plan.in_store for input_ in part.inputs]
        return {column for input_ in inputs if input_.relation == self.of.name for column in input_.columns}

    def _of_plan(self, statement: CreateView, plan: ViewPlan, relation: Relation) -> str | None:
        try:
            same = self.definitions.plan_over(statement, relation) == plan
        except MillstreamError as error:
            if own_fault(error) is None:
                raise
            return error.message
        if same:
            return None
        stars = statement.query.find_all(exp.Star)
        return _STAR if any(not isinstance(star.parent, exp.Count) for star in stars) else _OTHERWISE


def _of_types(read: set[str], before: Columns, after: Columns) -> str | None:
    """The objection to other types of the columns that are read; they keep their spelling too."""
    if gone := sorted(name for name in read if name not in after):
        return f"it reads {', '.join(gone)}, which would be gone"
    said = [
        f"{name}, which would be {sql_type(after[name])} instead of {sql_type(before[name])}"
        for name in sorted(read)
        if after[name] != before[name]
    ]
    return f"it reads {'; '.join(said)}" if said else None


def _of_growth(grew: bool, grows: bool) -> str | None:
    if grew == grows:
        return None
    return (
        "rows of what it reads could change, and now they only come"
        if grew
        else ("rows of what it reads would only come, and now they can change")
    )
