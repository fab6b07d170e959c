"""The views of a stream as queries over one task's rows: one pass for all of them.

Views with the same keys and panes share one aggregation, also if their filters differ. Then every row is
given a *signature*, a bit for each filter that it meets; rows are aggregated per key and signature, and
what a view gains is combined from the few groups whose signature has its bit. So a row is aggregated
once, however many views want it. Filters that compare one thing with different constants are asked
together: which constant it is decides about all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import duckdb
import numpy as np
import pyarrow as pa

from millstream.kernel.agreement import NotNativeError
from millstream.kernel.native import (
    NO_PUSHING,
    NUMBER,
    ROWS,
    Condition,
    Equality,
    NativeView,
    cast_sql,
    rows_of,
    rows_schema,
    select_sql,
)
from millstream.plan.nodes import Stream

PIECES = "__pieces"
"""The results that several tasks have of a query."""
_PART, _SIGNATURE = "__part", "__signature"
# As many filters as a signature has bits, without the one of the sign.
_BITS = 63


@dataclass(frozen=True, slots=True)
class Take:
    """Where a view finds its delta in the result of a query."""

    view: int
    part: int
    """Which rows it takes: those of a filter, by its number."""
    columns: tuple[str, ...]
    """Its columns, in the order of its delta."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query over `__rows` for some views."""

    sql: str
    combine: str | None
    """What makes one result of `__pieces`, in which a group may be several times; None where rows are rows."""
    takes: tuple[Take, ...]

    @property
    def views(self) -> tuple[int, ...]:
        return tuple(take.view for take in self.takes)

    def deltas(self, results: Sequence[pa.Table], views: Sequence[NativeView]) -> dict[int, pa.Table]:
        """What each view takes of some results."""
        some = [result for result in results if result.num_rows] or results[:1]
        taken: dict[int, list[pa.Table]] = {take.view: [] for take in self.takes}
        for result in some:
            bounds = np.array([0, result.num_rows])
            if _PART in result.column_names:
                # In the order of the filters.
                bounds = np.searchsorted(result.column(_PART).to_numpy(), np.arange(_BITS + 1))
            for take in self.takes:
                start, end = bounds[take.part], bounds[take.part + 1]
                rows = result.slice(start, end - start).select(take.columns)
                schema = views[take.view].schema
                taken[take.view].append(rows.rename_columns(schema.names).cast(schema))
        return {view: pa.concat_tables(pieces) for view, pieces in taken.items()}


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

    @property
    def numbers_rows(self) -> bool:
        """Whether a view tells rows by their numbers."""
        return any(sql == NUMBER for view in self.views for _, sql in view.keys)


def check_binding(view: NativeView, stream: Stream, connection: duckdb.DuckDBPyConnection) -> None:
    """Refuse what DuckDB does not understand, before any row is there."""
    connection.register(ROWS, rows_schema(stream).empty_table())
    try:
        for query in _queries([view]):
            connection.sql(query.sql)
    except duckdb.Error as error:
        raise NotNativeError(f"DuckDB: {str(error).splitlines()[0]}") from None
    finally:
        connection.unregister(ROWS)


def _queries(views: Sequence[NativeView]) -> list[Query]:
    groups: dict[object, list[int]] = {}
    for index, view in enumerate(views):
        groups.setdefault(_common(view, index), []).append(index)
    return [query for indexes in groups.values() for query in _shared(indexes, views)]


def _common(view: NativeView, index: int) -> object:
    """What views must have in common to share an aggregation."""
    if not view.is_grouped:
        return index
    # A filter that must be asked of all rows first, or before anything else is computed, is one for all.
    alone = view.guarded or (view.condition is not None and view.condition.careful)
    return tuple(sql for _, sql in view.keys), view.condition if alone else None, alone


def partners(view: NativeView, others: Sequence[NativeView]) -> list[str]:
    """The names of views that share the aggregation of another."""
    common = _common(view, -1)
    return [other.name for index, other in enumerate(others) if _common(other, index) == common]


def _shared(indexes: Sequence[int], views: Sequence[NativeView]) -> list[Query]:
    """The queries for views that share an aggregation: one for as many filters as a signature can hold."""
    by_condition: dict[Condition | None, list[int]] = {}
    for index in indexes:
        by_condition.setdefault(views[index].condition, []).append(index)
    # Those that are asked together are put together.
    ordered = sorted(by_condition.items(), key=lambda item: _place(item[0]))
    return [_query(dict(ordered[at : at + _BITS]), views) for at in range(0, len(ordered), _BITS)]


def _place(condition: Condition | None) -> tuple[str, str]:
    first = condition.equals[0] if condition is not None and condition.equals else None
    return (first.sql, first.value) if first is not None else ("", "")


def _query(by_condition: dict[Condition | None, list[int]], views: Sequence[NativeView]) -> Query:
    chosen = [(part, index) for part, indexes in enumerate(by_condition.values()) for index in indexes]
    first = views[chosen[0][1]]
    if not first.is_grouped:
        everything = Take(chosen[0][1], 0, tuple(first.schema.names))
        types = {field.name: field.type for field in first.schema}
        return Query(cast_sql(select_sql(first), types), None, (everything,))
    columns = _Columns(first)
    takes = tuple(Take(index, part, columns.of(views[index])) for part, index in chosen)
    conditions = list(by_condition)
    if len(conditions) == 1:
        source, where = rows_of(conditions[0])
        by = columns.grouped()
        # Without keys a group exists even for no rows, and is none of Spark's.
        grouped = f"SELECT {columns.computed()} FROM {source}{where}{by or ' HAVING count(*) > 0'}"
        again = f"SELECT {columns.combined()} FROM {PIECES}{by}"
        return Query(columns.cast(grouped), columns.cast(again), takes)
    fragments = (
        f"SELECT {columns.computed(_SIGNATURE)} FROM {_signed(conditions)} "
        f"WHERE {_SIGNATURE} <> 0{columns.grouped(_SIGNATURE)}"
    )
    parts = f"(SELECT CAST(range AS UTINYINT) AS {_PART}, 1::BIGINT << range AS __bit FROM range({len(conditions)}))"
    of_parts, by = f"SELECT {columns.combined(_PART)} FROM", columns.grouped(_PART)
    grouped = f"{of_parts} ({fragments}), {parts} WHERE {_SIGNATURE} & __bit <> 0{by}"
    again = f"{of_parts} {PIECES}{by}"
    ordered = f" ORDER BY {_PART}"
    return Query(columns.cast(grouped, _PART) + ordered, columns.cast(again, _PART) + ordered, takes)


class _Columns:
    """The columns of a shared result: the keys `__g0`…, then every different partial once, `__c0`…"""

    def __init__(self, first: NativeView) -> None:
        self._keys = {f"__g{place}": sql for place, (_, sql) in enumerate(first.keys)}
        self._types = {f"__g{place}": first.schema.field(name).type for place, (name, _) in enumerate(first.keys)}
        self._partials: dict[tuple[str, str, pa.DataType], str] = {}

    def of(self, view: NativeView) -> tuple[str, ...]:
        """The columns of a view, which from now on are part of the result."""
        own = []
        for output in view.outputs:
            assert output.combine is not None
            known = (output.sql, output.combine, view.schema.field(output.name).type)
            own.append(self._partials.setdefault(known, f"__c{len(self._partials)}"))
        return (*self._keys, *own)

    def computed(self, *more: str) -> str:
        """From rows."""
        keys = (f"{sql} AS {name}" for name, sql in self._keys.items())
        return ", ".join([*more, *keys, *(f"{sql} AS {name}" for (sql, _, _), name in self._partials.items())])

    def combined(self, *more: str) -> str:
        """From what was computed of several groups of rows."""
        partials = (f"{sql.replace('{x}', name)} AS {name}" for (_, sql, _), name in self._partials.items())
        return ", ".join([*more, *self._keys, *partials])

    def grouped(self, *more: str) -> str:
        names = ", ".join([*more, *self._keys])
        return f" GROUP BY {names}" if names else ""

    def cast(self, source: str, *more: str) -> str:
        """A query with the types that Spark gives."""
        return cast_sql(source, self._types | {name: type_ for (_, _, type_), name in self._partials.items()}, *more)


def _signed(conditions: Sequence[Condition | None]) -> str:
    """The rows with their signatures."""
    asked = Counter(equality.sql for c in conditions if c is not None for equality in c.equals)
    operand, count = asked.most_common(1)[0] if asked else ("", 0)
    together: dict[str, list[str]] = {}
    bits = []
    for part, condition in enumerate(conditions):
        equality = _on(condition, operand) if count > 1 else None
        if equality is not None:
            together.setdefault(equality.value, []).append(_bit(part, equality.rest))
        else:
            bits.append(_bit(part, condition.sql if condition is not None else None))
    source = ROWS
    if together:
        # Once for all constants, and below a LIMIT, so that it is not put in place of every mention.
        source = f"(SELECT *, {operand} AS __operand FROM {ROWS} {NO_PUSHING})"
        cases = " ".join(f"WHEN __operand = {value} THEN {' + '.join(some)}" for value, some in together.items())
        bits.append(f"CASE {cases} ELSE 0 END")
    return f"(SELECT *, CAST({' + '.join(bits)} AS BIGINT) AS {_SIGNATURE} FROM {source} {NO_PUSHING})"


def _on(condition: Condition | None, operand: str) -> Equality | None:
    if condition is None:
        return None
    return next((equality for equality in condition.equals if equality.sql == operand), None)


def _bit(part: int, sql: str | None) -> str:
    return f"{1 << part}" if sql is None else f"CASE WHEN {sql} THEN {1 << part} ELSE 0 END"
