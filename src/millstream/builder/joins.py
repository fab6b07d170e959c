"""Joins and unions.

Owns how several blocks become one. A filter that was put on one side before the join moves to WHERE
where the join leaves it the same meaning, with its columns qualified; otherwise that side is
nested. Must not decide which joins can be maintained: that is for the planner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from sqlglot import exp

from millstream.builder.expressions import ColumnLike, Expression, all_of, as_column, condition, operand
from millstream.builder.literals import Duration, duration_micros, identifier, interval
from millstream.builder.queries import (
    EVERYTHING,
    Block,
    compile_block,
    from_item,
    nested,
    output_names,
    qualified,
    relation_names,
)
from millstream.model.errors import MillstreamError, did_you_mean

How = Literal["inner", "left", "right", "full"]
On = Expression | str | Sequence[Expression | str]
Within = Duration | tuple[Duration, Duration]

# Which sides may be filtered after the join as well as before it.
_FILTERED_AFTER: dict[str, tuple[bool, bool]] = {
    "inner": (True, True),
    "left": (True, False),
    "right": (False, True),
    "full": (False, False),
}


@dataclass(frozen=True, slots=True)
class Bound:
    """How far apart the two event times may be: `right` lies in `[left - before, left + after]`."""

    left: exp.Expr
    right: exp.Expr
    before: int
    after: int

    def node(self) -> exp.Expr:
        low, high = Expression(self.left), Expression(self.left)
        if self.before:
            low = low - Expression(interval(self.before))
        if self.after:
            high = high + Expression(interval(self.after))
        return Expression(self.right).between(low, high).node


def join_blocks(
    left: Block, right: Block, on: On, how: How, bound: Bound | None = None, as_of: ColumnLike | None = None
) -> Block:
    """The block that reads both sides."""
    if how not in get_args(How):
        raise MillstreamError("BAD_JOIN", f"there is no join {how!r}", hint=did_you_mean(str(how), get_args(How)))
    if left.name is None:
        raise _unnamed("the left side")
    if right.name is None:
        raise _unnamed("the right side")
    taken = {name.lower() for name in relation_names(left)}
    if right.name.lower() in taken:
        raise MillstreamError(
            "BAD_JOIN",
            f"two relations of the join are called {right.name!r}",
            hint=f'give one of them another name: .alias("{right.name}2")',
        )
    after_left, after_right = _FILTERED_AFTER[how]
    left, left_filter = _side(left, lift=after_left)
    right, right_filter = _side(right, lift=after_right)
    if as_of is not None and (not isinstance(right.source, str) or right.window is not None):
        raise MillstreamError(
            "BAD_JOIN",
            "as_of takes the version of a table, and the right side is a query",
            hint="join the table itself, and filter the result",
        )
    test = all_of([*_on(left, right, on), bound.node() if bound else None])
    version = None if as_of is None else _of_left(left, operand(as_column(as_of)))
    join = exp.Join(this=from_item(right, version), on=test, side=None if how == "inner" else how.upper())
    return replace(left, joins=(*left.joins, join), where=all_of([left_filter, right_filter]), known=None)


def time_of(block: Block, event_time: str | None) -> exp.Column:
    """The event time of a side that a bound holds for; None is one that is not known."""
    columns, names = output_names(block), relation_names(block)
    if event_time is None or not names or (columns is not None and event_time not in columns):
        raise MillstreamError(
            "NO_EVENT_TIME",
            "within needs the event times of both sides",
            hint='put the bound into on: a["ts"].between(b["ts"], b["ts"] + ms.lit(timedelta(hours=1)))',
        )
    return exp.Column(this=identifier(event_time), table=identifier(names[0]))


def bound(left: exp.Column, right: exp.Column, within: Within) -> Bound:
    """The bound between two event times."""
    before, after = within if isinstance(within, tuple) else (within, within)
    micros = duration_micros(before), duration_micros(after)
    if sum(micros) < 0:
        raise MillstreamError(
            "BAD_JOIN", f"no two rows are within {within!r} of each other", hint="within=(before, after)"
        )
    return Bound(left, right, *micros)


def unite_blocks(first: Block, others: Sequence[Block]) -> Block:
    """The block that reads all, one after the other; its columns are those of the first."""
    query = _branch(first)
    for other in others:
        query = exp.Union(this=query, expression=_branch(other), distinct=False)
    return Block(query, None, known=output_names(first))


def _branch(block: Block) -> exp.Query:
    query = compile_block(block)
    return exp.Subquery(this=query) if block.order or block.limit is not None else query


def _side(block: Block, *, lift: bool) -> tuple[Block, exp.Expr | None]:
    """A side ready to be joined, and its filter if that can wait until after the join."""
    if block.joins and block.is_open and block.columns == EVERYTHING and (block.where is None or lift):
        # Columns of an earlier join were qualified by whoever wrote the condition.
        return replace(block, where=None), block.where
    if block.joins:
        return nested(block), None
    if not block.is_open or block.columns != EVERYTHING or (block.where is not None and not lift):
        return nested(block), None
    if block.where is None:
        return block, None
    assert block.name is not None
    return replace(block, where=None), qualified(block.where, block.name)


def _of_left(left: Block, time: exp.Expr) -> exp.Expr:
    """A time of the left row; a bare name is a column of its first relation."""
    return time if isinstance(time, exp.Column) and time.table else qualified(time, relation_names(left)[0])


def _on(left: Block, right: Block, on: On) -> list[exp.Expr]:
    parts: Sequence[ColumnLike] = (on,) if isinstance(on, Expression | str) else tuple(on)
    if not parts:
        raise MillstreamError("BAD_JOIN", "a join needs a condition", hint='on="key", or on=a["x"] == b["y"]')
    tests: list[exp.Expr] = []
    for part in parts:
        if isinstance(part, str):
            first, second = relation_names(left)[0], right.name
            assert second is not None
            tests.append(
                exp.EQ(
                    this=exp.Column(this=identifier(part), table=identifier(first)),
                    expression=exp.Column(this=identifier(part), table=identifier(second)),
                )
            )
        else:
            tests.append(condition(part, "on"))
    return tests


def _unnamed(side: str) -> MillstreamError:
    return MillstreamError(
        "BAD_JOIN",
        f"{side} of the join has no name by which its columns could be told apart",
        hint='give it one: .alias("x")',
    )
