"""Queries that rank rows in a subquery and filter by the rank.

Owns one rewriting, which lets the rank and its filter be maintained together: rows that the filter
drops need never be written.

    SELECT a, b FROM (SELECT *, row_number() OVER (PARTITION BY a ORDER BY b) AS n FROM s) WHERE n <= 3
    SELECT a, b FROM s QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) <= 3
"""

from __future__ import annotations

from sqlglot import exp

_PLAIN = ("group", "having", "distinct", "limit", "offset", "qualify", "laterals", "order", "with_", "windows")


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
    alias = subquery.alias_or_name.lower()
    values = {item.alias_or_name.lower(): item.unalias() for item in inner.expressions}

    def substitute(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and node.table.lower() == alias and node.name.lower() in values:
            value = values[node.name.lower()].copy()
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
