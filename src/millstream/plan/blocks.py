"""One select, or one set operation, over relations of the store.

Owns the inputs of a block: which streams are kept as rows for it, with which filters and columns,
for how long, and what the store's SQL over them is. `maintenance.py` chooses how it is kept up to
date.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from math import isfinite

from sqlglot import exp

from millstream.duck import guarded_sql, probes, quote, store_sql
from millstream.model.errors import MillstreamError, place_of
from millstream.model.schema import folded
from millstream.model.settings import ViewOptions
from millstream.plan.bounds import Clock, Column, time_bounds
from millstream.plan.maintenance import Block, Choice, conjuncts, identity, optional_side, unqualified
from millstream.plan.nodes import (
    VERSIONS,
    AppendView,
    Horizon,
    Input,
    OuterRows,
    Part,
    QueryView,
    Stream,
    TopView,
)
from millstream.plan.outer import OuterJoin
from millstream.plan.ranking import best_rows, top_view
from millstream.plan.reading import WINDOW_COLUMNS
from millstream.plan.relations import Relation
from millstream.sql import position_of
from millstream.sql.statements import CreateView
from millstream.sql.windows import WindowCall

_VALIDITY = ("__from", "__to")
"""Columns of a version, besides those of its table."""


@dataclass(frozen=True, slots=True)
class Source:
    """What one item of FROM reads."""

    item: exp.Expr
    relation: Relation
    call: WindowCall | None = None
    as_of: exp.Expr | None = None
    table: exp.Table | None = None
    """The item as it was written."""

    @property
    def alias(self) -> str:
        return folded(self.item.alias_or_name)


@dataclass
class BlockPlanner:
    """Plans the blocks of one view."""

    create: CreateView
    options: ViewOptions
    parts: list[Part]
    new_name: Callable[[], str]
    keep: Callable[[exp.Select], AppendView]
    """Plans the rows of a stream that are kept, as a select over it says."""

    # -- set operations ------------------------------------------------------------------------

    def set_operation(
        self, query: exp.SetOperation, name: str, sides: Sequence[Relation], columns: Sequence[str]
    ) -> QueryView:
        word = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}[type(query)]
        is_all = query.args.get("distinct") is False
        linear = isinstance(query, exp.Union) and is_all
        lists = [
            ", ".join(
                # A column of NULLs has the type of the other side.
                f"{'NULL' if isinstance(item.unalias(), exp.Null) else quote(own)} AS {quote(out)}"
                for own, out, item in zip(side.columns, columns, select.selects, strict=True)
            )
            for side, select in zip(sides, (query.this, query.expression), strict=True)
        ]
        selects = [f'SELECT {list_} FROM "__in{index}"' for index, list_ in enumerate(lists)]
        sql = f" {word}{' ALL' if is_all else ''} ".join(selects)
        if not linear:
            keys = ", ".join(f'{quote(column)} AS "__key{index}"' for index, column in enumerate(columns))
            sql = f"SELECT *, {keys} FROM ({sql})"
        inputs = tuple(
            Input(side.name, side.columns, side.append_only, () if linear else side.columns) for side in sides
        )
        return self._view(
            name,
            sql,
            tuple(columns),
            inputs,
            method="union" if linear else "keyed",
            key=() if linear else tuple(quote(column) for column in columns),
            why="" if linear else "equal rows of both sides are looked at together",
        )

    # -- selects -------------------------------------------------------------------------------

    def select(
        self, select: exp.Select, name: str, sources: Sequence[Source], inner: Sequence[Source]
    ) -> QueryView | TopView:
        """The part for a select whose FROM items are `sources`; `inner` are read by subqueries in expressions."""
        # First: columns in conditions that become SQL text are not found later.
        read = [_read_columns(select, source.alias) for source in (*sources, *inner)]
        kept = [
            self._keep(select, source, index, read[index], is_inner=index >= len(sources))
            for index, source in enumerate((*sources, *inner))
        ]
        clocks = self._bound(select, sources, kept, inner)
        aliases = tuple(source.alias for source in sources)
        choice = Block(select, aliases).choose()
        columns = tuple(item.alias_or_name for item in select.expressions)
        relations = [part if isinstance(part, Relation) else _relation(part) for part in kept]
        if inner or choice.method != "keyed":
            choice = replace(choice, keys=(), input_keys={})
        inputs = tuple(
            Input(
                relation.name,
                _among(relation.columns, names, *_VALIDITY),
                relation.append_only,
                choice.input_keys.get(source.alias, ()),
                optional_side(choice.optional[source.alias], aliases) if source.alias in choice.optional else None,
            )
            for source, relation, names in zip((*sources, *inner), relations, read, strict=True)
        )
        outer = clocks.outer if clocks is not None else ()
        if outer:
            choice = Choice("delta")
            inputs = tuple(replace(i, optional=None, key=()) for i in inputs)
            _join_all(select)
        self._bound_rank(select, kept)
        keys = tuple(store_sql(key) for key in choice.keys)
        body = select.copy()
        for index, key in enumerate(choice.keys):
            body.select(exp.alias_(key.copy(), f"__key{index}", quoted=True), copy=False)
        time = clocks.time() if clocks is not None and choice.method == "delta" else None
        if time is not None:
            body.select(exp.alias_(exp.Var(this=time), "__t", quoted=True), copy=False)
        view = self._view(
            name,
            guarded_sql(body),
            columns,
            inputs,
            probes=probes(body),
            method=choice.method,
            key=keys,
            why=choice.why,
            identity=identity(select),
            streams=clocks.streams if clocks is not None else (),
            time=time,
            aliases=aliases,
            outer=outer,
        )
        rows = kept[0] if kept else None
        if isinstance(rows, AppendView) and (top := top_view(select, rows, view)) is not None:
            # It has the rows itself.
            self.parts.remove(rows)
            return top
        return view

    def _view(
        self, name: str, sql: str, columns: tuple[str, ...], inputs: tuple[Input, ...], **rest: object
    ) -> QueryView:
        hidden = name != self.create.name
        retain = None if hidden else self.options.retain
        view = QueryView(
            name=name,
            sql=sql,
            columns=columns,
            inputs=inputs,
            accumulation=self.create.emit.accumulation,
            retain=retain,
            changelog_retain=None if hidden else self.options.changelog_retain,
            hidden=hidden,
            **{"identity": (), **rest},  # type: ignore[arg-type]
        )
        if retain is not None and view.method != "delta" and view.method != "union":
            raise self._cannot_retain(view)
        if self.create.emit.accumulation == "discarding" and not hidden and not self.create.emit.on_watermark:
            raise self.error("EMIT_WITHOUT_GROUPS", "this view has no panes that could be discarded", None)
        return view

    def _cannot_retain(self, view: QueryView) -> MillstreamError:
        own = {part.name for part in self.parts}
        read = [input_.relation for input_ in view.inputs if input_.relation not in own]
        return self.error(
            "BAD_OPTION",
            "retain has no meaning for a view that is computed again from what it reads",
            None,
            detail="its rows are what the query gives over all that is kept; one that was let go would come back "
            "with the next change of its key",
            hint=(
                f"put retain on what it reads ({', '.join(dict.fromkeys(read))}), if that is a view"
                if read
                else "put the part whose rows should end into a view of its own, with retain, and read that"
            )
            + "; or keep old rows out with WHERE",
        )

    # -- streams kept as rows ------------------------------------------------------------------

    def _keep(
        self, select: exp.Select, source: Source, index: int, read: Set[str], *, is_inner: bool
    ) -> AppendView | Relation:
        """The relation of a source in the store; a stream is kept as rows for this."""
        relation = source.relation
        part: AppendView | Relation = relation
        call = source.call
        if call is not None and call.kind not in ("tumble", "hop"):
            raise self.error(
                "WINDOW_NOT_GROUPED",
                f"{call.kind.upper()} windows have no rows of their own",
                source.item,
                hint="GROUP BY window_start, window_end over the stream itself",
            )
        if relation.stream is not None:
            on_spark = call if call is not None and call.kind == "tumble" else None
            part = self._keep_rows(select, source, relation.stream, on_spark, is_inner)
            call = None if on_spark is not None else call
        if call is not None:
            inner = part if isinstance(part, Relation) else _relation(part)
            part = self._windows(inner, call, read)
        if source.as_of is not None:
            part = replace(relation, name=relation.name + VERSIONS, columns=(*relation.columns, *_VALIDITY))
        placed = exp.Table(this=exp.to_identifier(f"__in{index}", quoted=True))
        placed.set("alias", exp.TableAlias(this=exp.to_identifier(source.alias, quoted=True)))
        source.item.replace(placed)
        if source.as_of is not None:
            self._at_its_time(placed, source)
        return part

    def _at_its_time(self, placed: exp.Table, source: Source) -> None:
        """The version of a table that was valid at an instant."""
        join = placed.parent
        if not isinstance(join, exp.Join) or source.as_of is None:
            raise self.error("BAD_AS_OF", "FOR SYSTEM_TIME AS OF belongs to the joined table", source.item)
        instant = f"epoch_us({guarded_sql(source.as_of)})"
        alias = quote(source.alias)
        condition = exp.Var(this=f'({alias}."__from" <= {instant} AND {instant} < {alias}."__to")')
        on = join.args.get("on")
        join.set("on", exp.and_(on, condition, copy=False) if on is not None else condition)

    def _keep_rows(
        self, select: exp.Select, source: Source, stream: Stream, call: WindowCall | None, is_inner: bool
    ) -> AppendView:
        alias = source.alias
        used = [c.name for c in select.find_all(exp.Column) if folded(c.table) == alias]
        names = list(dict.fromkeys(folded(name) for name in used))
        if source.call is not None and call is None and source.call.time_column is not None:
            plain = [name for name in names if name not in WINDOW_COLUMNS]
            names = list(dict.fromkeys([*plain, folded(source.call.time_column)]))
        if not names:
            names = [folded(stream.schema.names()[0])]
        table = source_table(source, call)
        query = exp.select(*(exp.column(name, quoted=True).as_(name, quoted=True) for name in names)).from_(table)
        where = select.args.get("where")
        if where is not None and not is_inner and alias not in _optional(select):
            mine: list[exp.Expr] = []
            rest: list[exp.Expr] = []
            for condition in conjuncts(where.this):
                tables = {folded(column.table) for column in condition.find_all(exp.Column)}
                simple = tables == {alias} and not any(condition.find_all(exp.Subquery, exp.Select, exp.Window))
                (mine if simple else rest).append(condition)
            for condition in mine:
                query = query.where(unqualified(condition), copy=False)
            select.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)
        part = self.keep(query)
        self.parts.append(part)
        return part

    def _windows(self, relation: Relation, call: WindowCall, read: Set[str]) -> Relation:
        """A relation with the windows of each row, a row for each, and the columns that are read."""
        time = next((c for c in relation.columns if c.lower() == (call.time_column or "").lower()), None)
        if time is None:
            unknown = self.error("UNKNOWN_COLUMN", f"{relation.name} has no column {call.time_column!r}", None)
            raise unknown.moved(place_of(call.time_column, unknown.position))
        instant = f"epoch_us({quote(time)})"
        newest = f"({instant} - (({instant} - {call.offset}) % {call.slide} + {call.slide}) % {call.slide})"
        starts = f"unnest(range({newest}, {instant} - {call.size}, -{call.slide}))"
        columns = _among(relation.columns, read, time)
        own = ", ".join(quote(column) for column in columns)
        sql = (
            f'SELECT {own}, make_timestamp("__ws") AS "window_start", make_timestamp("__ws" + {call.size}) AS '
            f'"window_end" FROM (SELECT *, {starts} AS "__ws" FROM "__in0")'
        )
        inputs = (Input(relation.name, columns, relation.append_only),)
        part = self._view(self.new_name(), sql, (*columns, *WINDOW_COLUMNS), inputs, method="delta", key=())
        self.parts.append(part)
        return Relation(part.name, part.columns, append_only=part.only_grows)

    # -- bounds --------------------------------------------------------------------------------

    def _bound(
        self,
        select: exp.Select,
        sources: Sequence[Source],
        kept: list[AppendView | Relation],
        inner: Sequence[Source],
    ) -> Clocks | None:
        """Let go of kept rows that no partner can reach any more."""
        rows = {s.alias: part for s, part in zip(sources, kept, strict=False) if isinstance(part, AppendView)}
        if inner or not rows:
            return None
        streams = {source.alias: source.relation.stream for source in sources if source.relation.stream is not None}
        clocks = Clocks(tuple(dict.fromkeys(stream.name for stream in streams.values())), tuple(rows))
        if not Block(select, tuple(s.alias for s in sources)).is_linear_shape():
            return None
        versions = [source for source in sources if source.as_of is not None]
        if len(sources) == 2 and len(versions) == 1 and len(rows) == 1:
            table = versions[0].relation.event_stream
            if table is not None:
                ((alias, part),) = rows.items()
                self._replace(kept, part, replace(part, horizon=Horizon((table.name,), None, 1)))
            return clocks if all(s.event_time for s in streams.values()) else None
        if (
            len(sources) < 2
            or len(rows) != len(sources)
            or any(not s.event_time or s.correction for s in streams.values())
        ):
            return clocks if rows and all(s.event_time for s in streams.values()) else None
        times: dict[Column, Clock] = {}
        for source in sources:
            stream = streams[source.alias]
            times[source.alias, folded(stream.event_time or "")] = Clock(source.alias)
            if source.call is not None and source.call.time_column == stream.event_time:
                size = source.call.size
                times[source.alias, "window_start"] = Clock(source.alias, behind=size)
                times[source.alias, "window_end"] = Clock(source.alias, behind=size, ahead=size)
        if any(join.side or join.kind in ("SEMI", "ANTI") for join in select.args["joins"]):
            outer = OuterJoin(select, tuple(rows), times)
            if outer.is_bounded():
                for alias, part in rows.items():
                    horizon = Horizon(clocks.streams, outer.last(alias) + 1, outer.keep(alias) + 1)
                    self._replace(kept, part, replace(part, horizon=horizon))
                clocks.outer = outer.rows()
            return clocks
        conditions = [c for join in select.args["joins"] for c in conjuncts(join.args.get("on"))]
        conditions += conjuncts(select.args["where"].this if select.args.get("where") else None)
        reach = time_bounds(conditions, times)
        lasts = {a: max(0.0, *(reach[a, b] for b in rows if b != a)) for a in rows}
        for alias, part in rows.items():
            keep = max(reach[alias, b] + lasts[b] for b in rows if b != alias)
            if isfinite(keep) and isfinite(lasts[alias]):
                horizon = Horizon(clocks.streams, int(lasts[alias]) + 1, int(keep) + 1)
                self._replace(kept, part, replace(part, horizon=horizon))
        return clocks

    def _bound_rank(self, select: exp.Select, kept: list[AppendView | Relation]) -> None:
        """Of rows that are only ranked, let go of those whose rank can never be good enough again."""
        if len(kept) == 1 and isinstance(kept[0], AppendView):
            self._replace(kept, kept[0], replace(kept[0], top=best_rows(select)))

    def _replace(self, kept: list[AppendView | Relation], old: AppendView, new: AppendView) -> None:
        kept[kept.index(old)] = new
        self.parts[self.parts.index(old)] = new

    def error(
        self, code: str, message: str, node: exp.Expr | None, *, detail: str | None = None, hint: str | None = None
    ) -> MillstreamError:
        position = self.create.position
        if node is not None and position is not None:
            position = position_of(node, position.text, position.source) or position
        return MillstreamError(code, message, detail=detail, hint=hint, position=position)


@dataclass
class Clocks:
    """The event times in a join of kept streams."""

    streams: tuple[str, ...]
    aliases: tuple[str, ...]

    outer: tuple[OuterRows, ...] = ()
    """Where the join is an outer one that is bounded in time: the rows that lack partners."""

    def time(self) -> str:
        """The instant of a joined row: that of its newest part."""
        columns = [f'{quote(alias)}."__t"' for alias in self.aliases]
        return columns[0] if len(columns) == 1 else f"greatest({', '.join(columns)})"


def _join_all(select: exp.Select) -> None:
    """Leave of an outer join only the rows in which all inputs are present: of an anti join, none."""
    for join in select.args["joins"]:
        if join.kind == "ANTI":
            select.where(exp.false(), copy=False)
        join.set("side", None)
        join.set("kind", None)


def source_table(source: Source, call: WindowCall | None) -> exp.Expr:
    """The stream of a source as it is named in FROM, with its window where Spark assigns it."""
    stream = source.relation.stream
    assert stream is not None
    if call is None:
        return exp.Table(this=exp.to_identifier(stream.name, quoted=True))
    assert source.table is not None
    copy = source.table.copy()
    copy.set("alias", None)
    return copy


def _read_columns(select: exp.Select, alias: str) -> set[str]:
    """The names of the columns that a select reads from one of its sources."""
    return {folded(column.name) for column in select.find_all(exp.Column) if folded(column.table) in (alias, "")}


def _among(columns: Sequence[str], read: Set[str], *always: str) -> tuple[str, ...]:
    """The columns that are read, in an order that does not depend on the others."""
    return tuple(sorted(column for column in columns if folded(column) in read or column in always))


def _relation(part: AppendView) -> Relation:
    return Relation(part.name, tuple(name for name, _ in part.columns), append_only=True)


def _optional(select: exp.Select) -> set[str]:
    """The aliases that an outer join may leave without a row."""
    source = select.args.get("from_")
    before = {folded(source.this.alias_or_name)} if source is not None else set()
    found: set[str] = set()
    for join in select.args.get("joins") or ():
        alias = folded(join.this.alias_or_name)
        if join.side in ("LEFT", "FULL"):
            found.add(alias)
        if join.side in ("RIGHT", "FULL"):
            found |= before
        before.add(alias)
    return found
