"""Windows and groups: which rows are computed over together, and what of them.

Owns the steps from rows to one row per group and window. A window is put on a stream, table or
view itself, once, and before its groups; groups have no columns until their aggregates are said.
How a window is written is for `windows`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from millstream.builder.aggregates import holds_aggregate
from millstream.builder.expressions import ColumnLike, Expression, col, operand
from millstream.builder.outputs import check_names, grouping, listed, output
from millstream.builder.queries import STAR, Block, Output, bounds, from_item, nested, resolve
from millstream.builder.selections import filtered
from millstream.builder.windows import CountWindow, Window
from millstream.model.errors import MillstreamError


def settled(block: Block, step: str) -> Block:
    """A block that a step can follow: its groups have their aggregates."""
    if block.lacks_aggregates:
        raise MillstreamError(
            "GROUP_WITHOUT_AGG", f"after group_by comes agg, not {step}", hint="as in .agg(n=ms.count())"
        )
    return block


def windowed(block: Block, window: Window, event_time: Callable[[], str | None]) -> Block:
    """The rows in their windows; `event_time` is asked where the window names no time column."""
    if not isinstance(window, Window):
        raise MillstreamError("BAD_WINDOW", f"{window!r} is not a window", hint='as in ms.Tumble("10 seconds")')
    if block.window is not None:
        raise MillstreamError("WINDOW_TWICE", "the relation has a window already", hint="create a view and window that")
    if block.lacks_aggregates:
        raise MillstreamError("WINDOW_AFTER_GROUP", "window comes before group_by")
    if not isinstance(block.source, str) or block.joins or not block.is_open:
        raise MillstreamError(
            "BAD_WINDOW",
            "a window is put on a stream, table or view, not on the result of a query",
            hint="create a view of the query, and put the window on that; or window before the join",
        )
    time = None if isinstance(window, CountWindow) else _time_column(block, window.on, event_time)
    columns = block.columns
    if not any(column.name == STAR for column in columns):
        columns = (*columns, *bounds())
    return replace(block, window=window, time_column=time, columns=columns)


def _time_column(block: Block, on: str | None, event_time: Callable[[], str | None]) -> str:
    name = on if on is not None else event_time()
    if name is None:
        raise MillstreamError(
            "NO_EVENT_TIME",
            f"the event time of {block.source} is not known",
            hint='name the time column: ms.Tumble("10 seconds", on="ts")',
        )
    node = resolve(block, operand(col(name))) if on is not None else operand(col(name))
    if not isinstance(node, exp.Column):
        raise MillstreamError("BAD_WINDOW", f"{name!r} is computed, and a window needs a column of {block.source}")
    return node.name


def grouped(block: Block, columns: Sequence[ColumnLike], named: Mapping[str, ColumnLike]) -> Block:
    """Groups of rows with equal values, whose aggregates are yet to be said."""
    if not block.is_open:
        block = nested(block)
    return replace(block, keys=tuple(grouping(key) for key in listed(block, columns, named, "group_by")))


def aggregated(block: Block, aggregates: Sequence[Expression], named: Mapping[str, Expression]) -> Block:
    """One row per group and window: their key, then the aggregates."""
    if not block.lacks_aggregates and not block.is_open:
        block = nested(block)
    computed: list[Output] = []
    for expression, name in (*((a, None) for a in aggregates), *((a, n) for n, a in named.items())):
        if not isinstance(expression, Expression) or not holds_aggregate(expression.node):
            raise MillstreamError(
                "NOT_AN_AGGREGATE",
                f"agg takes aggregates, not {expression!r}",
                hint='as in agg(n=ms.count(), top=ms.max("price")); what groups share belongs in group_by',
            )
        computed.append(output(block, expression, name, "agg"))
    if not computed:
        raise MillstreamError("NOT_AN_AGGREGATE", "agg needs at least one aggregate", hint="as in agg(n=ms.count())")
    window = bounds() if block.window is not None else ()
    columns = check_names((*window, *(block.keys or ()), *computed))
    whole = replace(block, keys=block.keys or (), inputs=block.columns, columns=columns, aggregated=True)
    # A window by columns that are computed is refused here, by the step that brings the two together.
    from_item(whole)
    return whole


def having(block: Block, conditions: Sequence[Expression]) -> Block:
    """The groups for which all conditions hold."""
    if not block.aggregated:
        raise MillstreamError("HAVING_WITHOUT_AGG", "having comes after agg", hint="use filter for rows")
    return filtered(block, conditions)
