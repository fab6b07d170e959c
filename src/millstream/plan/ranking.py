"""Queries that rank rows and filter by the rank.

Owns one rewriting, which lets the rank and its filter be maintained together: rows that the filter
drops need never be written.

    SELECT a, b FROM (SELECT *, row_number() OVER (PARTITION BY a ORDER BY b) AS n FROM s) WHERE n <= 3
    SELECT a, b FROM s QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) <= 3

And what such a filter says of the rows of a stream: which can matter at all (`best_rows`), and
whether these are the view (`top_view`) or a larger query ranks them again.
"""

from __future__ import annotations

from dataclasses import fields

from sqlglot import exp

from millstream.duck import guarded_sql, store_sql
from millstream.model.schema import folded
from millstream.plan.aggregates import aggregate_name
from millstream.plan.maintenance import conjuncts, unqualified
from millstream.plan.nodes import AppendView, Output, QueryView, Top, TopView

RANK = "__rank"
"""The column of a row's rank."""

_RANKS = (exp.RowNumber, exp.Rank, exp.DenseRank)
_PLAIN = ("group", "having", "distinct", "limit", "offset", "qualify", "laterals", "order", "with_", "windows")
# What looks at more than one row above the ranking.
_WHOLE = ("distinct", "limit", "offset", "order", "laterals", "joins")


def merged_ranking(select: exp.Select) -> exp.Select:
    """The select with a ranking subquery merged into it; itself where there is none."""
    source = select.args.get("from_")
    subquery = source.this if source is not None else None
    if not isinstance(subquery, exp.Subquery) or not isinstance(subquery.this, exp.Select):
        return select
    inner = subquery.this
    if (
        any(select.args.get(key) for key in (*_PLAIN, "joins"))
        or any(inner.args.get(key) for key in _PLAIN)
        or select.args.get("where") is None
        or inner.find(exp.Window) is None
        or any(isinstance(node, exp.AggFunc | exp.Window) for item in select.expressions for node in item.walk())
        or select.args["where"].find(exp.Window) is not None
        or any(node not in (select, inner) for node in select.find_all(exp.Select))
    ):
        return select
    alias = folded(subquery.alias_or_name)
    values = {folded(item.alias_or_name): item.unalias() for item in inner.expressions}

    def substitute(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and folded(node.table) == alias and folded(node.name) in values:
            value = values[folded(node.name)].copy()
            return value if isinstance(value, exp.Column | exp.Window) else exp.paren(value)
        return node

    # All of the filter applies after the ranking, also what does not look at the rank.
    condition = select.args["where"].this.copy().transform(substitute)
    result = inner.copy()
    result.set(
        "expressions",
        [
            exp.alias_(item.unalias().copy().transform(substitute), item.alias_or_name, quoted=True)
            for item in select.expressions
        ],
    )
    result.set("qualify", exp.Qualify(this=condition))
    return result


def best_rows(select: exp.Select) -> Top | None:
    """The rows of a ranked stream that can still have a good enough rank, where the filter bounds it.

    The order is made to settle ties by event time.
    """
    qualify = select.args.get("qualify")
    windows = list(select.find_all(exp.Window))
    if qualify is None or len({window.sql() for window in windows}) != 1:
        return None
    if _aggregates(select) or select.args.get("laterals"):
        # What ranks groups, or what a row gives several times, needs all rows.
        return None
    for window in windows:
        if isinstance(window.this, exp.RowNumber):
            _settle_ties(window)
    window = windows[0]
    columns = [node.unnest() for node in window.args.get("partition_by") or ()]
    order = window.args.get("order")
    limit = next((n for condition in conjuncts(qualify.this) if (n := _at_most(condition)) is not None), None)
    if (
        limit is None
        or order is None
        or not isinstance(window.this, _RANKS)
        or not all(isinstance(column, exp.Column) for column in columns)
        or select.args.get("where") is not None
    ):
        return None
    names = tuple(column.name for column in columns)
    return Top(names, guarded_sql(unqualified(order)), store_sql(window.this), limit)


def top_view(select: exp.Select, rows: AppendView, view: QueryView) -> TopView | None:
    """The view of a select over bounded rows alone, where it shows of each what its columns and rank tell."""
    top = rows.top
    if top is None or len(view.inputs) != 1 or any(select.args.get(key) for key in _WHOLE):
        return None
    rest = [c for c in conjuncts(select.args["qualify"].this) if not _is_implied(c, top)]
    shown = [_over_rank(item.unalias()) for item in select.expressions]
    condition = _over_rank(exp.and_(*rest)) if rest else None
    own = {field.name: getattr(rows, field.name) for field in fields(rows)}
    own |= {"name": view.name, "hidden": view.hidden, "changelog_retain": view.changelog_retain}
    return TopView(
        **own,
        outputs=tuple(
            Output(name, guarded_sql(unqualified(node))) for name, node in zip(view.columns, shown, strict=True)
        ),
        condition=guarded_sql(unqualified(condition)) if condition is not None else None,
        shows_rank=any(_looks_at_rank(node) for node in (*shown, condition)),
    )


def _aggregates(select: exp.Select) -> bool:
    """Whether its rows are groups. The call of a window function makes none."""
    calls = (node for node in select.walk() if aggregate_name(node) or isinstance(node, exp.AggFunc))
    grouped = any(select.args.get(key) for key in ("group", "having"))
    return grouped or any(not isinstance(call.parent, exp.Window) for call in calls)


def _over_rank(node: exp.Expr) -> exp.Expr:
    """An expression that reads the rank instead of computing it."""
    return node.copy().transform(lambda n: exp.column(RANK, quoted=True) if isinstance(n, exp.Window) else n)


def _looks_at_rank(node: exp.Expr | None) -> bool:
    return node is not None and any(column.name == RANK for column in node.find_all(exp.Column))


def _is_implied(condition: exp.Expr, top: Top) -> bool:
    """Whether a condition holds for all rows up to the rank."""
    return _at_most(condition) == top.count and (top.count == 1 or not isinstance(condition, exp.EQ))


def _settle_ties(window: exp.Window) -> None:
    """Let event time decide between rows that the order leaves equal."""
    order = window.args.get("order")
    if order is None:
        return
    column = next((c for c in window.find_all(exp.Column)), None)
    if column is not None:
        by_time = exp.column("__t", table=column.table, quoted=True)
        order.append("expressions", exp.Ordered(this=by_time))


def _at_most(condition: exp.Expr) -> int | None:
    """`rank <= n` in any of its spellings: n."""
    match condition:
        case exp.LTE() | exp.LT() | exp.EQ() if isinstance(condition.this.unnest(), exp.Window):
            limit, less = condition.expression, isinstance(condition, exp.LT)
        case exp.GTE() | exp.GT() if isinstance(condition.expression.unnest(), exp.Window):
            limit, less = condition.this, isinstance(condition, exp.GT)
        case _:
            return None
    if not isinstance(limit, exp.Literal) or not limit.is_int:
        return None
    return int(limit.this) - (1 if less else 0)
