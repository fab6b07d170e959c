"""The columns of a step's result, and its order.

Owns how what a caller lists becomes outputs of a block: every column has a name, no name comes
twice, and columns computed before are resolved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from millstream.builder.aggregates import holds_aggregate
from millstream.builder.expressions import ColumnLike, Expression, Ordering, as_column, operand
from millstream.builder.queries import STAR, Block, Output, by_output_name, resolve
from millstream.model.errors import MillstreamError


def listed(
    block: Block, columns: Sequence[ColumnLike], named: Mapping[str, ColumnLike], step: str
) -> tuple[Output, ...]:
    """The outputs that a caller lists; a star stands for the columns that the block has."""
    outputs: list[Output] = []
    for column, name in (*((c, None) for c in columns), *((c, n) for n, c in named.items())):
        expression = as_column(column)
        if holds_aggregate(expression.node):
            raise MillstreamError("AGGREGATE_OUTSIDE_AGG", f"{step} cannot hold an aggregate", hint="use agg")
        if isinstance(expression.node, exp.Star):
            outputs.extend(block.columns)
        else:
            outputs.append(output(block, expression, name, step))
    return check_names(tuple(outputs))


def output(block: Block, expression: Expression, name: str | None, step: str) -> Output:
    if isinstance(expression.node, exp.Column) and isinstance(expression.node.this, exp.Star):
        return Output(STAR, operand(expression))
    called = name or expression.name
    if not called:
        raise MillstreamError(
            "NO_NAME",
            f"the expression {expression} has no name",
            hint=f"name it by a keyword: {step}(x=…), or with .alias",
        )
    node = operand(expression)
    if step == "agg":
        # The rows are still as they come: aggregates and their arguments speak of them.
        return Output(called, resolve(replace(block, aggregated=False), node))
    return Output(called, resolve(block, node))


def grouping(key: Output) -> Output:
    """A key as it may stand in GROUP BY, where a bare number, its signs aside, is the place of a column."""
    number = key.node
    while isinstance(number, exp.Neg | exp.Paren):
        number = number.this
    if not isinstance(number, exp.Literal) or not number.is_int:
        return key
    digits = len(number.name)
    type_ = "INT" if digits < 10 else "BIGINT" if digits < 19 else "DECIMAL(38, 0)"
    return Output(key.name, exp.cast(key.node.copy(), type_, dialect="spark"))


def check_names(outputs: tuple[Output, ...]) -> tuple[Output, ...]:
    seen: set[str] = set()
    for column in outputs:
        name = column.name.lower()
        if name in seen and name != STAR:
            raise MillstreamError(
                "DUPLICATE_COLUMN", f"there are two columns called {column.name!r}", hint="name one by a keyword"
            )
        seen.add(name)
    return outputs


def ordered(block: Block, column: ColumnLike | Ordering, *, resolved: bool = False) -> exp.Ordered:
    ordering = column if isinstance(column, Ordering) else as_column(column).asc()
    node = ordering.node.copy()
    settle = resolve if resolved else by_output_name
    node.set("this", settle(block, node.this))
    return node
