"""One SELECT, clause by clause, and how it becomes a query.

Owns `Block` and its compilation. Every function of StreamSQL is pure, so a column computed by an
earlier step can stand for its expression in a later one: steps share one SELECT for as long as
SQL gives that the same meaning, and are nested where it does not. Which step may follow which is
for the steps to say: `selections`, `groups` and `joins`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from millstream.builder.aggregates import is_aggregate
from millstream.builder.expressions import Expression, in_place_of
from millstream.builder.literals import identifier
from millstream.builder.windows import BOUNDS, KEYED, Window, key_columns, window_call
from millstream.model.errors import MillstreamError, did_you_mean

STAR = "*"
Kind = Literal["stream", "table", "view", "query"]


@dataclass(frozen=True, slots=True)
class Output:
    """A column of a result. The name of `*` and `bids.*` is `*`."""

    name: str
    node: exp.Expr

    def select_item(self) -> exp.Expr:
        if self.name == STAR or (isinstance(self.node, exp.Column) and self.node.name == self.name):
            return self.node.copy()
        return exp.Alias(this=self.node.copy(), alias=identifier(self.name))


Outputs = tuple[Output, ...]
EVERYTHING: Outputs = (Output(STAR, exp.Star()),)


@dataclass(frozen=True, slots=True)
class Block:
    """A SELECT. Nodes are shared between blocks and copied when one is compiled."""

    source: str | exp.Query
    """The name of a relation, or a query to read from."""
    name: str | None
    """What qualifies its columns; None where several relations are joined or united."""
    kind: Kind = "query"
    event_time: str | None = None
    known: tuple[str, ...] | None = None
    """The columns of the source, where they are known."""
    window: Window | None = None
    time_column: str | None = None
    joins: tuple[exp.Join, ...] = ()
    where: exp.Expr | None = None
    inputs: Outputs = EVERYTHING
    """What the aggregates are computed from."""
    keys: Outputs | None = None
    columns: Outputs = EVERYTHING
    aggregated: bool = False
    having: exp.Expr | None = None
    is_distinct: bool = False
    order: tuple[exp.Ordered, ...] = ()
    limit: int | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the block reads a relation, or a query, and does nothing with it."""
        return (
            self.window is None
            and not self.joins
            and self.where is None
            and self.keys is None
            and self.columns == EVERYTHING
            and not (self.aggregated or self.is_distinct or self.order or self.limit is not None)
        )

    @property
    def is_cut(self) -> bool:
        """Whether later steps see only the rows that an order and a limit, or a rank, let through."""
        return bool(self.order) or self.limit is not None or any(o.node.find(*_OF_MANY_ROWS) for o in self.columns)

    @property
    def is_open(self) -> bool:
        """Whether the select list says all that the block has: no more than rows, as they come."""
        return not (self.aggregated or self.is_distinct or self.is_cut)

    @property
    def lacks_aggregates(self) -> bool:
        """Whether rows are grouped and nothing is computed of the groups yet."""
        return self.keys is not None and not self.aggregated


# Not a function of the row alone, or not one row for each: they cannot be moved to another clause.
_OF_MANY_ROWS = (exp.Window, exp.Explode, exp.Posexplode)


def nested(block: Block) -> Block:
    """A block that reads from the query of another one, under the same name."""
    names = output_names(block)
    return Block(compile_block(block), block.name, known=names)


def output_names(block: Block) -> tuple[str, ...] | None:
    """The columns of the result, or None where a star hides them."""
    names: list[str] = []
    for output in block.columns:
        if output.name != STAR:
            names.append(output.name)
        elif block.known is None or block.joins or isinstance(output.node, exp.Column):
            return None
        else:
            names.extend((*block.known, *(BOUNDS if block.window is not None else ())))
    return tuple(names)


def relation_names(block: Block) -> list[str]:
    """What qualifies the columns of each relation that a block reads."""
    return [name for name in (block.name, *(join.alias_or_name for join in block.joins)) if name]


# -- names ---------------------------------------------------------------------------------------


def resolve(block: Block, node: exp.Expr) -> exp.Expr:
    """An expression over the result of a block, as one over what the block reads.

    In a block with groups, the arguments of aggregates speak of the rows that are grouped.
    """
    if not block.aggregated:
        return _substitute(block, node, block.columns)
    root: exp.Expr = exp.Tuple(expressions=[node.copy()])
    calls = [part for part in root.walk(prune=is_aggregate) if is_aggregate(part)]
    # The calls are set aside while the rest is resolved.
    computed = {f"aggregate {i}": _substitute(block, call, block.inputs) for i, call in enumerate(calls)}
    for mark, call in zip(computed, calls, strict=True):
        call.replace(exp.Placeholder(this=mark))
    root = _substitute(block, root, block.columns)
    for placeholder in list(root.find_all(exp.Placeholder)):
        if placeholder.name in computed:
            placeholder.replace(computed[placeholder.name])
    found: exp.Expr = root.expressions[0]
    return found.pop()


def by_output_name(block: Block, node: exp.Expr) -> exp.Expr:
    """An expression over the result of a block, for ORDER BY, which finds the select list by name."""

    def plain(column: exp.Column) -> exp.Expr | None:
        output = _find(block, column, block.columns)
        return None if output is None else exp.Column(this=identifier(output.name))

    return _replace_columns(node, plain)


def _substitute(block: Block, node: exp.Expr, outputs: Outputs) -> exp.Expr:
    def computed(column: exp.Column) -> exp.Expr | None:
        output = _find(block, column, outputs)
        if output is None:
            return None
        return in_place_of(output.node, column)

    return _replace_columns(node, computed)


def _find(block: Block, column: exp.Column, outputs: Outputs) -> Output | None:
    """The output that a column names, None where it is a column that the block reads."""
    if block.joins and column.table.lower() in (name.lower() for name in relation_names(block)):
        return None  # a column of one of several relations, whatever the result calls its own columns
    own = not column.table or (block.name is not None and column.table.lower() == block.name.lower())
    name = (column.name if own else column.table).lower()
    output = next((o for o in outputs if o.name.lower() == name), None)
    if output is not None and not own:
        # `payload.zip` is a field of a column: the column itself is what is looked up.
        if isinstance(output.node, exp.Column):
            return None
        field = Expression(output.node).field(column.name)
        return Output(column.name, field.node)
    if output is None:
        _check_known(block, name, outputs)
    return output


def _check_known(block: Block, name: str, outputs: Outputs) -> None:
    names: list[str] = []
    for output in outputs:
        if output.name != STAR:
            names.append(output.name)
        elif block.known is None or block.joins:
            return
        else:
            names.extend((*block.known, *(BOUNDS if block.window is not None else ())))
    if name not in (known.lower() for known in names):
        raise MillstreamError(
            "UNKNOWN_COLUMN", f"there is no column {name!r} here", hint=did_you_mean(name, (n.lower() for n in names))
        )


def _replace_columns(node: exp.Expr, replacement: Callable[[exp.Column], exp.Expr | None]) -> exp.Expr:
    """A copy with columns replaced, but for those in queries of their own and for stars."""
    root = exp.Tuple(expressions=[node.copy()])
    for part in list(root.walk(prune=lambda part: isinstance(part, exp.Query))):
        if isinstance(part, exp.Column) and not isinstance(part.this, exp.Star):
            new = replacement(part)
            if new is not None:
                part.replace(new)
    found: exp.Expr = root.expressions[0]
    return found.pop()


def qualified(node: exp.Expr, name: str) -> exp.Expr:
    """A copy in which every column says which relation it is of."""

    def full(column: exp.Column) -> exp.Expr | None:
        if column.table.lower() == name.lower():
            return None
        if column.table:
            whole = exp.Column(this=column.args["table"].copy(), table=identifier(name))
            return exp.Dot(this=whole, expression=column.this.copy())
        return exp.Column(this=column.this.copy(), table=identifier(name))

    return _replace_columns(node, full)


# -- compilation ---------------------------------------------------------------------------------


def compile_block(block: Block) -> exp.Query:
    """The query of a block."""
    if isinstance(block.source, exp.Query) and block.is_plain:
        return block.source.copy()
    select = exp.Select(expressions=[output.select_item() for output in block.columns])
    if block.is_distinct:
        select.set("distinct", exp.Distinct())
    select.set("from_", exp.From(this=from_item(block)))
    if block.joins:
        select.set("joins", [join.copy() for join in block.joins])
    if block.where is not None:
        select.set("where", exp.Where(this=block.where.copy()))
    if keys := _group_nodes(block):
        select.set("group", exp.Group(expressions=keys))
    if block.having is not None:
        select.set("having", exp.Having(this=block.having.copy()))
    if block.order:
        select.set("order", exp.Order(expressions=[part.copy() for part in block.order]))
    if block.limit is not None:
        select.set("limit", exp.Limit(expression=exp.Literal.number(block.limit)))
    return select


def from_item(block: Block, as_of: exp.Expr | None = None) -> exp.Table | exp.Subquery:
    """What a block reads from, as it stands in FROM or JOIN."""
    if isinstance(block.source, exp.Query):
        item: exp.Table | exp.Subquery = exp.Subquery(this=block.source.copy())
    elif block.window is not None:
        item = exp.Table(this=window_call(block.window, block.source, block.time_column, _window_keys(block)))
    else:
        item = exp.Table(this=identifier(block.source))
    if as_of is not None:
        item.set("version", exp.Version(this="TIMESTAMP", kind="AS OF", expression=as_of))
    if block.name is not None and block.name != block.source:
        item.set("alias", exp.TableAlias(this=identifier(block.name)))
    return item


def bounds() -> Outputs:
    """The columns that a window adds."""
    return tuple(Output(name, exp.Column(this=identifier(name))) for name in BOUNDS)


def _group_nodes(block: Block) -> list[exp.Expr]:
    if block.keys is None:
        return []
    window = bounds() if block.window is not None else ()
    return [output.node.copy() for output in (*window, *block.keys)]


def _window_keys(block: Block) -> Sequence[str]:
    assert block.window is not None
    named = key_columns(block.window)
    if named is not None:
        return named
    if not isinstance(block.window, KEYED):
        return ()
    keys: list[str] = []
    for output in block.keys or ():
        if not isinstance(output.node, exp.Column):
            raise MillstreamError(
                "BAD_WINDOW",
                f"a {type(block.window).__name__} window is kept by columns, and {output.name!r} is computed",
                hint="name the columns of its key with by=…",
            )
        keys.append(output.node.name)
    return keys


def with_columns(block: Block, added: Sequence[Output]) -> Block:
    """A block with columns added, or put in the place of those of the same name."""
    new = {output.name.lower(): output for output in added}
    kept = [new.pop(output.name.lower(), output) for output in block.columns]
    return replace(block, columns=(*kept, *new.values()))
