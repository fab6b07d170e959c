"""From a CREATE MATERIALIZED VIEW statement to the plan of the view.

Owns the reading of the query: names are resolved, the select list is split into what Spark
evaluates per row (keys, arguments, filters) and what the store evaluates per group (expressions
over aggregates). Runs nothing; the types of expressions come from a `Typer`, which asks Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from millstream.model.errors import MillstreamError, Position, did_you_mean
from millstream.model.schema import check_name, spark_type
from millstream.model.settings import ViewOptions
from millstream.plan.aggregates import AGGREGATES, Accumulator, Argument, aggregate_name
from millstream.plan.nodes import USED, AggregateView, AppendView, Kept, Key, Output, Stream, Trigger, View, fill
from millstream.plan.windows import Window
from millstream.sql import position_of, read_window_call
from millstream.sql.dialect import StreamSQL
from millstream.sql.statements import CreateView, Emit, EveryEpoch

Typer = Callable[[Stream, Sequence[str]], list[pa.DataType]]
StreamLookup = Callable[[str], Stream | None]

_NOT_YET: dict[type[exp.Expr], str] = {
    exp.Window: "window functions",
    exp.Subquery: "subqueries",
    exp.Select: "subqueries",
}
_WINDOW_COLUMNS = ("window_start", "window_end")
_WINDOW_SQL = {"window_start": "make_timestamp(__ws)", "window_end": "make_timestamp(__ws + {size})"}


def plan_view(create: CreateView, streams: StreamLookup, typer: Typer) -> View:
    """The plan of a view over one stream."""
    return _Planner(create, streams, typer).plan()


@dataclass
class _Planner:
    create: CreateView
    streams: StreamLookup
    typer: Typer
    stream: Stream = field(init=False)
    window: Window | None = field(init=False, default=None)
    kept: list[Kept] = field(init=False, default_factory=list)
    checks: list[str] = field(init=False, default_factory=list)

    def plan(self) -> View:
        select = self._single_select()
        self._read_from(select)
        options = ViewOptions.read(dict(self.create.options), self.create.position)
        if options.retain is not None and options.retain < self._lateness():
            raise self._error("BAD_OPTION", "retain is shorter than the allowed lateness", select)
        outputs = self._outputs(select)
        where = select.args.get("where")
        filter_ = self._filter(where.this) if where is not None else None
        lateness = self._lateness()
        if self._is_aggregate(select):
            return self._aggregate(select, outputs, filter_, lateness, options)
        return self._append(outputs, filter_, lateness, options)

    # -- what the query reads ------------------------------------------------------------------

    def _single_select(self) -> exp.Select:
        query = self.create.query
        if not isinstance(query, exp.Select):
            raise self._unsupported("set operations", query)
        for clause, words in (
            ("joins", "joins"),
            ("with_", "WITH"),
            ("with", "WITH"),
            ("order", "ORDER BY"),
            ("limit", "LIMIT"),
            ("offset", "OFFSET"),
            ("qualify", "QUALIFY"),
            ("windows", "named windows"),
            ("laterals", "LATERAL VIEW"),
            ("pivots", "PIVOT"),
        ):
            if query.args.get(clause):
                raise self._unsupported(words, query)
        for node in query.find_all(exp.Subquery, exp.Window, exp.Select, exp.UDTF, exp.Explode, exp.Posexplode):
            if node is not query:
                raise self._unsupported(_NOT_YET.get(type(node), "functions that return several rows"), node)
        return query

    def _read_from(self, select: exp.Select) -> None:
        source = select.args.get("from_") or select.args.get("from")
        table = source.this if source is not None else None
        if not isinstance(table, exp.Table):
            raise self._error("NO_SOURCE", "the query reads from no stream", select, hint="add FROM <stream>")
        call = read_window_call(table, self._text(), self._source())
        name = call.source if call else table.name
        stream = self.streams(name)
        if stream is None:
            raise self._error("UNKNOWN_STREAM", f"there is no stream {name!r}", table, hint="see SHOW STREAMS")
        self.stream = stream
        alias = (call.alias if call else table.alias) or name
        self._resolve_columns(select, {alias.lower(), name.lower(), stream.name.lower()})
        if call is None:
            return
        if call.kind not in ("tumble", "hop"):
            raise self._unsupported(f"{call.kind.upper()} windows", table)
        column = stream.schema.find(call.time_column or "")
        if column is None:
            raise self._unknown_column(call.time_column or "", table)
        if not pa.types.is_timestamp(column.type):
            raise self._error(
                "TYPE_MISMATCH",
                f"a window needs a TIMESTAMP, but {column.name} is {spark_type(column.type)}",
                table,
            )
        self.window = Window(column.name, call.size, call.slide, call.offset)

    def _resolve_columns(self, select: exp.Select, known: set[str]) -> None:
        """Make every column a plain name of the stream or of the window, as it was declared."""
        for column in list(select.find_all(exp.Column)):
            if column.find_ancestor(exp.Table, exp.From):
                continue
            if column.args.get("table") is not None:
                if column.table.lower() in known:
                    column.set("table", None)
                elif self.stream.schema.find(column.table) is not None:
                    continue  # a field of a struct column
                else:
                    raise self._error("UNKNOWN_RELATION", f"{column.table!r} is not read by this query", column)
            declared = self.stream.schema.find(column.name)
            name = declared.name if declared else column.name.lower()
            if isinstance(column.this, exp.Identifier) and (declared or name in _WINDOW_COLUMNS):
                column.this.set("this", name)
                column.this.set("quoted", _needs_quotes(name))

    # -- the select list -----------------------------------------------------------------------

    def _outputs(self, select: exp.Select) -> list[tuple[str, exp.Expr]]:
        aliases = {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)}
        outputs: list[tuple[str, exp.Expr]] = []
        for item in select.expressions:
            if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
                names = self.stream.schema.names() + (_WINDOW_COLUMNS if self.window else ())
                outputs.extend((name, exp.column(name, quoted=True)) for name in names)
            elif isinstance(item, exp.Alias):
                outputs.append((item.alias, item.this))
            else:
                outputs.append((item.output_name or item.sql("spark"), item))
        seen: set[str] = set()
        for name, node in outputs:
            if name.lower() in seen:
                raise self._error(
                    "DUPLICATE_COLUMN",
                    f"the view has two columns called {name!r}",
                    node,
                    hint="name one with AS",
                )
            try:
                check_name(name)
            except MillstreamError as error:
                raise self._error(error.code, error.message, node, hint="name it with AS") from None
            seen.add(name.lower())
            self._check_columns(node, ())
        group = select.args.get("group")
        for node in group.expressions if group else ():
            self._check_columns(node, aliases)
        return outputs

    def _check_columns(self, node: exp.Expr, also: Sequence[str] | set[str]) -> None:
        bound = {parameter.name.lower() for lambda_ in node.find_all(exp.Lambda) for parameter in lambda_.expressions}
        for column in node.find_all(exp.Column):
            name = (column.table or column.name).lower()
            window_column = self.window is not None and name in _WINDOW_COLUMNS
            if not (window_column or name in also or name in bound or self.stream.schema.find(name)):
                raise self._unknown_column(name, column)

    def _filter(self, node: exp.Expr) -> str:
        self._check_columns(node, ())
        if any(aggregate_name(part) for part in node.walk()):
            raise self._error("AGGREGATE_IN_WHERE", "WHERE cannot hold an aggregate", node, hint="use HAVING")
        sql = self._row_sql(node)
        self.checks.append(sql)
        return sql

    def _row_sql(self, node: exp.Expr) -> str:
        """Spark SQL of an expression over one row; window bounds become arithmetic on its pane."""
        copy = node.copy()
        for column in list(copy.find_all(exp.Column)):
            if column.name.lower() in _WINDOW_COLUMNS and self.window is not None:
                if not self.window.is_tumbling:
                    raise self._error(
                        "WINDOW_NOT_GROUPED",
                        f"{column.name} of a hopping window has no value for a single row",
                        node,
                        hint="use it in GROUP BY, in the select list or in HAVING",
                    )
                pane = self.window.pane_sql("__wt")
                shift = f" + {self.window.size}L" if column.name.lower() == "window_end" else ""
                bound = exp.Anonymous(this="timestamp_micros", expressions=[exp.Var(this=f"({pane}{shift})")])
                if column is copy:
                    return bound.sql("spark")
                column.replace(bound)
        return copy.sql("spark")

    def _typed(self, sqls: Sequence[str]) -> list[tuple[str, pa.DataType]]:
        """Expressions with their types; instants leave Spark without a zone."""
        types = self.typer(self.stream, sqls)
        return [
            (f"CAST({sql} AS {_without_zone(type_)})" if _has_timestamp(type_) else sql, type_)
            for sql, type_ in zip(sqls, types, strict=True)
        ]

    # -- views of rows -------------------------------------------------------------------------

    def _append(
        self,
        outputs: list[tuple[str, exp.Expr]],
        filter_: str | None,
        lateness: int,
        options: ViewOptions,
    ) -> AppendView:
        emit = self.create.emit
        if not isinstance(emit.repeatedly, EveryEpoch) or emit.accumulation != "accumulating":
            raise self._error(
                "EMIT_WITHOUT_GROUPS",
                "this view has no groups that could be refined: each row is published once, in its epoch",
                self.create.query,
                hint="leave out EMIT, or aggregate with GROUP BY",
            )
        if self.window is not None and not self.window.is_tumbling:
            raise self._unsupported("rows of hopping windows without GROUP BY", self.create.query)
        sqls = [self._row_sql(node) for _, node in outputs]
        self.checks.extend(sql for sql, (_, node) in zip(sqls, outputs, strict=True) if not _is_simple(node))
        typed = self._typed(sqls)
        columns = tuple((name, sql) for (name, _), (sql, _) in zip(outputs, typed, strict=True))
        return AppendView(
            name=self.create.name,
            stream=self.stream.name,
            window=self.window,
            windows_close=self._windows_close(),
            filter=filter_,
            columns=columns,
            lateness=lateness,
            retain=options.retain,
            changelog_retain=options.changelog_retain,
            checks=tuple(self.checks),
        )

    # -- views of groups -----------------------------------------------------------------------

    def _is_aggregate(self, select: exp.Select) -> bool:
        if select.args.get("group") or select.args.get("having") or select.args.get("distinct"):
            return True
        return any(aggregate_name(node) for item in select.expressions for node in item.walk())

    def _aggregate(
        self,
        select: exp.Select,
        outputs: list[tuple[str, exp.Expr]],
        filter_: str | None,
        lateness: int,
        options: ViewOptions,
    ) -> AggregateView:
        key_nodes = self._key_nodes(select, outputs)
        windowed = self._window_is_grouped(select, key_nodes, outputs)
        key_nodes = [node for node in key_nodes if not self._is_window_column(node)]
        typed = self._typed([self._row_sql(node) for node in key_nodes])
        self.checks.extend(sql for (sql, _), node in zip(typed, key_nodes, strict=True) if not _is_simple(node))
        columns = []
        for name, node in outputs:
            columns.append(Output(name, self._group_sql(node, key_nodes)))
        having = select.args.get("having")
        keys = tuple(
            Key(sql, next((name for name, out in outputs if out == node), None))
            for (sql, _), node in zip(typed, key_nodes, strict=True)
        )
        having_sql = self._group_sql(self._with_aliases(having.this, outputs), key_nodes) if having else None
        counts_rows = any(_is_count_star(node) for _, node in outputs)
        return AggregateView(
            name=self.create.name,
            stream=self.stream.name,
            window=self.window if windowed else None,
            windows_close=windowed and self._windows_close(),
            filter=filter_,
            keys=keys,
            kept=tuple(self.kept),
            outputs=tuple(columns),
            having=having_sql,
            trigger=self._trigger(self.create.emit, windowed),
            lateness=lateness,
            retain=options.retain,
            changelog_retain=options.changelog_retain,
            checks=tuple(self.checks),
            always_changes=counts_rows,
        )

    def _key_nodes(self, select: exp.Select, outputs: list[tuple[str, exp.Expr]]) -> list[exp.Expr]:
        group = select.args.get("group")
        if select.args.get("distinct"):
            if group or any(aggregate_name(n) for _, node in outputs for n in node.walk()):
                raise self._unsupported("SELECT DISTINCT with aggregates", select)
            return [node for _, node in outputs]
        if group is None:
            return []
        for special in ("grouping_sets", "cube", "rollup", "totals"):
            if group.args.get(special):
                raise self._unsupported(special.replace("_", " ").upper(), select)
        if group.args.get("all"):
            return [node for _, node in outputs if not any(aggregate_name(n) for n in node.walk())]
        return [self._resolve_key(node, outputs) for node in group.expressions]

    def _resolve_key(self, node: exp.Expr, outputs: list[tuple[str, exp.Expr]]) -> exp.Expr:
        """GROUP BY may name an output by its position or, where no column has that name, its alias."""
        if isinstance(node, exp.Literal) and node.is_int:
            index = int(node.this)
            if not 1 <= index <= len(outputs):
                raise self._error(
                    "BAD_GROUP_BY", f"GROUP BY {index}, but the select list has {len(outputs)} items", node
                )
            resolved = outputs[index - 1][1]
        elif isinstance(node, exp.Column) and not node.table and not self.stream.schema.find(node.name):
            resolved = next((out for name, out in outputs if name.lower() == node.name.lower()), node)
        else:
            resolved = node
        if any(aggregate_name(part) for part in resolved.walk()):
            raise self._error("AGGREGATE_IN_GROUP_BY", "GROUP BY cannot hold an aggregate", node)
        return resolved

    def _window_is_grouped(
        self,
        select: exp.Select,
        key_nodes: list[exp.Expr],
        outputs: list[tuple[str, exp.Expr]],
    ) -> bool:
        if self.window is None:
            return False
        if any(self._is_window_column(node) for node in key_nodes):
            return True
        culprit = next((c for _, node in outputs for c in node.find_all(exp.Column) if self._is_window_column(c)), None)
        name = culprit.name if culprit is not None else "the window"
        raise self._error(
            "WINDOW_NOT_GROUPED",
            f"{name} is selected but not grouped" if culprit is not None else "the window is not in GROUP BY",
            culprit if culprit is not None else select,
            hint="add GROUP BY window_start, window_end",
        )

    def _is_window_column(self, node: exp.Expr) -> bool:
        return (
            self.window is not None
            and isinstance(node, exp.Column)
            and node.name.lower() in _WINDOW_COLUMNS
            and not node.table
        )

    def _with_aliases(self, node: exp.Expr, outputs: list[tuple[str, exp.Expr]]) -> exp.Expr:
        """HAVING may use the names of the select list."""
        names = {name.lower(): out for name, out in outputs}

        def replace(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Column) and not part.table:
                name = part.name.lower()
                if name in names and self.stream.schema.find(name) is None:
                    return exp.paren(names[name].copy())
            return part

        result = node.copy().transform(replace)
        self._check_columns(result, ())
        return result

    def _group_sql(self, node: exp.Expr, keys: list[exp.Expr]) -> str:
        """The store's SQL of an expression over keys, window bounds and aggregates."""

        def replace(part: exp.Expr) -> exp.Expr:
            for index, key in enumerate(keys):
                if part == key:
                    return exp.Var(this=f"__k{index}")
            if self._is_window_column(part):
                assert self.window is not None
                sql = _WINDOW_SQL[part.name.lower()].replace("{size}", str(self.window.size))
                return exp.Var(this=sql)
            if isinstance(part, exp.IgnoreNulls) and aggregate_name(part.this):
                return exp.Var(this=self._aggregate_sql(part.this, None, part, ignore_nulls=True))
            if isinstance(part, exp.Filter) and aggregate_name(_call(part.this)):
                ignore = isinstance(part.this, exp.IgnoreNulls)
                return exp.Var(this=self._aggregate_sql(_call(part.this), part.expression.this, part, ignore))
            if aggregate_name(part):
                return exp.Var(this=self._aggregate_sql(part, None, part))
            if isinstance(part, exp.Column):
                raise self._error(
                    "NOT_GROUPED",
                    f"{part.name} is neither grouped nor aggregated",
                    part,
                    hint=f"add {part.name} to GROUP BY, or wrap it in an aggregate such as max({part.name})",
                )
            return part

        plain = node.copy().transform(replace)
        if isinstance(plain, exp.Var):
            return str(plain.this)
        # By zero Spark would fail, and a group that can never be shown again helps nobody: it is NULL.
        return f"TRY({plain.sql('duckdb')})"

    def _aggregate_sql(
        self,
        call: exp.Expr,
        filter_: exp.Expr | None,
        at: exp.Expr,
        ignore_nulls: bool = False,
    ) -> str:
        """Keep the accumulators of a call; the store's SQL of its result."""
        name = aggregate_name(call)
        assert name is not None
        nodes = [n for n in [call.this, call.args.get("expression"), *(call.args.get("expressions") or [])] if n]
        if nodes and isinstance(nodes[0], exp.Distinct):
            nodes = list(nodes[0].expressions)
            name = f"{name}_distinct"
        if nodes and isinstance(nodes[0], exp.Star):
            nodes = [exp.Literal.number(1)]
        if name in ("first", "last") and ignore_nulls:
            name = f"{name}_non_null"
        builder = AGGREGATES.get(name)
        if builder is None:
            raise self._error("UNSUPPORTED_AGGREGATE", f"{at.sql('spark')} has no incremental form", at)
        for node in nodes:
            if any(aggregate_name(part) for part in node.walk()):
                raise self._error("NESTED_AGGREGATE", "an aggregate cannot hold another", at)
            self._check_columns(node, ())
        expected = 2 if name in ("min_by", "max_by") else 1
        if len(nodes) < expected or (len(nodes) > expected and not name.startswith("count")):
            raise self._error("BAD_ARGUMENTS", f"{name} takes {expected} argument(s)", at)
        filter_sql = None
        if filter_ is not None:
            self._check_columns(filter_, ())
            filter_sql = self._row_sql(filter_)
            self._check(filter_sql)
        arguments = []
        for node, (sql, type_) in zip(nodes, self._typed([self._row_sql(node) for node in nodes]), strict=True):
            if not _is_simple(node):
                if filter_sql is not None:
                    sql = f"IF(coalesce({filter_sql}, false), {sql}, NULL)"
                self._check(sql)
                # Inside the argument, because Spark may compute one that several aggregates share
                # before it looks at their FILTER clauses.
                sql = f"IF(__class = {USED}, {sql}, NULL)"
            arguments.append(Argument(sql, type_, _is_simple(node)))
        try:
            aggregate = builder(tuple(arguments))
        except MillstreamError as error:
            raise self._error(error.code, error.message, at, hint=error.hint) from None
        columns = tuple(self._keep(accumulator, filter_sql) for accumulator in aggregate.accumulators)
        return fill(aggregate.result, columns)

    def _check(self, sql: str) -> None:
        if sql not in self.checks:
            self.checks.append(sql)

    def _keep(self, accumulator: Accumulator, filter_: str | None) -> str:
        for kept in self.kept:
            if kept.accumulator == accumulator and kept.filter == filter_:
                return kept.column
        column = f"__a{len(self.kept)}"
        count = len(accumulator.partials)
        delta = (column,) if count == 1 else tuple(f"{column}_{i}" for i in range(count))
        self.kept.append(Kept(column, accumulator, delta, filter_))
        return column

    # -- time and triggers ---------------------------------------------------------------------

    def _windows_close(self) -> bool:
        return self.window is not None and self.window.time_column == self.stream.event_time

    def _lateness(self) -> int:
        return self.create.emit.lateness or 0

    def _trigger(self, emit: Emit, windowed: bool) -> Trigger:
        if emit.on_watermark and not (windowed and self._windows_close()):
            raise self._error(
                "EMIT_NEEDS_WINDOW",
                "EMIT ON WATERMARK needs windows that the watermark can close",
                self.create.query,
                detail=(
                    "the view has no window, so its groups have no end"
                    if not windowed
                    else f"the windows are on {self.window.time_column if self.window else ''}, "
                    "which is not the event time of the stream"
                ),
                hint="group by a window on the column named in WATERMARK FOR, or use EMIT ON EPOCH",
            )
        if emit.lateness is not None and not (windowed and self._windows_close()):
            raise self._error(
                "LATENESS_WITHOUT_WINDOW",
                "ALLOWED LATENESS has no meaning here: the rows of this view are never late",
                self.create.query,
                hint="leave it out",
            )
        late = emit.late
        if emit.on_watermark and late is None and emit.lateness:
            late = EveryEpoch()
        return Trigger(emit.repeatedly, emit.early, emit.on_watermark, late, emit.accumulation)

    # -- errors --------------------------------------------------------------------------------

    def _text(self) -> str:
        return self.create.position.text if self.create.position else ""

    def _source(self) -> str:
        return self.create.position.source if self.create.position else "<sql>"

    def _position(self, node: exp.Expr | None) -> Position | None:
        if node is None or self.create.position is None:
            return None
        return position_of(node, self._text(), self._source()) or self.create.position

    def _error(
        self,
        code: str,
        message: str,
        node: exp.Expr | None,
        *,
        detail: str | None = None,
        hint: str | None = None,
    ) -> MillstreamError:
        return MillstreamError(code, message, detail=detail, hint=hint, position=self._position(node))

    def _unsupported(self, what: str, node: exp.Expr) -> MillstreamError:
        return self._error(
            "NOT_SUPPORTED",
            f"{what} in a view are not supported yet",
            node,
            hint="a view reads one stream: select, filter, project, and aggregate with or without windows",
        )

    def _unknown_column(self, name: str, node: exp.Expr) -> MillstreamError:
        known = [*(n.lower() for n in self.stream.schema.names()), *(_WINDOW_COLUMNS if self.window else ())]
        return self._error(
            "UNKNOWN_COLUMN",
            f"{self.stream.name} has no column {name!r}",
            node,
            hint=did_you_mean(name, known),
        )


def _call(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.IgnoreNulls) else node


def _is_simple(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column | exp.Literal | exp.Star | exp.Null | exp.Boolean)


def _needs_quotes(name: str) -> bool:
    return not (name.isascii() and name.isidentifier()) or name.upper() in StreamSQL.Tokenizer.KEYWORDS


def _is_count_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Count) and isinstance(node.this, exp.Star | exp.Literal)


def _has_timestamp(type_: pa.DataType) -> bool:
    if pa.types.is_timestamp(type_):
        return True
    return any(_has_timestamp(type_.field(i).type) for i in range(type_.num_fields))


def _without_zone(type_: pa.DataType) -> str:
    return spark_type(type_).replace("TIMESTAMP", "TIMESTAMP_NTZ")
