"""The views of a stream as queries over one task's rows: one pass for all of them.

Views with the same keys and panes share one aggregation, also if their filters differ: each aggregate
then has the filter of its view. What the views of a query have in common is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from millstream.kernel.native import Condition, NativeView, cast_sql, filtered, rows_of, select_sql
from millstream.plan.nodes import Stream
from millstream.sql import quote

SHARED = "__shared"
# So many filters at most are asked of a row before it is given to the aggregates of all.
_MOST_BEFORE = 16


@dataclass(frozen=True, slots=True)
class Query:
    """A query over the rows for some views, and how each takes its delta from the result."""

    views: tuple[int, ...]
    sql: str | None
    """What several views share, as `__shared`."""
    deltas: tuple[str, ...]
    """The SQL of each view's delta: over `__shared`, or by itself where nothing is shared."""


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """What the tasks of an epoch do with the rows of a stream. Made once for some views, and known by itself."""

    stream: Stream
    max_ahead: int | None
    views: tuple[NativeView, ...]
    needs_landed: bool = False
    """Whether it must be known when the last row of a partition landed."""
    queries: tuple[Query, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "queries", tuple(_queries(self.views)))


def _queries(views: Sequence[NativeView]) -> list[Query]:
    groups: dict[object, list[int]] = {}
    for index, view in enumerate(views):
        groups.setdefault(_common(view, index), []).append(index)
    return [_query(indexes, views) for indexes in groups.values()]


def _common(view: NativeView, index: int) -> object:
    """What views must have in common to share an aggregation."""
    if not view.is_grouped:
        return index
    # A careful filter is asked of all rows first, for one view or for several with the same one.
    careful = view.condition.sql if view.condition is not None and view.condition.careful else None
    return tuple(sql for _, sql in view.keys), careful


def partners(view: NativeView, others: Sequence[NativeView]) -> list[str]:
    """The names of views that share the aggregation of another."""
    common = _common(view, -1)
    return [other.name for index, other in enumerate(others) if _common(other, index) == common]


def _query(indexes: Sequence[int], views: Sequence[NativeView]) -> Query:
    chosen = [views[index] for index in indexes]
    if len(chosen) == 1:
        return Query(tuple(indexes), None, (cast_sql(chosen[0], f"({select_sql(chosen[0])})"),))
    conditions = {view.condition for view in chosen}
    same = len(conditions) == 1
    before: Condition | None = chosen[0].condition if same else None
    if not same and None not in conditions and len(conditions) <= _MOST_BEFORE:
        before = Condition(" OR ".join(sorted(f"({c.sql})" for c in conditions if c is not None)))
    columns: dict[str, str] = {}
    deltas = []
    for view in chosen:
        own = view.condition.sql if view.condition is not None and not same else None
        names = {name: f"g{place}" for place, (name, _) in enumerate(view.keys)}
        for name, sql in view.outputs:
            names[name] = columns.setdefault(filtered(sql, own), f"c{len(columns)}")
        deltas.append(cast_sql(view, SHARED, f" WHERE {names['__rows']} > 0", names))
    keys = [f"{sql} AS g{place}" for place, (_, sql) in enumerate(chosen[0].keys)]
    outputs = [f"{sql} AS {quote(name)}" for sql, name in columns.items()]
    source, where = rows_of(before)
    group = f" GROUP BY {', '.join(str(place + 1) for place in range(len(keys)))}" if keys else ""
    sql = f"SELECT {', '.join([*keys, *outputs])} FROM {source}{where}{group}"
    return Query(tuple(indexes), sql, tuple(deltas))
