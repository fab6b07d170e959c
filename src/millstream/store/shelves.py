"""Views that are kept together, so that a few statements merge a thousand of them.

A statement takes the store some milliseconds however few rows it merges. So live views that differ only in what
Spark computes (filters, keys, arguments of aggregates) are kept as one, on a *shelf*: an aggregating view with one more
key, the number of the view that a group is of, which is merged like any other. In the places of its tables such a view
has SQL views of its share of the shelf, and whoever reads those sees no difference.

What always holds: a view is on a shelf, or it has tables of its own. Views that grow, feed others or let go of what is
old have, since on a shelf all of that would cost more. A view is moved between two epochs, never within one: see
`store.writing` for what DuckDB must not be asked of rows that the same transaction has added.

Owns `ms.shelved`: which view is on which shelf, and which column of the shelf has which number for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa

from millstream.plan.aggregates import Accumulator
from millstream.plan.nodes import AggregateView, Key, Output, Part, QueryView, View
from millstream.sql import quote
from millstream.store.aggregate import LiveAggregate
from millstream.store.changelog import HEADER
from millstream.store.connection import column_types, count_rows
from millstream.store.maintainers import maintainer_of
from millstream.store.moment import Moment
from millstream.store.naming import internal, literal
from millstream.store.protocol import ViewPart
from millstream.store.writing import Writing, are_few

SHELVED = """
CREATE TABLE IF NOT EXISTS ms.shelved (view VARCHAR, shelf VARCHAR, key VARCHAR, number INTEGER);
"""
_PREFIX = "__shelf_"
_KINDS = ("state", "changes")
"""The tables of a live view."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a view is kept: in which shelf, and by which key."""

    shelf: str
    key: str
    number: int

    @property
    def is_here(self) -> str:
        return f"{self.key} = {self.number}"


class Shelves:
    """All shelves of a store. What changes them belongs into a transaction; `forget` after one that has failed."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, writing: Writing) -> None:
        self._connection = connection
        self._writing = writing
        self._views: dict[str, AggregateView] = {}
        """The views that shelves are kept as, those that were needed so far."""
        self._came: dict[str, int] = {}
        """How many groups of a view have come since its groups were last counted."""
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
        shelf = self._places[view].shelf if view in self._places else None
        return [name for name, place in self._places.items() if place.shelf == shelf and name != view]

    def changelogs(self, views: Iterable[View | QueryView]) -> list[View | QueryView]:
        """What has the changelogs of some views: themselves or their shelves."""
        having = (self._shelf(v) if isinstance(v, AggregateView) and v.name in self else v for v in views)
        return list({view.name: view for view in having}.values())

    # -- merging -------------------------------------------------------------------------------

    def merge(self, parts: Sequence[ViewPart], epoch: int, now: int) -> None:
        """Merge the deltas of views that are on shelves."""
        together: dict[tuple[str, Moment, pa.Schema], list[ViewPart]] = {}
        for part in parts:
            if part.delta is not None and part.delta.num_rows:
                at = Moment(epoch, now, part.before, part.after)
                together.setdefault((self._places[part.view.name].shelf, at, part.delta.schema), []).append(part)
        filled = set[str]()
        for (name, at, _), members in together.items():
            shelf = self._shelf(members[0].view)
            statements = self._writing.of(name, at)
            # Only the first may be large: rows are added to the shelf after that.
            for some in _portions(members) if name in filled else [members]:
                delta = pa.concat_tables([self._numbered(part) for part in some]).combine_chunks()
                LiveAggregate(shelf).merge(statements, delta, repeats=any(part.repeats for part in some))
                filled.add(name)

    def _numbered(self, part: ViewPart) -> pa.Table:
        """A delta with the key of the shelf."""
        assert part.delta is not None
        place = self._places[part.view.name]
        return part.delta.append_column(place.key, pa.repeat(pa.scalar(place.number, pa.int32()), part.delta.num_rows))

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
        """The views that a shelf is not the place for any more, with the deltas of an epoch."""
        return [
            part.view.name
            for part in parts
            if part.view.name in self and (part.view.name in feeding or self._outgrows(part))
        ]

    def _outgrows(self, part: ViewPart) -> bool:
        name, rows = part.view.name, part.delta.num_rows if part.delta is not None else 0
        came = self._came[name] = self._came.get(name, 0) + rows
        if are_few(came):
            return False
        self._came[name] = 0
        return not are_few(self._count(name, "state") + rows)

    def put(self, part: Part) -> None:
        """Put a view that has tables of its own and may share on a shelf, if there is not too much in them."""
        if not all(are_few(self._count(part.name, kind)) for kind in _KINDS):
            return
        assert isinstance(part, AggregateView)
        columns = {kind: column_types(self._connection, internal(part.name, kind)) for kind in _KINDS}
        types = [type_ for kind in _KINDS for type_ in columns[kind].values()]
        shelf = _as_shelf(part, _shape_name(part) + _digest(types))
        ((number,),) = self._connection.execute("SELECT coalesce(max(number), 0) + 1 FROM ms.shelved").fetchall()
        place = _Place(shelf.name, shelf.outputs[-1].name, number)
        for kind in _KINDS:
            self._move(internal(part.name, kind), internal(shelf.name, kind), _shared(kind, columns[kind]), place)
        self._connection.execute(
            "INSERT INTO ms.shelved VALUES (?, ?, ?, ?)", [part.name, place.shelf, place.key, place.number]
        )
        self._places[part.name] = place
        self._plans[part.name] = part
        self._writing.forget(part.name)

    def _move(self, own: str, shelf: str, columns: Mapping[str, str], place: _Place) -> None:
        """Move the rows of a table to a shelf, and show them in its place."""
        run = self._connection.execute
        there = ", ".join(f"{quote(column)} AS {quote(shared)}" for column, shared in columns.items())
        back = ", ".join(f"{quote(shared)} AS {quote(column)}" for column, shared in columns.items())
        rows = f"SELECT {there}, CAST({place.number} AS INTEGER) AS {place.key} FROM {own}"
        run(f"CREATE TABLE IF NOT EXISTS {shelf} AS {rows} LIMIT 0")
        run(f"INSERT INTO {shelf} {rows} ORDER BY rowid")
        run(f"DROP TABLE {own}")
        run(f"CREATE VIEW {own} AS SELECT rowid AS rowid, {back} FROM {shelf} WHERE {place.is_here}")

    def take(self, name: str) -> None:
        """Give a view that is on a shelf tables of its own."""
        run = self._connection.execute
        for kind in _KINDS:
            shown, taken = internal(name, kind), internal(name, f"{kind} taken")
            run(f"CREATE TABLE {taken} AS SELECT * EXCLUDE (rowid) FROM {shown} ORDER BY rowid")
            run(f"DROP VIEW {shown}")
            run(f"ALTER TABLE {taken} RENAME TO {quote(f'{name}.{kind}')}")
        self.drop(name)

    def drop(self, name: str) -> None:
        """Remove what a shelf has of a view, if it is on one."""
        place = self._places.pop(name, None)
        if place is None:
            return
        run = self._connection.execute
        run("DELETE FROM ms.shelved WHERE view = ?", [name])
        for known in (self._came, self._plans):
            known.pop(name, None)
        if any(other.shelf == place.shelf for other in self._places.values()):
            for kind in _KINDS:
                run(f"DELETE FROM {internal(place.shelf, kind)} WHERE {place.is_here}")
        else:
            for kind in _KINDS:
                run(f"DROP TABLE {internal(place.shelf, kind)}")
            self._views.pop(place.shelf, None)
            self._writing.forget(place.shelf)

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
    return isinstance(maintainer_of(part), LiveAggregate) and not part.hidden and part.retain is None


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
    return Accumulator((), accumulator.load, accumulator.merge, accumulator.combine)


def _shape_name(view: AggregateView) -> str:
    """What the names of shelves for views like one begin with."""
    return f"{_PREFIX}{_digest(_shape(view))}_"


def _as_shelf(view: AggregateView, name: str) -> AggregateView:
    """The view that a shelf with one is kept as."""
    shape, key = _shape(view), f"__k{len(view.keys)}"
    return replace(shape, name=name, keys=(*shape.keys, Key("", None)), outputs=(*shape.outputs, Output(key, key)))


def _shared(kind: str, columns: Iterable[str]) -> dict[str, str]:
    """What columns of a view's table are called on a shelf: its own have the names that the user has given them."""
    if kind == "state":
        return {name: name for name in columns}
    header = len(HEADER)
    return {name: name if place < header else f"__c{place - header}" for place, name in enumerate(columns)}


def _portions(parts: Sequence[ViewPart]) -> Iterator[list[ViewPart]]:
    """Deltas in portions of few rows."""
    portion, rows = list[ViewPart](), 0
    for part in parts:
        assert part.delta is not None
        if portion and not are_few(rows + part.delta.num_rows):
            yield portion
            portion, rows = [], 0
        portion.append(part)
        rows += part.delta.num_rows
    yield portion


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]
