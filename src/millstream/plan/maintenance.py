"""How a query over relations of the store can be kept up to date.

Owns the choice between the methods of a `QueryView`. A select without groups is linear in the rows
it joins: what an epoch adds to one input joins what the others have. Anything else is computed
again, for the affected keys where every input says which rows of the result it can change: columns
that the query equates and that it groups, partitions or selects by. Failing that, it is computed
again as a whole.

The select is qualified: every column carries the alias of its input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from millstream.model.schema import folded
from millstream.plan.aggregates import aggregate_name
from millstream.plan.bounds import Column
from millstream.plan.nodes import Method, OptionalSide


@dataclass(frozen=True, slots=True)
class Choice:
    """A method, and what it needs to know."""

    method: Method
    why: str = ""
    keys: tuple[exp.Expr, ...] = ()
    """For `keyed`: the key as expressions over the inputs."""
    input_keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """For `keyed`: the columns of each input that carry the key."""
    optional: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = field(default_factory=dict)
    """For `delta`: optional sides of LEFT JOINs: own columns, the alias they are equated with, its columns."""


@dataclass
class Block:
    """One select over named inputs, looked at for how it can be maintained."""

    select: exp.Select
    aliases: Sequence[str]
    """The inputs, in the order of FROM."""

    def choose(self) -> Choice:
        if any(self.select.find_all(exp.Subquery, exp.Exists)) or self._has_inner_select():
            return Choice("whole", "it has subqueries in expressions")
        if self.select.args.get("limit") or self.select.args.get("offset"):
            return Choice("whole", "ORDER BY … LIMIT looks at all rows")
        if self.is_linear_shape():
            return self._linear()
        return self._keyed()

    def _has_inner_select(self) -> bool:
        return any(node is not self.select for node in self.select.find_all(exp.Select))

    def is_linear_shape(self) -> bool:
        """Whether each row of the result comes from one row of each input."""
        select = self.select
        return not (
            select.args.get("group")
            or select.args.get("having")
            or select.args.get("distinct")
            or select.find(exp.Window)
            or any(aggregate_name(node) or isinstance(node, exp.AggFunc) for node in select.walk())
        )

    def _linear(self) -> Choice:
        optional: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {}
        for join in self.select.args.get("joins") or ():
            side, alias = join.side, folded(join.this.alias_or_name)
            if join.kind in ("SEMI", "ANTI") or side in ("RIGHT", "FULL"):
                return self._keyed()
            if side == "LEFT":
                link = self._link(join, alias)
                if link is None:
                    return self._keyed()
                optional[alias] = link
        return Choice("delta", optional=optional)

    def _link(self, join: exp.Join, alias: str) -> tuple[tuple[str, ...], str, tuple[str, ...]] | None:
        """The equalities that tie the optional side of a LEFT JOIN to one other input."""
        pairs: dict[str, list[tuple[str, str]]] = {}
        for left, right in _equalities(conjuncts(join.args.get("on"))):
            own, other = (left, right) if left[0] == alias else (right, left)
            if own[0] == alias and other[0] != alias:
                pairs.setdefault(other[0], []).append((own[1], other[1]))
        if not pairs:
            return None
        other_alias, found = max(pairs.items(), key=lambda item: len(item[1]))
        return tuple(own for own, _ in found), other_alias, tuple(other for _, other in found)

    # -- keys ----------------------------------------------------------------------------------

    def _keyed(self) -> Choice:
        classes, nullable = self._classes()
        keys: list[exp.Expr] = []
        columns: dict[str, list[str]] = {alias: [] for alias in self.aliases}
        for members in classes:
            by_alias = dict(sorted(members, reverse=True))
            if set(by_alias) != set(self.aliases):
                continue
            expression = self._key_expression(members, nullable)
            if expression is None:
                continue
            keys.append(expression)
            for alias, column in by_alias.items():
                columns[alias].append(column)
        if not keys:
            return Choice("whole", "no column of every input tells which rows of the result it changes")
        return Choice("keyed", keys=tuple(keys), input_keys={a: tuple(c) for a, c in columns.items()})

    def _classes(self) -> tuple[list[frozenset[Column]], set[str]]:
        """Columns that are equal in every row of the result, and the aliases that may be missing."""
        union = _Union()
        nullable: set[str] = set()
        for column in self.select.find_all(exp.Column):
            union.add((folded(column.table), folded(column.name)))
        for left, right in _equalities(conjuncts(_where(self.select))):
            union.join(left, right)
        before = {self.aliases[0]} if self.aliases else set()
        for join in self.select.args.get("joins") or ():
            alias = folded(join.this.alias_or_name)
            equal = _equalities(conjuncts(join.args.get("on")))
            if join.side in ("LEFT", "FULL") or join.kind in ("SEMI", "ANTI"):
                nullable.add(alias)
            if join.side in ("RIGHT", "FULL"):
                nullable |= before
            tied: set[Column] = set()
            for left, right in equal:
                if join.side:
                    # A row without a partner meets no condition, so each column is tied only once.
                    if left in tied or right in tied:
                        continue
                    tied |= {left, right}
                union.join(left, right)
            before.add(alias)
        return union.classes(), nullable

    def _key_expression(self, members: frozenset[Column], nullable: set[str]) -> exp.Expr | None:
        """An expression of the class that the query groups, partitions and selects by."""
        select = self.select
        group = select.args.get("group")
        candidates: list[exp.Expr] | None = None
        if group is not None:
            if group.find(exp.GroupingSets, exp.Cube, exp.Rollup):
                return None
            candidates = [node for node in group.expressions if _is_of(node, members, nullable)]
        elif not self.is_linear_shape() and not select.args.get("distinct") and not select.find(exp.Window):
            return None  # one group over everything
        for window in select.find_all(exp.Window):
            parts = [node for node in window.args.get("partition_by") or () if _is_of(node, members, nullable)]
            candidates = parts if candidates is None else [node for node in candidates if node in parts]
        if select.args.get("distinct"):
            outputs = [item.unalias() for item in select.expressions]
            parts = [node for node in outputs if _is_of(node, members, nullable)]
            candidates = parts if candidates is None else [node for node in candidates if node in parts]
        if candidates is None:
            return _representative(members, nullable)
        return candidates[0].copy() if candidates else None


def identity(select: exp.Select) -> tuple[str, ...]:
    """The columns of a grouped select that tell its rows apart: its groups, if all are selected."""
    group = select.args.get("group")
    if group is None or group.find(exp.GroupingSets, exp.Cube, exp.Rollup):
        return ()
    names = []
    for node in group.expressions:
        name = next((item.alias_or_name for item in select.expressions if item.unalias() == node), None)
        if name is None:
            return ()
        names.append(name)
    return tuple(names)


def optional_side(link: tuple[tuple[str, ...], str, tuple[str, ...]], aliases: Sequence[str]) -> OptionalSide:
    own, other, others = link
    return OptionalSide(own, list(aliases).index(other), others)


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that AND joins."""
    if node is None:
        return []
    node = node.unnest()
    if isinstance(node, exp.And):
        return conjuncts(node.this) + conjuncts(node.expression)
    return [node]


def unqualified(node: exp.Expr) -> exp.Expr:
    """The same expression with plain names for columns."""
    copy = node.copy()
    for column in copy.find_all(exp.Column):
        column.set("table", None)
    return copy


def _where(select: exp.Select) -> exp.Expr | None:
    where = select.args.get("where")
    return where.this if where is not None else None


def _equalities(conditions: Iterable[exp.Expr]) -> list[tuple[Column, Column]]:
    found = []
    for condition in conditions:
        if not isinstance(condition, exp.EQ):
            continue
        left, right = condition.this.unnest(), condition.expression.unnest()
        if isinstance(left, exp.Column) and isinstance(right, exp.Column):
            found.append(((folded(left.table), folded(left.name)), (folded(right.table), folded(right.name))))
    return found


def _is_of(node: exp.Expr, members: frozenset[Column], nullable: set[str]) -> bool:
    """Whether an expression is always the value of a class."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        column = (folded(node.table), folded(node.name))
        return column in members and column[0] not in nullable
    if isinstance(node, exp.Coalesce):
        parts = [part.unnest() for part in (node.this, *node.expressions)]
        if not all(isinstance(p, exp.Column) and (folded(p.table), folded(p.name)) in members for p in parts):
            return False
        named = {folded(part.table) for part in parts}
        # One of them is there in every row: a preserved side, or all sides between which one may be missing.
        return bool(named - nullable) or {alias for alias, _ in members} <= named
    return False


def _representative(members: frozenset[Column], nullable: set[str]) -> exp.Expr:
    sure = sorted(column for column in members if column[0] not in nullable)
    if sure:
        return exp.column(sure[0][1], table=sure[0][0], quoted=True)
    columns = [exp.column(name, table=alias, quoted=True) for alias, name in sorted(members)]
    return exp.Coalesce(this=columns[0], expressions=columns[1:])


class _Union:
    """Classes of equal columns."""

    def __init__(self) -> None:
        self._parents: dict[Column, Column] = {}

    def add(self, column: Column) -> Column:
        self._parents.setdefault(column, column)
        while self._parents[column] != column:
            column = self._parents[column]
        return column

    def join(self, left: Column, right: Column) -> None:
        self._parents[self.add(left)] = self.add(right)

    def classes(self) -> list[frozenset[Column]]:
        found: dict[Column, set[Column]] = {}
        for column in list(self._parents):
            found.setdefault(self.add(column), set()).add(column)
        return [frozenset(members) for members in found.values()]
