"""Short forms of SQL, written out before a query is planned.

Owns what a form says in plain selects: `NATURAL JOIN` names its columns, `PIVOT` groups, `UNPIVOT` is a
union, `WITH CUBE` and `WITH ROLLUP` stand in front of their columns, and `ORDER BY … LIMIT` of a set
operation is that of a select over it. What remains knows none of them. Must not change what a query means.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from millstream.model.errors import MillstreamError
from millstream.model.schema import folded

Columns = Callable[[exp.Expr], list[str]]
"""The names of the columns that an item of FROM has."""
Refuse = Callable[..., MillstreamError]

_NULL_OF_NO_ROWS = (exp.Sum, exp.Min, exp.Max, exp.Avg)


def write_out(query: exp.Query, columns: Columns, refuse: Refuse) -> exp.Query:
    """The query without short forms; `refuse(code, message, node)` makes an error."""
    for node in reversed(list(query.find_all(exp.Select, exp.SetOperation, exp.Table, exp.Subquery))):
        match node:
            case exp.SetOperation():
                written = _limit_outside(node)
                query = written if node is query else query
            case exp.Select():
                _write_groups(node)
                _name_common_columns(node, columns, refuse)
            case _ if node.args.get("pivots"):
                _write_pivots(node, columns, refuse)
            case _ if any(join.args.get("using") or join.args.get("method") for join in node.args.get("joins") or ()):
                raise refuse(
                    "NOT_SUPPORTED",
                    "a join inside of a join says with ON what joins it",
                    node,
                    hint="JOIN … ON a.x = b.x, or a subquery: (SELECT … FROM a JOIN b USING (x)) AS c",
                )
    return query


def write_nested_joins(query: exp.Expr) -> None:
    """
    SELECT r.id, t.y FROM r LEFT JOIN (s JOIN t ON s.k = t.k) ON r.id = s.id
    SELECT r.id, j.`t.y` FROM r LEFT JOIN (SELECT t.y AS `t.y`, s.id AS `s.id` FROM s JOIN t ON s.k = t.k) AS j ON …

    All columns must be qualified.
    """
    for select in list(query.find_all(exp.Select)):
        source = select.args.get("from_")
        items = [source.this] if source is not None else []
        for item in (*items, *(join.this for join in select.args.get("joins") or ())):
            nested = item.this if isinstance(item, exp.Subquery) and isinstance(item.this, exp.Table) else item
            if isinstance(nested, exp.Table) and (nested is not item or nested.args.get("joins")):
                _write_nested_join(select, item, nested)


def _write_nested_join(select: exp.Select, item: exp.Expr, nested: exp.Table) -> None:
    joins = nested.args.get("joins") or []
    name = "__join"
    while any(table.alias_or_name == name for table in select.find_all(exp.Subquery)):
        name += "_"
    written = exp.Subquery(alias=exp.TableAlias(this=exp.to_identifier(name)))
    item.replace(written)
    nested.set("joins", None)
    inner = exp.Select(from_=exp.From(this=nested), joins=joins)
    known = {folded(table.alias_or_name) for table in inner.find_all(exp.Table, exp.Subquery)}
    outputs: dict[str, exp.Expr] = {}
    for column in [node for node in select.find_all(exp.Column) if folded(node.table) in known]:
        label = f"{column.table}.{column.name}"
        outputs.setdefault(label, exp.alias_(column.copy(), label, quoted=True))
        column.replace(exp.column(label, table=name, quoted=True))
    inner.set("expressions", list(outputs.values()) or [exp.alias_(exp.Literal.number(1), "one")])
    written.set("this", inner)
    write_nested_joins(inner)


def _limit_outside(query: exp.SetOperation) -> exp.Query:
    """
    SELECT a FROM r UNION SELECT b FROM s ORDER BY a LIMIT 3
    SELECT * FROM (SELECT a FROM r UNION SELECT b FROM s) AS __union ORDER BY a LIMIT 3
    """
    parts = {key: query.args.get(key) for key in ("order", "limit", "offset")}
    if not parts["limit"] and not parts["offset"]:
        query.set("order", None)
        return query
    with_ = query.args.get("with_")
    outside = exp.select("*")
    if query.parent is not None:
        query.replace(outside)
    for key, value in parts.items():
        query.set(key, None)
        outside.set(key, value)
    query.set("with_", None)
    outside.set("with_", with_)
    return outside.from_(exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier("__union"))), copy=False)


def _write_groups(select: exp.Select) -> None:
    """
    GROUP BY a, b WITH CUBE
    GROUP BY CUBE (a, b)
    """
    group = select.args.get("group")
    if group is None:
        return
    for key in ("cube", "rollup"):
        for node in group.args.get(key) or ():
            if not node.expressions:
                node.set("expressions", group.expressions)
                group.set("expressions", [])


def _name_common_columns(select: exp.Select, columns: Columns, refuse: Refuse) -> None:
    """
    r NATURAL JOIN s
    r JOIN s USING (id)
    """
    joins: list[exp.Join] = select.args.get("joins") or []
    for index, join in enumerate(joins):
        if join.args.get("method") != "NATURAL":
            continue
        before = [select.args["from_"].this, *(other.this for other in joins[:index])]
        known = {folded(name) for item in before for name in columns(item)}
        common = [name for name in columns(join.this) if folded(name) in known]
        if not common:
            raise refuse(
                "NO_COMMON_COLUMN",
                "NATURAL JOIN joins by the columns that both sides have, and there are none",
                join.this,
                detail="it would pair every row with every other",
                hint="say what joins them: JOIN … ON …; or CROSS JOIN, if all pairs are meant",
            )
        join.set("method", None)
        join.set("using", [exp.to_identifier(name) for name in common])


def _write_pivots(item: exp.Expr, columns: Columns, refuse: Refuse) -> None:
    """
    FROM r PIVOT (sum(x) FOR k IN ('p' AS p)) AS z
    FROM (SELECT id, sum(x) FILTER (WHERE k = 'p') AS p FROM r GROUP BY id) AS z
    """
    pivots: list[exp.Pivot] = item.args["pivots"]
    if len(pivots) > 1 or len(pivots[0].args.get("fields") or ()) != 1:
        raise refuse("NOT_SUPPORTED", "this form of PIVOT is not supported", item, hint="use one PIVOT FOR one column")
    (pivot,) = pivots
    joins = {key: item.args.get(key) for key in ("joins", "laterals")}
    alias = pivot.args.get("alias") or item.args.get("alias") or exp.TableAlias(this=exp.to_identifier("__pivot"))
    for key in (*joins, "pivots"):
        item.set(key, None)
    (field,) = pivot.args["fields"]
    write = _unpivoted if pivot.args.get("unpivot") else _pivoted
    names = columns(item)
    written = exp.Subquery(alias=alias.copy(), **joins)
    item.replace(written)
    if not item.alias:
        item.set("alias", exp.TableAlias(this=exp.to_identifier("__pivoted")))
    written.set("this", write(item, pivot, field, names, refuse))


def _pivoted(item: exp.Expr, pivot: exp.Pivot, field: exp.In, columns: list[str], refuse: Refuse) -> exp.Query:
    if not isinstance(field.this, exp.Column) or field.args.get("query"):
        raise refuse(
            "NOT_SUPPORTED",
            "PIVOT is FOR one column IN a list of constants",
            item,
            hint="join several columns to one in a subquery: concat(a, '-', b) AS k",
        )
    used = {folded(column.name) for node in (field.this, *pivot.expressions) for column in node.find_all(exp.Column)}
    groups = [exp.column(name) for name in columns if folded(name) not in used]
    aggregates = [
        _of_value(aggregate.unalias(), exp.NullSafeEQ(this=field.this.copy(), expression=value.unalias().copy()))
        for value in field.expressions
        for aggregate in pivot.expressions
    ]
    names = [name.copy() for name in pivot.args["columns"]]
    outputs = [exp.alias_(aggregate, name) for aggregate, name in zip(aggregates, names, strict=True)]
    select = exp.select(*groups, *outputs).from_(item)
    return select.group_by(*(group.copy() for group in groups), copy=False) if groups else select


def _of_value(node: exp.Expr, is_value: exp.Expr) -> exp.Expr:
    """An aggregate over the rows of one value; NULL, not 0, where there are none."""

    def filtered(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Filter):
            both = exp.and_(part.expression.this, is_value.copy())
            return exp.Filter(this=part.this, expression=exp.Where(this=both))
        if isinstance(part, exp.AggFunc) and not isinstance(part.parent, exp.Filter):
            return exp.Filter(this=part.copy(), expression=exp.Where(this=is_value.copy()))
        return part

    aggregate = node.copy().transform(filtered)
    if isinstance(node, _NULL_OF_NO_ROWS):
        return aggregate
    some = exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=is_value.copy()))
    return exp.Case().when(exp.GT(this=some, expression=exp.Literal.number(0)), aggregate)


def _unpivoted(item: exp.Expr, pivot: exp.Pivot, field: exp.In, columns: list[str], refuse: Refuse) -> exp.Query:
    values = pivot.expressions
    names = [part.unalias() for part in field.expressions]
    if len(values) != 1 or not all(isinstance(name, exp.Column) for name in names):
        raise refuse(
            "NOT_SUPPORTED",
            "UNPIVOT is of one column FOR a list of columns",
            item,
            hint="use UNION ALL: a select for each group of columns",
        )
    taken = {folded(name.name) for name in names}
    rest = [exp.column(name) for name in columns if folded(name) not in taken]
    union: exp.Query | None = None
    for part in field.expressions:
        column = part.unalias()
        label = exp.Literal.string(part.alias or column.name)
        select = exp.select(
            *(other.copy() for other in rest),
            exp.alias_(label, field.this.name),
            exp.alias_(column.copy(), values[0].name),
        ).from_(item.copy())
        if not pivot.args.get("include_nulls"):
            select.where(exp.Not(this=exp.Is(this=column.copy(), expression=exp.Null())), copy=False)
        union = select if union is None else exp.union(union, select, distinct=False, copy=False)
    assert union is not None
    return union
