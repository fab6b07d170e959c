"""Views that are kept together, so that a few statements merge a thousand of them.

A statement takes the store some milliseconds however few rows it merges. So aggregating views that differ only in what
Spark computes (filters, keys, arguments of aggregates) are kept as one, on a *shelf*: an aggregating view with one more
key, the number of the view that a group is of, which is merged and fires like any other. In the places of its tables
such a view has SQL views of its share of the shelf, and whoever reads those sees no difference.

What always holds: a view is on a shelf, or it has tables of its own. Views that are large, feed others or let go of
what is old have, since on a shelf all of that would cost more. All that is on a shelf has come equally far: one
watermark says what fires. A view is moved between two epochs, never within one: see `writing` for what DuckDB
must not be asked of rows that the same transaction has added. For the same reason a shelf is merged once in an epoch.

Owns `ms.shelved`: which view is on which shelf, and which column of the shelf has which number for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import duckdb
import pyarrow as pa

from millstream.duck import quote
from millstream.plan.aggregates import Accumulator
from millstream.plan.nodes import AggregateView, Key, Output, Part, QueryView, View
from millstream.store.commands import ViewPart
from millstream.store.duckdb.changelog import HEADER
from millstream.store.duckdb.connection import column_types, count_rows, tables_of
from millstream.store.duckdb.failures import Blame
from millstream.store.duckdb.maintainers import maintainer, merge_delta
from millstream.store.duckdb.moment import Moment
from millstream.store.duckdb.naming import internal, literal
from millstream.store.duckdb.triggered import TriggeredAggregate
from millstream.store.duckdb.writing import Writing, are_few

SHELVED = """
CREATE TABLE IF NOT EXISTS ms.shelved (view VARCHAR, shelf VARCHAR, key VARCHAR, number INTEGER);
"""
_PREFIX = "__shelf_"
_STATE = "state"
_HEADERS = {"changes": len(HEADER), "rows": 2, "shown": 3}
"""The other tables that a view may have, and how many columns of each come before those of the view."""
_SHARE = 8
"""A view may be one of so many parts of its shelf before its size counts. Where all are large none is in the way of the
others, and it would take longer to give each its own place than to merge them together."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a view is kept: in which shelf, and by which key."""

    shelf: str
    key: str
    number: int

    @property
    def is_here(self) -> str:
        return f"{self.key} = {self.number}"


@dataclass(frozen=True, slots=True)
class Taken:
    """Where a view was that was taken from its shelf."""

    place: _Place
    marks: Mapping[str, Sequence[str]]
    """By kind of table: the columns of the shelf that had the number of the view."""


AnyView = TypeVar("AnyView", View, View | QueryView)


class Shelves:
    """All shelves of a store. What changes them belongs into a transaction; `forget` after one that has failed."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, writing: Writing) -> None:
        self._connection = connection
        self._writing = writing
        self._views: dict[str, AggregateView] = {}
        """The views that shelves are kept as, those that were needed so far."""
        self._most: dict[str, int] = {}
        """The groups that a view can have at most, by what was counted and what has come since."""
        self._plans: dict[str, Part] = {}
        """What views looked like when they were last found to be of the shape of their shelf."""
        self._known: dict[str, _Place] | None = None

    @property
    def _places(self) -> dict[str, _Place]:
        """Where views are, by their names."""
        if self._known is None:
            rows = self._connection.execute("SELECT view, shelf, key, number FROM ms.shelved").fetchall()
            self._known = {view: _Place(*place) for view, *place in rows}
        return self._known

    def forget(self) -> None:
        """Ask again where views are."""
        self._known = None

    def __contains__(self, view: str) -> bool:
        return view in self._places

    def beside(self, view: str) -> list[str]:
        """The views on the same shelf."""
        return [name for name in self._members(self._places[view].shelf) if name != view] if view in self else []

    def kept_as(self, views: Iterable[AnyView]) -> list[AnyView]:
        """What has the tables of some views: themselves or their shelves."""
        kept: dict[str, AnyView] = {}
        for view in views:
            having = self._shelf(view) if isinstance(view, AggregateView) and view.name in self else view
            kept[having.name] = having
        return list(kept.values())

    # -- merging -------------------------------------------------------------------------------

    def merge(self, parts: Sequence[ViewPart], epoch: int, now: int, blame: Blame) -> None:
        """Do for views that are on shelves what an epoch asks; none of them is `misplaced`."""
        together: dict[str, list[ViewPart]] = {}
        for part in parts:
            together.setdefault(self._places[part.view.name].shelf, []).append(part)
        for name, members in together.items():
            at = Moment(epoch, now, members[0].before, members[0].after)
            keeper = maintainer(self._shelf(members[0].view))
            repeats = any(part.repeats for part in members)
            blame.on(*self._members(name))
            merge_delta(keeper, self._writing.of(name, at), self._together(members), repeats=repeats)

    def _members(self, shelf: str) -> list[str]:
        return [view for view, place in self._places.items() if place.shelf == shelf]

    def _together(self, parts: Sequence[ViewPart]) -> pa.Table | None:
        """The deltas of views on a shelf with its key, if there are any."""
        numbered = []
        for part in parts:
            if part.delta is not None and part.delta.num_rows:
                place = self._places[part.view.name]
                number = pa.repeat(pa.scalar(place.number, pa.int32()), part.delta.num_rows)
                numbered.append(part.delta.append_column(place.key, number))
        if not numbered:
            return None
        if any(delta.schema != numbered[0].schema for delta in numbered):
            # What is kept of them is of the same types; partial results may be narrower in one than in another.
            schema = pa.unify_schemas([delta.schema for delta in numbered], promote_options="permissive")
            numbered = [delta.select(schema.names).cast(schema) for delta in numbered]
        return pa.concat_tables(numbered).combine_chunks()

    def _shelf(self, view: Part) -> AggregateView:
        """The view that the shelf of one is kept as."""
        assert isinstance(view, AggregateView)
        name = self._places[view.name].shelf
        if name not in self._views:
            self._views[name] = _as_shelf(view, name)
        return self._views[name]

    # -- moving --------------------------------------------------------------------------------

    def suits(self, view: Part) -> bool:
        """Whether a view is on a shelf for views of its shape. Its options may have changed, or how it is planned."""
        name = view.name
        if name not in self:
            return False
        if self._plans.get(name) is not view:
            if not may_share(view):
                return False
            assert isinstance(view, AggregateView)
            if not self._places[name].shelf.startswith(_shape_name(view)):
                return False
            self._plans[name] = view
        return True

    def misplaced(self, parts: Sequence[ViewPart], feeding: set[str]) -> list[str]:
        """The views that a shelf is not the place for any more, with what an epoch has for them."""
        counted: dict[str, dict[int, int]] = {}
        shelved = [part for part in parts if part.view.name in self]
        reached: dict[str, tuple[int, int]] = {}
        for part in shelved:
            reached.setdefault(self._places[part.view.name].shelf, (part.before, part.after))
        return [
            part.view.name
            for part in shelved
            if part.view.name in feeding
            or reached[self._places[part.view.name].shelf] != (part.before, part.after)
            or self._outgrows(part, counted)
        ]

    def _outgrows(self, part: ViewPart, counted: dict[str, dict[int, int]]) -> bool:
        """Whether a statement of its own costs less than what the size of a view costs on its shelf."""
        rows = part.delta.num_rows if part.delta is not None else 0
        if not are_few(rows):
            return True
        name = part.view.name
        place, most = self._places[name], self._most.get(name)
        if most is not None and are_few(most + rows):
            self._most[name] = most + rows
            return False
        # They are counted whenever there may be many: where a view is kept follows from its contents alone.
        if place.shelf not in counted:
            counted[place.shelf] = self._counts(place)
        groups, all_groups = counted[place.shelf].get(place.number, 0) + rows, sum(counted[place.shelf].values()) + rows
        self._most[name] = groups
        return not are_few(groups) and groups * _SHARE >= all_groups

    def _counts(self, place: _Place) -> dict[int, int]:
        """The groups of each view on a shelf, by the number of the view."""
        state = internal(place.shelf, _STATE)
        return dict(self._connection.execute(f"SELECT {place.key}, count(*) FROM {state} GROUP BY 1").fetchall())

    def put(self, part: Part) -> None:
        """Put a view that has tables of its own and may share on a shelf, if there is not too much in them."""
        assert isinstance(part, AggregateView)
        kinds = self._kinds(part.name)
        if not all(are_few(self._count(part.name, kind)) for kind in kinds):
            return
        columns = {kind: column_types(self._connection, internal(part.name, kind)) for kind in kinds}
        types = [type_ for kind in kinds for type_ in columns[kind].values()]
        shelf = _as_shelf(part, _shape_name(part) + _digest(types))
        ((number,),) = self._connection.execute("SELECT coalesce(max(number), 0) + 1 FROM ms.shelved").fetchall()
        place = _Place(shelf.name, shelf.outputs[-1].name, number)
        for kind in kinds:
            # What was last published of a group has the number of its view, too.
            published = [f"__p{len(part.outputs)}"] if _publishes_in(kind, part) else []
            marks = (*published, place.key)
            self._move(
                internal(part.name, kind), internal(shelf.name, kind), _shared(kind, columns[kind]), place, marks
            )
        self._placed(part.name, place)
        self._plans[part.name] = part

    def _placed(self, name: str, place: _Place) -> None:
        """Note where a view is from now on."""
        self._connection.execute(
            "INSERT INTO ms.shelved VALUES (?, ?, ?, ?)", [name, place.shelf, place.key, place.number]
        )
        self._places[name] = place
        self._writing.forget(name)
        # What the view has may be due though nothing else on the shelf is.
        self._writing.reached_anew(place.shelf)

    def _move(self, own: str, shelf: str, columns: Mapping[str, str], place: _Place, marks: Sequence[str]) -> None:
        """Move the rows of a table to a shelf, and show them in its place; `marks` have the number of the view."""
        run = self._connection.execute
        there = ", ".join(f"{quote(column)} AS {quote(shared)}" for column, shared in columns.items())
        back = ", ".join(f"{quote(shared)} AS {quote(column)}" for column, shared in columns.items())
        numbers = ", ".join(f"CAST({place.number} AS INTEGER) AS {mark}" for mark in marks)
        rows = f"SELECT {there}, {numbers} FROM {own}"
        run(f"CREATE TABLE IF NOT EXISTS {shelf} AS {rows} LIMIT 0")
        run(f"INSERT INTO {shelf} {rows} ORDER BY rowid")
        run(f"DROP TABLE {own}")
        run(f"CREATE VIEW {own} AS SELECT rowid AS rowid, {back} FROM {shelf} WHERE {place.is_here}")

    def take(self, name: str) -> Taken:
        """Give a view that is on a shelf tables of its own."""
        run, place = self._connection.execute, self._places[name]
        marks: dict[str, tuple[str, ...]] = {}
        for kind in self._kinds(place.shelf):
            shown, taken = internal(name, kind), internal(name, f"{kind} taken")
            there = column_types(self._connection, internal(place.shelf, kind))
            own = _shared(kind, [c for c in column_types(self._connection, shown) if c != "rowid"]).values()
            marks[kind] = tuple(column for column in there if column not in own)
            run(f"CREATE TABLE {taken} AS SELECT * EXCLUDE (rowid) FROM {shown} ORDER BY rowid")
            run(f"DROP VIEW {shown}")
            run(f"ALTER TABLE {taken} RENAME TO {quote(f'{name}.{kind}')}")
        self.drop(name)
        return Taken(place, marks)

    def put_back(self, name: str, taken: Taken) -> None:
        """Put a view where it was, as if it had not been taken."""
        for kind, marks in taken.marks.items():
            columns = _shared(kind, column_types(self._connection, internal(name, kind)))
            self._move(internal(name, kind), internal(taken.place.shelf, kind), columns, taken.place, marks)
        self._placed(name, taken.place)

    def drop(self, name: str) -> None:
        """Remove what a shelf has of a view, if it is on one."""
        place = self._places.pop(name, None)
        if place is None:
            return
        run = self._connection.execute
        run("DELETE FROM ms.shelved WHERE view = ?", [name])
        for known in (self._most, self._plans):
            known.pop(name, None)
        kinds = self._kinds(place.shelf)
        if any(other.shelf == place.shelf for other in self._places.values()):
            for kind in kinds:
                run(f"DELETE FROM {internal(place.shelf, kind)} WHERE {place.is_here}")
        else:
            for kind in kinds:
                run(f"DROP TABLE {internal(place.shelf, kind)}")
            self._views.pop(place.shelf, None)
            self._writing.forget(place.shelf)

    def _kinds(self, name: str) -> list[str]:
        """The kinds of tables that a view or a shelf has."""
        tables = tables_of(self._connection, name)
        return [kind for kind in (_STATE, *_HEADERS) if tables.get(kind) == "TABLE"]

    def _count(self, name: str, kind: str) -> int:
        return count_rows(self._connection, internal(name, kind))


def changed_view(changelog: View | QueryView) -> str:
    """The SQL of the name of the view that a change is of, in the changelog of a view or a shelf."""
    if not (isinstance(changelog, AggregateView) and changelog.name.startswith(_PREFIX)):
        return literal(changelog.name)
    key = changelog.outputs[-1].name
    return f"(SELECT view FROM ms.shelved WHERE shelf = {literal(changelog.name)} AND number = {key})"


def may_share(part: Part) -> bool:
    """Whether a view is of a kind that shelves are for."""
    return isinstance(part, AggregateView) and not part.hidden and part.retain is None


def _publishes_in(kind: str, view: AggregateView) -> bool:
    """Whether a table of groups also has what was last published of them."""
    return kind == _STATE and isinstance(maintainer(view), TriggeredAggregate)


def _shape(view: AggregateView) -> AggregateView:
    """A view without its name and what only Spark has to know."""
    return replace(
        view,
        name="",
        filter=None,
        checks=(),
        keys=(Key("", None),) * len(view.keys),
        kept=tuple(replace(kept, filter=None, accumulator=_in_store(kept.accumulator)) for kept in view.kept),
        outputs=tuple(Output(f"__c{index}", out.sql) for index, out in enumerate(view.outputs)),
    )


def _in_store(accumulator: Accumulator) -> Accumulator:
    kept = accumulator.load, accumulator.merge, accumulator.combine
    return Accumulator((), *kept, floating=accumulator.floating)


def _shape_name(view: AggregateView) -> str:
    """What the names of shelves for views like one begin with."""
    return f"{_PREFIX}{_digest(_shape(view))}_"


def _as_shelf(view: AggregateView, name: str) -> AggregateView:
    """The view that a shelf with one is kept as."""
    shape, key = _shape(view), f"__k{len(view.keys)}"
    return replace(shape, name=name, keys=(*shape.keys, Key("", None)), outputs=(*shape.outputs, Output(key, key)))


def _shared(kind: str, columns: Iterable[str]) -> dict[str, str]:
    """What columns of a view's table are called on a shelf: its own have the names that the user has given them."""
    if kind == _STATE:
        return {name: name for name in columns}
    header = _HEADERS[kind]
    return {name: name if place < header else f"__c{place - header}" for place, name in enumerate(columns)}


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]
