"""A query of any shape as parts that Spark and the store maintain together.

Owns the decomposition. A select over one stream becomes a part that Spark computes; subqueries in
FROM and WITH become hidden parts of their own; streams that are joined or looked at as rows are
kept as hidden parts, with their own filters and only the columns that are used. What remains is a
query over relations of the store.

Names: the hidden parts of a view `v` are `v$1`, `v$2`… In a block, `"__in0"`, `"__in1"`… stand for
the relations it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import OptimizeError
from sqlglot.optimizer.qualify import qualify

from millstream.model.errors import MillstreamError, Position
from millstream.model.schema import folded
from millstream.model.settings import ViewOptions
from millstream.plan.blocks import BlockPlanner, Source
from millstream.plan.nodes import AppendView, Part, QueryView, Stream, ViewPlan
from millstream.plan.planner import plan_rows, plan_view
from millstream.plan.ranking import merged_ranking
from millstream.plan.reading import WINDOW_COLUMNS, Typer, default_name
from millstream.plan.refusals import MisplacedTriggerError, NotIncrementalError
from millstream.plan.relations import Relation, Relations, view_relation
from millstream.plan.spelling import write_nested_joins, write_out
from millstream.sql import position_of, read_window_call
from millstream.sql.dialect import StreamSQL
from millstream.sql.statements import DEFAULT_EMIT, CreateView, Emit
from millstream.sql.windows import WindowCall

_WITH_TABLE = ("joins", "laterals", "pivots")
"""What the parser puts into the table that it follows."""


def plan_query(create: CreateView, relations: Relations, typer: Typer) -> ViewPlan:
    """The plan of a view, with the types that were asked for."""
    types: dict[str, dict[str, pa.DataType]] = {}

    def recording(stream: Stream, sqls: Sequence[str]) -> list[pa.DataType]:
        found = typer(stream, sqls)
        types.setdefault(stream.name, {}).update(zip(sqls, found, strict=True))
        return found

    return replace(Decomposition(create, relations, recording).plan(), types=types)


@dataclass(frozen=True, slots=True)
class Place:
    """A relation where the query names it, perhaps through a window function."""

    relation: Relation
    call: WindowCall | None
    table: exp.Table

    @property
    def columns(self) -> tuple[str, ...]:
        return self.relation.columns + (WINDOW_COLUMNS if self.call is not None else ())

    @property
    def can_keep_rows(self) -> bool:
        """Whether a query over it that has no incremental form can be one over its kept rows."""
        return self.call is None or self.call.kind in ("tumble", "hop")


@dataclass
class Decomposition:
    """The parts of one view, as they are found."""

    create: CreateView
    relations: Relations
    typer: Typer
    parts: list[Part] = field(default_factory=list)
    _places: dict[str, Place] = field(default_factory=dict)
    _views: dict[str, Relation] = field(default_factory=dict)
    """What a WITH name stands for, once it is planned."""
    _definitions: dict[str, exp.Query] = field(default_factory=dict)
    _emit_taken: bool = False
    _count: int = 0

    def __post_init__(self) -> None:
        self.options = ViewOptions.read(dict(self.create.options), self.create.position)

    def plan(self) -> ViewPlan:
        query = self.create.query
        _drop_order(query)
        names = _output_names(query)
        query = self._mark(query.copy())
        if not self._places:
            raise self._error(
                "NO_SOURCE", "the query reads from no stream", self.create.query, hint="add FROM <stream>"
            )
        simple = self._only_place(query)
        if simple is not None and simple.relation.stream is not None:
            try:
                return ViewPlan((plan_view(self.create, self._find_stream, self.typer),))
            except NotIncrementalError:
                if not simple.can_keep_rows:
                    raise
        query = self._qualify(write_out(query, self._columns_of, self._error))
        write_nested_joins(query)
        _rename(query, names, self._error)
        self._query(query, self.create.name)
        self._check_emit()
        return ViewPlan(_without_repeats(self.parts))

    # -- names ---------------------------------------------------------------------------------

    def _mark(self, query: exp.Query) -> exp.Query:
        """Put a name of its own for every place where the query names a relation."""
        for table in list(query.find_all(exp.Table)):
            if _is_defined(table):
                if table.args.get("version"):
                    raise self._error("NOT_VERSIONED", f"{table.name} is no table", table)
                continue
            call = read_window_call(table, self._text, self._source)
            name = call.source if call else table.name
            relation = self.relations(name)
            if relation is None:
                raise self._error(
                    "UNKNOWN_RELATION",
                    f"there is no stream, table or view {name!r}",
                    table,
                    hint="see SHOW STREAMS, SHOW TABLES and SHOW VIEWS",
                )
            version = table.args.get("version")
            if version is not None and not relation.versioned:
                raise self._error(
                    "NOT_VERSIONED",
                    f"{relation.name} keeps no versions",
                    table,
                    hint="CREATE TABLE … WITH (versioned = 'true')",
                )
            marker = f"__r{len(self._places)}"
            written = table.copy()
            for key in _WITH_TABLE:
                written.set(key, None)
            self._places[marker] = Place(relation, call, written)
            alias = (call.alias if call else table.alias) or name
            marked = exp.Table(this=exp.to_identifier(marker), alias=exp.TableAlias(this=exp.to_identifier(alias)))
            for key in _WITH_TABLE:
                if table.args.get(key):
                    marked.set(key, table.args[key])
            if version is not None:
                # Kept in the tree, so that its columns are resolved like all others.
                marked.set("version", version.copy())
            marked.meta.update(table.meta)
            table.replace(marked)
        return query

    def _only_place(self, query: exp.Query) -> Place | None:
        """The place of a query that reads one relation in one place."""
        if not isinstance(query, exp.Select) or len(self._places) != 1:
            return None
        source = query.args.get("from_")
        table = source.this if source is not None else None
        if not isinstance(table, exp.Table) or any(table.args.get(key) for key in _WITH_TABLE):
            return None
        return self._places.get(table.name)

    def _qualify(self, query: exp.Query) -> exp.Query:
        schema: dict[str, object] = {
            marker: dict.fromkeys(place.columns, "unknown") for marker, place in self._places.items()
        }
        try:
            qualified = qualify(query, schema=schema, dialect=StreamSQL, validate_qualify_columns=True)
        except OptimizeError as error:
            message = str(error).split(". Line")[0]
            raise self._error("UNKNOWN_COLUMN", message[:1].lower() + message[1:], self._culprit(message)) from None
        for star in qualified.find_all(exp.Star):
            if not isinstance(star.parent, exp.Count):
                raise self._error(
                    "NOT_SUPPORTED",
                    "the fields of a struct are not spelled out in a query over several relations",
                    star.parent,
                    hint="name them: info.city, info.n",
                )
        return qualified

    def _columns_of(self, item: exp.Expr) -> list[str]:
        """The columns of an item of FROM, before the query around it is qualified."""
        if isinstance(item, exp.Table) and item.name in self._places:
            return list(self._places[item.name].columns)
        if item.args.get("alias") is not None and item.args["alias"].columns:
            return [column.name for column in item.args["alias"].columns]
        plain = item.copy()
        plain.set("joins", None)
        select = exp.select("*").from_(plain)
        around = item.parent
        while around is not None:
            # What is defined further out is hidden by what is defined further in.
            known = {folded(cte.alias) for cte in select.ctes}
            for cte in around.ctes if isinstance(around, exp.Query) else ():
                if folded(cte.alias) not in known and cte.find(exp.Table) is not item:
                    with_ = select.args.get("with_") or exp.With(expressions=[])
                    select.set("with_", with_)
                    with_.set("expressions", [cte.copy(), *with_.expressions])
            around = around.parent
        return self._qualify(select).named_selects

    def _culprit(self, message: str) -> exp.Expr | None:
        words = message.replace('"', "'").split("'")
        name = words[1] if len(words) > 1 else message.rsplit(" ", 1)[-1]
        name = name.split(".")[-1].strip("`")
        return next((c for c in self.create.query.find_all(exp.Column) if folded(c.name) == folded(name)), None)

    def _find_stream(self, name: str) -> Stream | None:
        relation = self.relations(name)
        return relation.stream if relation is not None else None

    # -- queries -------------------------------------------------------------------------------

    def _query(self, query: exp.Expr, name: str) -> Relation:
        """Add the parts of a query; the relation that holds its rows is called `name`."""
        self._define(query)
        match query:
            case exp.Subquery():
                if any(query.args.get(key) for key in ("order", "limit", "offset", "joins", "pivots")):
                    raise self._error(
                        "NOT_SUPPORTED",
                        "this form of subquery is not supported in a view",
                        query,
                        hint="write it as (SELECT … FROM …)",
                    )
                return self._query(query.this, name)
            case exp.SetOperation():
                return self._set_operation(query, name)
            case exp.Select():
                return self._select(query, name)
        raise self._error("NOT_SUPPORTED", f"{type(query).__name__} cannot be a view", query)

    def _define(self, query: exp.Expr) -> None:
        with_ = query.args.get("with_")
        if with_ is not None:
            for cte in with_.expressions:
                body = cte.this
                if cte.args["alias"].columns:
                    _rename(body, [column.name for column in cte.args["alias"].columns], self._error)
                self._definitions[folded(cte.alias)] = body
            query.set("with_", None)

    def _hidden(self, query: exp.Expr) -> Relation:
        return self._query(query, self._new_name())

    def _new_name(self) -> str:
        self._count += 1
        return f"{self.create.name}${self._count}"

    def _set_operation(self, query: exp.SetOperation, name: str) -> Relation:
        sides = [self._hidden(query.this), self._hidden(query.expression)]
        columns = [item.alias_or_name for item in query.selects]
        if len(sides[0].columns) != len(sides[1].columns):
            raise self._error("BAD_SET_OPERATION", "both sides need the same number of columns", query)
        return self._add(self._blocks().set_operation(query, name, sides, columns))

    def _select(self, select: exp.Select, name: str) -> Relation:
        _drop_order(select)
        select = merged_ranking(select)
        single = self._single_stream(select)
        if single is not None:
            try:
                return self._stream_part(select, name, single)
            except NotIncrementalError:
                if not single.can_keep_rows:
                    raise
        sources = [source for item in _from_items(select) if (source := self._source_of(item)) is not None]
        inner = self._inner_sources(select)
        return self._add(self._blocks().select(select, name, sources, inner))

    def _blocks(self) -> BlockPlanner:
        return BlockPlanner(self.create, self.options, self.parts, self._new_name, self._keep_rows)

    def _single_stream(self, select: exp.Select) -> Place | None:
        """The stream of a select that reads nothing else."""
        items = _from_items(select)
        if len(items) != 1 or select.args.get("laterals") or not isinstance(items[0], exp.Table):
            return None
        if any(node is not select for node in select.find_all(exp.Select)):
            return None
        place = self._places.get(items[0].name)
        return place if place is not None and place.relation.stream is not None else None

    def _stream_part(self, select: exp.Select, name: str, place: Place) -> Relation:
        """A select over one stream, for Spark."""
        copy = select.copy()
        (table,) = (item for item in _from_items(copy) if isinstance(item, exp.Table))
        original = place.table.copy()
        original.set("alias", exp.TableAlias(this=exp.to_identifier(table.alias)))
        table.replace(original)
        emit = self.create.emit
        statement = replace(self.create, name=name, query=copy)
        top = name == self.create.name
        try:
            part = plan_view(statement, self._find_stream, self.typer)
        except MisplacedTriggerError:
            if top or emit == DEFAULT_EMIT:
                raise
            # The trigger belongs to another part.
            part = plan_view(replace(statement, emit=DEFAULT_EMIT), self._find_stream, self.typer)
        else:
            self._emit_taken = self._emit_taken or emit != DEFAULT_EMIT
        if not top:
            part = replace(part, hidden=True, retain=None)
        return self._add(part)

    def _source_of(self, item: exp.Expr) -> Source | None:
        """What one item of FROM reads; None for what has no rows of its own (LATERAL, VALUES)."""
        match item:
            case exp.Table() if item.name in self._places:
                place = self._places[item.name]
                version = item.args.get("version")
                as_of = version.expression if version is not None else None
                return Source(item, place.relation, place.call, as_of, place.table)
            case exp.Table():
                return Source(item, self._defined(item))
            case exp.Subquery():
                return Source(item, self._hidden(item.this if not item.args.get("with_") else item))
            case _:
                return None

    def _defined(self, table: exp.Table) -> Relation:
        name = folded(table.name)
        if name not in self._views:
            body = self._definitions.get(name)
            if body is None:
                raise self._error("UNKNOWN_RELATION", f"there is no relation {table.name!r}", table)
            self._views[name] = self._hidden(body.copy())
        return self._views[name]

    def _inner_sources(self, select: exp.Select) -> list[Source]:
        """What subqueries in expressions read."""
        found: list[Source] = []
        for subquery in list(_inner_selects(select)):
            self._define(subquery)
            for table in list(subquery.find_all(exp.Table)):
                source = self._source_of(table)
                if source is not None:
                    found.append(source)
        return found

    def _keep_rows(self, query: exp.Select) -> AppendView:
        statement = CreateView(self._new_name(), query, DEFAULT_EMIT, (), position=self.create.position)
        return plan_rows(statement, self._find_stream, self.typer)

    def _add(self, part: Part) -> Relation:
        self.parts.append(part)
        return view_relation(part)

    # -- refusals ------------------------------------------------------------------------------

    def _check_emit(self) -> None:
        emit = self.create.emit
        plain = Emit(repeatedly=DEFAULT_EMIT.repeatedly, accumulation=emit.accumulation)
        if emit in (DEFAULT_EMIT, plain) or self._emit_taken:
            return
        raise self._error(
            "EMIT_NEEDS_WINDOW",
            "no part of this query has windows that a trigger could fire",
            self.create.query,
            hint="EMIT belongs to a query that groups a stream by windows; leave it out here",
        )

    @property
    def _text(self) -> str:
        return self.create.position.text if self.create.position else ""

    @property
    def _source(self) -> str:
        return self.create.position.source if self.create.position else "<sql>"

    def _error(
        self, code: str, message: str, node: exp.Expr | None, *, detail: str | None = None, hint: str | None = None
    ) -> MillstreamError:
        position: Position | None = self.create.position
        if node is not None and self._text:
            position = position_of(node, self._text, self._source) or position
        return MillstreamError(code, message, detail=detail, hint=hint, position=position)


def _without_repeats(parts: list[Part]) -> tuple[Part, ...]:
    """The parts with every hidden one that is the same as another kept once."""
    names: dict[str, str] = {}
    first: dict[Part, str] = {}
    kept: list[Part] = []
    for part in parts:
        if isinstance(part, QueryView):
            inputs = tuple(replace(i, relation=names.get(i.relation, i.relation)) for i in part.inputs)
            part = replace(part, inputs=inputs)
        if part.hidden:
            nameless = replace(part, name="")
            names[part.name] = first.setdefault(nameless, part.name)
            if names[part.name] != part.name:
                continue
        kept.append(part)
    return tuple(kept)


def _from_items(select: exp.Select) -> list[exp.Expr]:
    source = select.args.get("from_")
    items = [source.this] if source is not None else []
    return items + [join.this for join in select.args.get("joins") or ()]


def _inner_selects(select: exp.Select) -> Iterator[exp.Expr]:
    """The outermost queries inside of expressions."""
    for key, value in select.args.items():
        if key in ("from_", "joins", "laterals", "with_"):
            if key == "joins":
                for join in value or ():
                    yield from _outermost(join.args.get("on"))
                    if isinstance(join.this, exp.Lateral):
                        yield from _outermost(join.this)
            continue
        for node in value if isinstance(value, list) else [value]:
            yield from _outermost(node)


def _outermost(node: object) -> Iterator[exp.Expr]:
    if not isinstance(node, exp.Expr):
        return
    if isinstance(node, exp.Query) and not isinstance(node, exp.Subquery):
        yield node
        return
    for child in node.iter_expressions():
        yield from _outermost(child)


def _drop_order(query: exp.Query) -> None:
    """A relation has no order; it matters only for which rows LIMIT takes."""
    if query.args.get("order") and not (query.args.get("limit") or query.args.get("offset")):
        query.set("order", None)


def _is_defined(table: exp.Table) -> bool:
    """Whether a name is one of a WITH around it."""
    node = table.parent
    while node is not None:
        with_ = node.args.get("with_") if isinstance(node, exp.Query) else None
        if with_ is not None and any(folded(cte.alias) == folded(table.name) for cte in with_.expressions):
            return True
        node = node.parent
    return False


def _output_names(query: exp.Query) -> list[str] | None:
    """The names of the result as they were written, where there are no stars."""
    selects = query.selects
    if any(item.is_star for item in selects):
        return None
    return [item.alias or default_name(item) for item in selects]


def _rename(query: exp.Query, names: list[str] | None, error: Callable[..., MillstreamError]) -> None:
    """Give the columns of a qualified query their names, and check that they differ."""
    select: exp.Expr = query
    while isinstance(select, exp.SetOperation | exp.Subquery):
        select = select.this
    assert isinstance(select, exp.Select)
    if names is not None:
        if len(names) != len(select.expressions):
            raise error("BAD_NAME", f"{len(names)} names for {len(select.expressions)} columns", query)
        select.set(
            "expressions",
            [
                exp.alias_(item.unalias(), name, quoted=True)
                for item, name in zip(select.expressions, names, strict=True)
            ],
        )
    seen: set[str] = set()
    for item in select.expressions:
        name = item.alias_or_name
        if name.lower() in seen:
            raise error(
                "DUPLICATE_COLUMN",
                f"the view has two columns called {name!r}",
                item,
                hint="name one with AS, leave one out with * EXCEPT (…), or join with USING, which makes them one",
            )
        seen.add(name.lower())
