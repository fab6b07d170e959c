"""Steps over rows: names, filters, columns, order and rank.

Owns what each of them makes of a block. A step shares the SELECT of the one before it while that
keeps its meaning, and otherwise reads from it as from a query: what comes after `limit` sees only
the rows that it let through. Must not group rows: that is for `groups`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from millstream.builder.aggregates import holds_aggregate
from millstream.builder.expressions import ColumnLike, Expression, Ordering, all_of, as_column, col, condition, operand
from millstream.builder.literals import identifier, whole_number
from millstream.builder.outputs import listed, ordered
from millstream.builder.queries import EVERYTHING, STAR, Block, Output, nested, resolve, with_columns
from millstream.model.errors import MillstreamError


def renamed(block: Block, name: str) -> Block:
    """The same rows, their columns qualified by another name."""
    if block.joins or not block.is_open or block.columns != EVERYTHING:
        block = nested(block)
    return replace(block, name=name)


def column(block: Block, name: str) -> Expression:
    """A column, or with `*` all of them, qualified by the name of the block."""
    if block.name is None or block.joins:
        raise MillstreamError(
            "NO_NAME",
            "this relation has no name that its columns could have",
            hint='use ms.col("…"), the relations that were joined, or .alias("…")',
        )
    this = exp.Star() if name == STAR else identifier(name)
    return Expression(exp.Column(this=this, table=identifier(block.name)))


def filtered(block: Block, conditions: Sequence[Expression]) -> Block:
    """The rows, or of a block with aggregates the groups, for which all conditions hold."""
    if block.is_cut:
        block = nested(block)
    nodes = [condition(test, "filter") for test in conditions]
    if not block.aggregated and any(holds_aggregate(node) for node in nodes):
        raise MillstreamError("AGGREGATE_IN_WHERE", "filter cannot hold an aggregate", hint="use agg, then having")
    nodes = [resolve(block, node) for node in nodes]
    if block.aggregated:
        return replace(block, having=all_of([block.having, *nodes]))
    return replace(block, where=all_of([block.where, *nodes]))


def selected(block: Block, columns: Sequence[ColumnLike], named: Mapping[str, ColumnLike]) -> Block:
    """These columns and no others."""
    block = _with_free_columns(block)
    outputs = listed(block, columns, named, "select")
    if not outputs:
        raise MillstreamError("NO_COLUMNS", "select needs at least one column")
    return replace(block, columns=outputs)


def extended(block: Block, named: Mapping[str, ColumnLike]) -> Block:
    """All columns, and these besides."""
    block = _with_free_columns(block)
    return with_columns(block, listed(block, (), named, "with_columns"))


def _with_free_columns(block: Block) -> Block:
    """A block whose columns can be others without its rows being others."""
    return nested(block) if block.is_distinct or block.is_cut else block


def distinct(block: Block) -> Block:
    """Each row once."""
    return replace(nested(block) if block.is_cut else block, is_distinct=True)


def sorted_by(block: Block, columns: Sequence[ColumnLike | Ordering]) -> Block:
    """The rows in an order."""
    if block.limit is not None:
        block = nested(block)
    return replace(block, order=tuple(ordered(block, column) for column in columns))


def limited(block: Block, rows: int) -> Block:
    """The first rows."""
    if block.limit is not None:
        block = nested(block)
    return replace(block, limit=whole_number("limit", rows, 0))


def ranked(
    block: Block,
    rows: int,
    order_by: ColumnLike | Ordering | Sequence[ColumnLike | Ordering],
    by: ColumnLike | Sequence[ColumnLike],
    rank: str,
) -> Block:
    """The first rows of every group, with their rank."""
    whole = whole_number("top", rows, 1)
    if not block.is_open:
        block = nested(block)
    orders = (order_by,) if isinstance(order_by, Expression | Ordering | str) else tuple(order_by)
    keys = (by,) if isinstance(by, Expression | str) else tuple(by)
    if not orders:
        raise MillstreamError("NO_ORDER", "top needs an order", hint='order_by=ms.desc("price")')
    over = exp.Window(
        this=exp.RowNumber(),
        partition_by=[resolve(block, operand(as_column(key))) for key in keys],
        order=exp.Order(expressions=[ordered(block, part, resolved=True) for part in orders]),
    )
    if rank.lower() in (output.name.lower() for output in block.columns):
        raise MillstreamError("DUPLICATE_COLUMN", f"there is a column {rank!r} already", hint='rank="another name"')
    return filtered(with_columns(block, [Output(rank, over)]), [col(rank) <= whole])
