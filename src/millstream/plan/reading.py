"""What a view's query reads: its stream, its window, its columns.

Owns names and rows. Every column is resolved to a column of the stream or a bound of the window;
expressions over one row become Spark SQL; what is refused is refused with its place in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from millstream.duck import is_condition
from millstream.model.errors import MillstreamError, Position, did_you_mean, place_of
from millstream.model.schema import Column, check_name, is_storable, spark_type, sql_type
from millstream.plan.aggregates import aggregate_name
from millstream.plan.nodes import Stream
from millstream.plan.refusals import NotIncrementalError
from millstream.plan.windows import AnyWindow, CountWindow, SessionWindow, SlideWindow, Window
from millstream.sql import WindowCall, position_of, read_window_call, spark_sql
from millstream.sql.dialect import StreamSQL
from millstream.sql.statements import CreateView

Typer = Callable[[Stream, Sequence[str]], list[pa.DataType]]
StreamLookup = Callable[[str], Stream | None]
Outputs = list[tuple[str, exp.Expr]]
"""The select list: names and expressions."""

WINDOW_COLUMNS = ("window_start", "window_end")
_NOT_YET: dict[type[exp.Expr], str] = {
    exp.Window: "window functions",
    exp.Subquery: "subqueries",
    exp.Select: "subqueries",
}


def default_name(item: exp.Expr) -> str:
    """The name of a column that was given none: that of a column, or the expression as one would write it.

    >>> from sqlglot import parse_one
    >>> default_name(parse_one("COUNT(*)")), default_name(parse_one("max(Price + 1)"))
    ('count(*)', 'max(Price + 1)')
    """
    return item.output_name or item.sql("spark", normalize_functions="lower")


_TEXTS = (exp.DType.TEXT, exp.DType.VARCHAR, exp.DType.CHAR)


@dataclass
class Reading:
    """A query over one stream, read as far as views of rows and views of groups have in common."""

    create: CreateView
    streams: StreamLookup
    typer: Typer
    select: exp.Select = field(init=False)
    stream: Stream = field(init=False)
    window: AnyWindow | None = field(init=False, default=None)
    checks: list[str] = field(init=False, default_factory=list)
    """Row-level expressions that may fail, the filter first, if there is one."""

    def __post_init__(self) -> None:
        self.select = self._single_select()
        self._read_from(self.select)

    def _single_select(self) -> exp.Select:
        query = self.create.query
        if not isinstance(query, exp.Select):
            raise self.unsupported("set operations", query)
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
                raise self.unsupported(words, query)
        for node in query.find_all(exp.Subquery, exp.Window, exp.Select, exp.UDTF, exp.Explode, exp.Posexplode):
            if node is not query:
                raise self.unsupported(_NOT_YET.get(type(node), "functions that return several rows"), node)
        return query

    def _read_from(self, select: exp.Select) -> None:
        source = select.args.get("from_") or select.args.get("from")
        table = source.this if source is not None else None
        if not isinstance(table, exp.Table):
            raise self.error("NO_SOURCE", "the query reads from no stream", select, hint="add FROM <stream>")
        call = read_window_call(table, self._text(), self._source())
        name = call.source if call else table.name
        stream = self.streams(name)
        if stream is None:
            raise self.error("UNKNOWN_STREAM", f"there is no stream {name!r}", table, hint="see SHOW STREAMS")
        self.stream = stream
        alias = (call.alias if call else table.alias) or name
        self._resolve_columns(select, {alias.lower(), name.lower(), stream.name.lower()})
        if call is None:
            return
        self.window = self._window(call, table)

    def _window(self, call: WindowCall, table: exp.Table) -> AnyWindow:
        keys = tuple(self._declared(name, table).name for name in call.partition_by)
        if call.kind == "count":
            return CountWindow(call.size, call.slide, keys)
        time_column = None
        if not call.on_clock:
            column = self._declared(call.time_column or "", table)
            if not pa.types.is_timestamp(column.type):
                raise self.error(
                    "TYPE_MISMATCH",
                    f"a window needs a TIMESTAMP, but {column.name} is {spark_type(column.type)}",
                    table,
                )
            time_column = column.name
        match call.kind:
            case "session":
                return SessionWindow(time_column, call.size, keys)
            case "slide":
                return SlideWindow(time_column, call.size, keys)
        window = Window(time_column, call.size, call.slide, call.offset)
        if window.on_clock and window.has_gaps:
            raise self.error(
                "BAD_WINDOW",
                "HOP on processing time needs a slide that is not longer than the size",
                table,
                detail="there would be instants without a window, and rows that arrive then would vanish",
            )
        return window

    def _declared(self, name: str, node: exp.Expr) -> Column:
        column = self.stream.schema.find(name)
        if column is None:
            unknown = self._unknown_column(name, node)
            raise unknown.moved(place_of(name, unknown.position))
        return column

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
                    raise self.error("UNKNOWN_RELATION", f"{column.table!r} is not read by this query", column)
            declared = self.stream.schema.find(column.name)
            name = declared.name if declared else column.name.lower()
            if isinstance(column.this, exp.Identifier) and (declared or name in WINDOW_COLUMNS):
                column.this.set("this", name)
                column.this.set("quoted", _needs_quotes(name))

    def outputs(self) -> Outputs:
        """The select list, with stars spelled out."""
        select = self.select
        aliases = {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)}
        outputs: Outputs = []
        for item in select.expressions:
            if isinstance(item, exp.Column) and isinstance(item.this, exp.Star) and item.table:
                outputs.extend(self._fields(item))
            elif isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
                names = self.stream.schema.names() + (WINDOW_COLUMNS if self.window else ())
                left_out = self._left_out(item, names)
                outputs.extend((n, exp.column(n, quoted=True)) for n in names if n.lower() not in left_out)
            elif isinstance(item, exp.Alias):
                outputs.append((item.alias, self._with_earlier(item.this, outputs)))
            else:
                outputs.append((default_name(item), self._with_earlier(item, outputs)))
        seen: set[str] = set()
        for name, node in outputs:
            if name.lower() in seen:
                raise self.error(
                    "DUPLICATE_COLUMN",
                    f"the view has two columns called {name!r}",
                    node,
                    hint="name one with AS",
                )
            try:
                check_name(name)
            except MillstreamError as error:
                raise error.moved(self.position(node), hint="name it with AS") from None
            seen.add(name.lower())
            self.check_columns(node, ())
        group = select.args.get("group")
        for node in group.expressions if group else ():
            self.check_columns(node, aliases)
        return outputs

    def _fields(self, star: exp.Column) -> Outputs:
        """The fields of a struct, of which `column.*` selects all."""
        column = self._declared(star.table, star)
        if not pa.types.is_struct(column.type):
            raise self.error("TYPE_MISMATCH", f"{column.name} is {sql_type(column.type)} and has no fields", star)
        names = [column.type.field(index).name for index in range(column.type.num_fields)]
        return [(name, exp.column(name, table=column.name, quoted=True)) for name in names]

    def _with_earlier(self, node: exp.Expr, earlier: Outputs) -> exp.Expr:
        """An item of the select list may use the names of those before it, where the stream has no such column."""
        values = {name.lower(): value for name, value in earlier}
        bound = {parameter.name.lower() for lambda_ in node.find_all(exp.Lambda) for parameter in lambda_.expressions}

        def replace(part: exp.Expr) -> exp.Expr:
            name = part.name.lower()
            if not isinstance(part, exp.Column) or part.table or name in bound or name not in values:
                return part
            is_own = self.stream.schema.find(name) is not None or self.is_window_column(part)
            return part if is_own else exp.paren(values[name].copy())

        return node.transform(replace)

    def _left_out(self, star: exp.Expr, names: Sequence[str]) -> set[str]:
        """The columns that `* EXCEPT (…)` names."""
        node = star if isinstance(star, exp.Star) else star.this
        found = node.args.get("except_") or []
        known = {name.lower() for name in names}
        for column in found:
            if column.name.lower() not in known:
                raise self._unknown_column(column.name, column)
        return {column.name.lower() for column in found}

    def check_columns(self, node: exp.Expr, also: Sequence[str] | set[str]) -> None:
        bound = {parameter.name.lower() for lambda_ in node.find_all(exp.Lambda) for parameter in lambda_.expressions}
        for column in node.find_all(exp.Column):
            name = (column.table or column.name).lower()
            window_column = self.window is not None and name in WINDOW_COLUMNS
            if not (window_column or name in also or name in bound or self.stream.schema.find(name)):
                raise self._unknown_column(name, column)

    def filter(self, node: exp.Expr) -> str:
        if any(aggregate_name(part) for part in node.walk()):
            raise self.error("AGGREGATE_IN_WHERE", "WHERE cannot hold an aggregate", node, hint="use HAVING")
        sql = self.condition(node)
        self.checks.append(sql)
        return sql

    def condition(self, node: exp.Expr) -> str:
        """Spark SQL of a condition on one row. Spark is asked for its type only if it does not look like one."""
        self.check_columns(node, ())
        sql = self.row_sql(node)
        if not is_condition(node):
            (type_,) = self.typer(self.stream, [sql])
            if not pa.types.is_boolean(type_):
                raise self.error(
                    "TYPE_MISMATCH",
                    f"a condition is BOOLEAN, but {node.sql('spark')} is {sql_type(type_)}",
                    node,
                    hint="compare it with a value",
                )
        return sql

    def row_sql(self, node: exp.Expr) -> str:
        """Spark SQL of an expression over one row; window bounds become arithmetic on its pane."""
        copy = node.copy()
        for column in list(copy.find_all(exp.Column)):
            if column.name.lower() in WINDOW_COLUMNS and self.window is not None:
                if not (isinstance(self.window, Window) and self.window.is_tumbling and not self.window.on_clock):
                    raise self.error(
                        "WINDOW_NOT_GROUPED",
                        f"{column.name} has no value for a single row, but with TUMBLE on a column",
                        node,
                        hint="use it in GROUP BY, in the select list or in HAVING",
                    )
                pane = self.window.pane_sql("__wt")
                shift = f" + {self.window.size}L" if column.name.lower() == "window_end" else ""
                bound = exp.Anonymous(this="timestamp_micros", expressions=[exp.Var(this=f"({pane}{shift})")])
                if column is copy:
                    return bound.sql("spark")
                column.replace(bound)
        return spark_sql(self._with_valid_texts(copy))

    def _with_valid_texts(self, node: exp.Expr) -> exp.Expr:
        """The expression, in which bytes that become a text are checked: Spark takes any, the store only UTF-8."""
        for cast in list(node.find_all(exp.Cast)):
            if isinstance(cast, exp.TryCast) or cast.to.this not in _TEXTS or not self._may_be_bytes(cast.this):
                continue
            (type_,) = self.typer(self.stream, [spark_sql(cast.this)])
            if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
                checked = exp.Anonymous(this="validate_utf8", expressions=[cast.copy()])
                if cast is node:
                    return checked
                cast.replace(checked)
        return node

    def _may_be_bytes(self, node: exp.Expr) -> bool:
        columns = [self.stream.schema.find(column.name) for column in node.find_all(exp.Column)]
        binary = any(column is not None and pa.types.is_binary(column.type) for column in columns)
        return binary or node.find(exp.Unhex, exp.FromBase64, exp.Encode) is not None

    def typed(self, sqls: Sequence[str]) -> list[tuple[str, pa.DataType]]:
        """Expressions with their types; instants leave Spark without a zone."""
        types = self.typer(self.stream, sqls)
        for sql, type_ in zip(sqls, types, strict=True):
            if not is_storable(type_):
                raise self.error(
                    "TYPE_NOT_SUPPORTED",
                    f"{sql} is of a type that cannot be stored: {type_}",
                    self.select,
                    detail="a column is of one of the types that CREATE STREAM knows",
                    hint="an interval between two times is a number with datediff or unix_micros",
                )
        return [
            (f"CAST({sql} AS STRING)", pa.string())
            if pa.types.is_null(type_)
            else (f"CAST({sql} AS {_without_zone(type_)})" if _has_timestamp(type_) else sql, type_)
            for sql, type_ in zip(sqls, types, strict=True)
        ]

    def check(self, sql: str) -> None:
        if sql not in self.checks:
            self.checks.append(sql)

    def windows_close(self) -> bool:
        """Whether the watermark of the stream, or the clock, closes the windows."""
        if self.window is None or isinstance(self.window, CountWindow):
            return False
        return self.window.on_clock or self.window.time_column == self.stream.event_time

    def is_window_column(self, node: exp.Expr) -> bool:
        return (
            self.window is not None
            and isinstance(node, exp.Column)
            and node.name.lower() in WINDOW_COLUMNS
            and not node.table
        )

    def _text(self) -> str:
        return self.create.position.text if self.create.position else ""

    def _source(self) -> str:
        return self.create.position.source if self.create.position else "<sql>"

    def position(self, node: exp.Expr | None) -> Position | None:
        if node is None or self.create.position is None:
            return None
        return position_of(node, self._text(), self._source()) or self.create.position

    def error(
        self,
        code: str,
        message: str,
        node: exp.Expr | None,
        *,
        detail: str | None = None,
        hint: str | None = None,
        kind: type[MillstreamError] = MillstreamError,
    ) -> MillstreamError:
        return kind(code, message, detail=detail, hint=hint, position=self.position(node))

    def unsupported(self, what: str, node: exp.Expr) -> MillstreamError:
        return self.error(
            "NOT_SUPPORTED",
            f"{what} in a view are not supported yet",
            node,
            hint="a view reads one stream: select, filter, project, and aggregate with or without windows",
            kind=NotIncrementalError,
        )

    def _unknown_column(self, name: str, node: exp.Expr) -> MillstreamError:
        known = [*(n.lower() for n in self.stream.schema.names()), *(WINDOW_COLUMNS if self.window else ())]
        return self.error(
            "UNKNOWN_COLUMN",
            f"{self.stream.name} has no column {name!r}",
            node,
            hint=did_you_mean(name, known),
        )


def is_simple(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column | exp.Literal | exp.Star | exp.Null | exp.Boolean)


def _needs_quotes(name: str) -> bool:
    return not (name.isascii() and name.isidentifier()) or name.upper() in StreamSQL.Tokenizer.KEYWORDS


def _has_timestamp(type_: pa.DataType) -> bool:
    if pa.types.is_timestamp(type_):
        return True
    return any(_has_timestamp(type_.field(i).type) for i in range(type_.num_fields))


def _without_zone(type_: pa.DataType) -> str:
    return spark_type(type_).replace("TIMESTAMP", "TIMESTAMP_NTZ")
