"""Expressions over relations of the store, guarded against rows on which they fail.

A row of a stream on which an expression fails is set aside. What the store computes from other
relations has no such row, and a value that fails there would stop this epoch and every one after it,
for all views. So there a value that cannot be computed is NULL, and what compares it is not true.

Owns where TRY is put. It takes no aggregate, window function or subquery, so what is computed of
those stands in a lambda beside them. Conditions keep their shape, in which the store finds the columns
that it joins by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from millstream.duck.printing import Truth, store_sql

Keys = tuple[exp.Expr, ...]
"""The expressions that a query groups by, other than columns."""

_COMPARED = exp.EQ | exp.NEQ | exp.GT | exp.GTE | exp.LT | exp.LTE | exp.NullSafeEQ | exp.In
_OPEN = (
    _COMPARED
    | exp.Between
    | exp.Connector
    | exp.Not
    | exp.Paren
    | exp.Is
    | exp.Alias
    | exp.Ordered
    | exp.Order
    | exp.Where
    | exp.Distinct
    | exp.Tuple
    | exp.Rollup
    | exp.Cube
    | exp.GroupingSets
)
"""What fails only if something in it does, and is looked into."""
_ARITHMETIC = exp.Add | exp.Sub | exp.Mul | exp.Div | exp.IntDiv | exp.Mod | exp.Neg | exp.Bracket
_SAFE = exp.Connector | exp.Case | exp.If | exp.Coalesce | exp.TryCast | exp.Exists | exp.AggFunc | Truth
_NUMBERS = exp.Count | exp.CountIf | exp.Sum | exp.Avg | exp.RowNumber | exp.Rank | exp.DenseRank | exp.Length | exp.Neg
"""What is a number whatever it is computed of, so that to compare it with one cannot fail."""
_OF_ROWS = exp.AggFunc | exp.Window | exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup
_OF_RELATIONS = (
    exp.From
    | exp.Join
    | exp.In
    | exp.Exists
    | exp.Any
    | exp.All
    | exp.SetOperation
    | exp.CTE
    | exp.Subquery
    | exp.Lateral
    | exp.Table
    | exp.Insert
)
"""What takes a query as rows, not as a value."""
_SEVERAL_ROWS = exp.UDTF | exp.Explode | exp.Posexplode | exp.Inline


def guarded_sql(node: exp.Expr) -> str:
    """The text of a query or an expression for the store, in which what may fail is NULL where it does.

    >>> from sqlglot import parse_one
    >>> guarded_sql(parse_one("a = b AND c > a + d"))
    'a = b AND c > TRY(a + d)'
    """
    copy = with_truths(node.copy())
    for value in list(copy.find_all(exp.Subquery)):
        if _is_value(value) and _has_several_rows(value.this):
            value.set("this", _of_one_row(value.this))
    # Inner queries first: to those around them they are done.
    for select in reversed(list(copy.find_all(exp.Select))):
        _guard_select(select)
    return store_sql(copy if isinstance(copy, exp.Query) else _guard(copy, ()))


def _is_value(query: exp.Subquery) -> bool:
    """Whether a query stands for a value."""
    parent = query.parent
    if isinstance(parent, exp.Select):
        return query.arg_key == "expressions"
    return parent is not None and not isinstance(parent, _OF_RELATIONS)


def _has_several_rows(query: exp.Expr) -> bool:
    if not isinstance(query, exp.Select):
        return True
    limit = query.args.get("limit")
    is_one = limit is not None and limit.expression is not None and limit.expression.name in ("0", "1")
    grouped = query.args.get("group") is not None
    found = (part for item in query.expressions for part in _walk(item))
    aggregated = any(isinstance(part, exp.AggFunc) and not isinstance(part.parent, exp.Window) for part in found)
    return not is_one and (grouped or not aggregated)


def _of_one_row(query: exp.Expr) -> exp.Expr:
    """A query for a value that is NULL where the query has several rows."""
    rows = exp.Subquery(this=query.copy(), alias=exp.TableAlias(this="__q", columns=[exp.to_identifier("__v")]))
    return exp.Select(expressions=[exp.Var(this="CASE WHEN count(*) < 2 THEN first(__v) END")]).from_(rows)


def _guard_select(select: exp.Select) -> None:
    group = select.args.get("group")
    keys = tuple(_keys(group.expressions)) if group is not None else ()
    select.set("expressions", [_guard(item, keys) for item in select.expressions])
    for join in select.args.get("joins") or ():
        if (on := join.args.get("on")) is not None:
            join.set("on", _guard(on, ()))
    for lateral in select.args.get("laterals") or ():
        _guard_children(lateral.this, ())
    # A row is filtered before it is grouped.
    for clause, known in (("where", ()), ("group", keys), ("having", keys), ("qualify", keys), ("order", keys)):
        if (node := select.args.get(clause)) is not None:
            _guard_children(node, known)


def _keys(nodes: Iterable[exp.Expr]) -> Iterator[exp.Expr]:
    for node in nodes:
        match node:
            case exp.Rollup() | exp.Cube() | exp.GroupingSets() | exp.Tuple():
                yield from _keys(node.expressions)
            case exp.Paren():
                yield from _keys([node.this])
            case exp.Column() | exp.Literal():
                pass
            case _:
                yield node.copy()


def with_truths(node: exp.Expr) -> exp.Expr:
    """The same with every condition marked that is not seen to be one, in place but for the expression itself."""
    for part in list(node.walk()):
        match part:
            case exp.Where() | exp.Having() | exp.Qualify() | exp.Not():
                part.set("this", _truth(part.this))
            case exp.Connector():
                part.set("this", _truth(part.this))
                part.set("expression", _truth(part.expression))
            case exp.Join() if part.args.get("on") is not None:
                part.set("on", _truth(part.args["on"]))
    return node


def is_condition(node: exp.Expr) -> bool:
    """Whether an expression can be seen to be true or false."""
    return isinstance(node.unnest(), exp.Predicate | exp.Connector | exp.Not | exp.Boolean | exp.Null | exp.Var | Truth)


def _truth(node: exp.Expr) -> exp.Expr:
    return node if is_condition(node) else Truth(this=node.copy())


def _guard(node: exp.Expr, keys: Keys) -> exp.Expr:
    """The expression, changed in place where it can be, or another for it."""
    if not any(fails_by_itself(part) for part in _walk(node)):
        return node
    atoms = list(_atoms(node, keys))
    if isinstance(node, _OPEN) and not (
        fails_by_itself(node) and not any(isinstance(atom, exp.Query) for atom in atoms)
    ):
        _guard_children(node, keys)
        return node
    if not atoms or node in keys:
        return _tried(node)
    for atom in atoms:
        if atom not in keys:
            # What an aggregate takes is of rows, not of groups.
            _guard_children(atom, ())
    if any(atom is node or isinstance(atom, _SEVERAL_ROWS) for atom in atoms):
        return node
    return _beside(node, atoms, keys)


def _guard_children(node: exp.Expr, keys: Keys) -> None:
    for child in list(node.iter_expressions()):
        child.replace(_guard(child, keys))


def _tried(node: exp.Expr) -> exp.Expr:
    # A constant fails before there is any row, or never.
    return exp.Var(this=f"TRY({store_sql(node)})") if node.find(exp.Column, exp.Var) else node


def _beside(node: exp.Expr, atoms: list[exp.Expr], keys: Keys) -> exp.Expr:
    """An expression over what TRY does not take."""
    fields: list[str] = []

    def replace(part: exp.Expr) -> exp.Expr:
        if not isinstance(part, exp.Column) and not any(part is atom for atom in atoms):
            return part
        value = _guard(part, keys) if part in keys else part
        fields.append(f"v{len(fields)} := {store_sql(value)}")
        return exp.Var(this=f"__g['v{len(fields) - 1}']")

    body = node.transform(replace, copy=False)
    return exp.Var(this=f"list_transform([struct_pack({', '.join(fields)})], lambda __g: TRY({store_sql(body)}))[1]")


def _atoms(node: exp.Expr, keys: Keys) -> Iterator[exp.Expr]:
    """The outermost parts that TRY does not take, or that must be written as they are grouped by."""
    if isinstance(node, _OF_ROWS | exp.Query | exp.Exists | _SEVERAL_ROWS) or node in keys:
        yield node
        return
    for child in node.iter_expressions():
        yield from _atoms(child, keys)


def _walk(node: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of an expression, without those of the queries in it."""
    yield node
    for child in node.iter_expressions():
        if not isinstance(child, exp.Select | exp.SetOperation):
            yield from _walk(child)


def fails_by_itself(node: exp.Expr) -> bool:
    """Whether a node can fail by itself. A text is converted before it is compared with a number."""
    match node:
        case exp.In() if node.args.get("query") is not None:
            return False
        case exp.In():
            return any(not isinstance(item, exp.Literal) or _is_number(item) for item in node.expressions)
        case exp.Case():
            return node.this is not None
        case exp.Like() | exp.ILike():
            return not isinstance(node.expression, exp.Literal)
    if isinstance(node, _COMPARED):
        sides = list(node.iter_expressions())
        return any(_is_number(side) for side in sides) and not all(
            _is_number(side) or isinstance(_plain(side), _NUMBERS) for side in sides
        )
    return isinstance(node, _ARITHMETIC) or (isinstance(node, exp.Func) and not isinstance(node, _SAFE))


def _plain(node: exp.Expr) -> exp.Expr:
    """An expression without what stands around a call."""
    inner = node.unnest()
    return _plain(inner.this) if isinstance(inner, exp.Window | exp.Filter) else inner


def _is_number(node: exp.Expr) -> bool:
    plain = node.this if isinstance(node, exp.Neg) else node
    return (isinstance(plain, exp.Literal) and not plain.is_string) or isinstance(plain, exp.Boolean)
