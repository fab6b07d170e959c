"""The delta of a view in DuckDB's SQL, where that provably means what Spark's does.

The counterpart of `spark.delta`: the same columns, over rows that are decoded and not dead. What is
refused, with the reason in words, is left to Spark: functions of users and sketches, arithmetic of
which the engines make different types, keys that they compare differently. What can fail on a row
fails in both: DuckDB is then kept from skipping rows that Spark would have asked, and whoever runs
the query lets Spark find the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import duckdb
import pyarrow as pa
from sqlglot import exp, parse_one

from millstream.kernel.agreement import NotNativeError, check_agreement
from millstream.model.errors import MillstreamError
from millstream.model.schema import store_type
from millstream.plan.aggregates import FILTER
from millstream.plan.nodes import USED, AggregateView, AppendView, Kept, Stream, Top, View, fill
from millstream.plan.windows import CountWindow, SessionWindow, SlideWindow, Window
from millstream.sql import quote, store_sql
from millstream.sql.dialect import StreamSQL

ROWS = "__rows"
"""The relation of a task's rows: the stream's columns, `__p`, `__o`, `__pt` and `__et`."""

_PANE = "__pane_of_row"
_CONDITION = "__f"
_CLAUSE = f"FILTER(WHERE {_CONDITION})"
# What cannot fail on any row, nor hide that something in it does.
_SAFE = (
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Null,
    exp.Boolean,
    exp.Paren,
    exp.And,
    exp.Or,
    exp.Not,
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.NullSafeEQ,
    exp.Is,
    exp.In,
    exp.Between,
    exp.Coalesce,
    exp.Lower,
    exp.Upper,
    exp.StartsWith,
    exp.EndsWith,
    exp.Contains,
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter. A careful one is asked of every row before anything else is."""

    sql: str
    careful: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class NativeView:
    """The parts of a delta query over `__rows`; each output is cast to the type that Spark gives it.

    Made once for a view, and known by itself.
    """

    name: str
    keys: tuple[tuple[str, str], ...]
    """(column of the delta, SQL)"""
    outputs: tuple[tuple[str, str], ...]
    """Partials of a view of groups, with `⟨filter⟩` behind each aggregate; columns of a view of rows."""
    condition: Condition | None
    schema: pa.Schema
    combines: tuple[tuple[str, str], ...] | None
    """How the partials of several tasks become one, or None for a view of rows."""
    top: Top | None = None
    """Of a view of rows: which of them can matter at all."""

    @property
    def is_grouped(self) -> bool:
        return self.combines is not None


def native_view(view: View, stream: Stream, schema: pa.Schema, connection: duckdb.DuckDBPyConnection) -> NativeView:
    """A view for the kernel; `schema` is that of its delta as Spark has it. Raises `NotNativeError`."""
    if stream.is_ordered:
        raise NotNativeError("the order of rows matters to the stream")
    if isinstance(view.window, CountWindow):
        raise NotNativeError("rows of count windows are numbered by Spark")
    compiler = _Compiler(view, stream)
    compiled = compiler.grouped(view, schema) if isinstance(view, AggregateView) else compiler.rows(view, schema)
    _check_binding(compiled, stream, connection)
    return compiled


def late_sql(view: View, stream: Stream, before: int) -> str | None:
    """The used rows of a view that were late when the watermark was at `before`, whole, for the letters.

    None where one row does not tell: a session is late with all rows of its stretch, wherever they are.
    """
    compiler = _Compiler(view, stream)
    horizon = None if isinstance(view, AggregateView) else view.horizon
    cutoff = str(before - view.lateness)
    match view.window:
        case _ if horizon is not None and horizon.late_after is not None:
            late = f"__et + {horizon.late_after} <= {before}"
        case Window():
            late = view.window.is_late_sql(compiler.pane(), cutoff)
        case SlideWindow():
            late = f"{compiler.instant} + 1 <= {cutoff}"
        case _:
            return None
    source, where = rows_of(compiler.condition())
    own = ", ".join(quote(name) for name in stream.schema.names())
    both = f"{where} AND {late}" if where else f" WHERE {late}"
    return f"SELECT {own}, __p, __o, __raw, 'late' AS __reason FROM {source}{both}"


@dataclass(frozen=True, slots=True)
class _Compiler:
    """The expressions of one view."""

    view: View
    stream: Stream

    def grouped(self, view: AggregateView, schema: pa.Schema) -> NativeView:
        keys = []
        for index, key in enumerate(view.keys):
            type_ = schema.field(f"__k{index}").type
            if pa.types.is_floating(type_) or pa.types.is_nested(type_):
                raise NotNativeError(f"groups by a {store_type(type_)}")
            keys.append((f"__k{index}", self.translated(key.sql)))
        if view.window is not None:
            keys.append(("__pane", self.pane()))
        outputs = [("__rows", f"count(*){FILTER}")]
        combines = [("__rows", "CAST(sum(__rows) AS BIGINT)")]
        if isinstance(view.window, SessionWindow):
            outputs += [("__first", f"min({self.instant}){FILTER}"), ("__last", f"max({self.instant}){FILTER}")]
            combines += [("__first", "min(__first)"), ("__last", "max(__last)")]
        for kept in view.kept:
            for column, sql in zip(kept.delta_columns, self._partials(kept), strict=True):
                outputs.append((column, sql))
                combine = "sum({x})" if len(kept.delta_columns) > 1 else kept.accumulator.combine
                combines.append((column, combine.replace("{x}", column)))
        types = pa.schema([schema.field(name) for name, _ in (*keys, *outputs)])
        return NativeView(view.name, tuple(keys), tuple(outputs), self.condition(), types, tuple(combines))

    def rows(self, view: AppendView, schema: pa.Schema) -> NativeView:
        outputs = [(name, self.translated(sql)) for name, sql in view.columns]
        if view.window is not None:
            outputs.append(("__pane", self.pane()))
        outputs.append(("__t", "__et"))
        types = pa.schema([schema.field(name) for name, _ in outputs])
        # Which rows are late is not known yet, and one that is must not push out another.
        top = view.top if view.horizon is None and view.window is None else None
        return NativeView(view.name, (), tuple(outputs), self.condition(), types, None, top)

    def _partials(self, kept: Kept) -> list[str]:
        """The partials of an accumulator, in which `⟨filter⟩` stands for the filter of the view."""
        accumulator = kept.accumulator
        if accumulator.native:
            arguments = tuple(self.translated(argument) for argument in accumulator.arguments)
            texts = [fill(template, arguments) for template in accumulator.native]
        else:
            texts = [
                self.translated(partial.replace(FILTER, f" {_CLAUSE}")).replace(f" {_CLAUSE}", FILTER)
                for partial in accumulator.partials
            ]
        if kept.filter is None:
            return texts
        node = parsed(kept.filter)
        if not is_safe(node) and node.find(exp.And, exp.Or):
            raise NotNativeError(f"FILTER (WHERE {kept.filter}) may fail on a row")
        return [text.replace(FILTER, f"⟨and⟩({self.translated(kept.filter)})") for text in texts]

    def condition(self) -> Condition | None:
        """Which rows are used."""
        filter_, window = self.view.filter, self.view.window
        conditions = [f"({self.translated(filter_)})"] if filter_ is not None else []
        # Rows without an event time are dead already.
        if window is not None and not window.on_clock and not self.view.windows_close:
            conditions.append(f"{self.instant} IS NOT NULL")
        if isinstance(window, Window) and window.has_gaps:
            conditions.append(f"{_remainder(self.instant, window.offset, window.slide)} < {window.size}")
        if not conditions:
            return None
        node = parsed(filter_) if filter_ is not None else exp.true()
        has_branches = len(conditions) > 1 or node.find(exp.And, exp.Or) is not None
        return Condition(" AND ".join(conditions), careful=has_branches and not is_safe(node))

    @property
    def instant(self) -> str:
        """The instant that decides about a row's window."""
        window = self.view.window
        assert window is not None
        assert not isinstance(window, CountWindow)
        if window.on_clock:
            return "__pt"
        return "__et" if self.view.windows_close else f"epoch_us({quote(window.time_column or '')})"

    def pane(self) -> str:
        match self.view.window:
            case Window(offset=offset) as window:
                return f"({self.instant} - {_remainder(self.instant, offset, window.pane_size)})"
            case SessionWindow(gap=gap):
                return f"({self.instant} - {_remainder(self.instant, 0, gap)})"
        return self.instant

    def translated(self, sql: str) -> str:
        """Spark SQL of an expression as the store's; the bounds of the row's window follow from its pane."""
        if isinstance(self.view.window, Window):
            sql = sql.replace(self.view.window.pane_sql("__wt"), _PANE)
        node = parsed(sql)
        check_agreement(node, self.stream.schema)
        try:
            text = store_sql(node)
        except MillstreamError as error:
            raise NotNativeError(error.message) from None
        return text.replace(_PANE, self.pane()) if _PANE in text else text


def _remainder(instant: str, offset: int, size: int) -> str:
    shifted = f"({instant} - {offset})" if offset else instant
    return f"(({shifted} % {size} + {size}) % {size})"


def filtered(text: str, condition: str | None) -> str:
    """An output with the filter of the view in place.

    >>> filtered("sum(x)⟨filter⟩", "y > 1")
    'sum(x) FILTER (WHERE y > 1)'
    >>> filtered("sum(x)⟨and⟩(z)", "y > 1")
    'sum(x) FILTER (WHERE (y > 1) AND (z))'
    """
    text = text.replace(FILTER, f" FILTER (WHERE {condition})" if condition else "")
    # The own condition of an aggregate, up to its closing parenthesis.
    while (start := text.find("⟨and⟩")) >= 0:
        end = _closing(text, start + len("⟨and⟩"))
        own = text[start + len("⟨and⟩") : end]
        both = f"({condition}) AND {own}" if condition else own
        text = f"{text[:start]} FILTER (WHERE {both}){text[end:]}"
    return text


def _closing(text: str, start: int) -> int:
    """Where the parenthesis that opens at `start` has closed; what is quoted does not count."""
    depth, quote = 0, ""
    for index in range(start, len(text)):
        character = text[index]
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "()":
            depth += 1 if character == "(" else -1
            if depth == 0:
                return index + 1
    raise AssertionError(text)


# -- translation -------------------------------------------------------------------------------


@cache
def parsed(sql: str) -> exp.Expr:
    """An expression of a plan. In the kernel all rows are used ones."""
    node: exp.Expr = parse_one(f"SELECT {sql}", dialect=StreamSQL).expressions[0].unalias().transform(_without_class)
    return node


def _without_class(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.If) and node.this.sql() == f"__class = {USED}":
        taken: exp.Expr = node.args["true"]
        return taken
    return node


def is_safe(node: exp.Expr) -> bool:
    """Whether an expression cannot fail on a row.

    >>> is_safe(parsed("a > 3 AND b IS NULL")), is_safe(parsed("a + 1 > 3"))
    (True, False)
    """
    return all(isinstance(part, _SAFE) or _is_safe_call(part) for part in node.walk())


def _is_safe_call(node: exp.Expr) -> bool:
    if isinstance(node, exp.Mod):
        return (
            isinstance(node.expression, exp.Literal)
            and node.expression.name.isdigit()
            and int(node.expression.name) > 0
        )
    return isinstance(node, exp.Like | exp.RegexpLike) and isinstance(node.expression, exp.Literal)


# -- binding -----------------------------------------------------------------------------------


def select_sql(view: NativeView) -> str:
    """The delta query of one view."""
    source, where = rows_of(view.condition)
    keys = [f"{sql} AS {quote(name)}" for name, sql in view.keys]
    outputs = [f"{filtered(sql, None)} AS {quote(name)}" for name, sql in view.outputs]
    group = f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys and view.is_grouped else ""
    # Without keys a group exists even for no rows, and is none of Spark's.
    having = " HAVING count(*) > 0" if view.is_grouped and not keys else ""
    sql = f"SELECT {', '.join([*keys, *outputs])} FROM {source}{where}{group}{having}"
    if view.top is None:
        return sql
    partition = ", ".join(quote(name) for name in view.top.partition)
    by = f"PARTITION BY {partition} " if partition else ""
    return f"SELECT * FROM ({sql}) QUALIFY {view.top.rank} OVER ({by}{view.top.order}) <= {view.top.count}"


def count_sql(view: NativeView) -> str:
    """How many rows a view uses."""
    source, where = rows_of(view.condition)
    return f"SELECT count(*) FROM {source}{where}"


def rows_of(condition: Condition | None) -> tuple[str, str]:
    """The rows that meet a condition: FROM what, WHERE what."""
    if condition is None:
        return ROWS, ""
    if not condition.careful:
        return ROWS, f" WHERE {condition.sql}"
    # Across a LIMIT no filter is pushed down, so that all rows are asked all of it.
    return f"(SELECT *, ({condition.sql}) AS __keep FROM {ROWS} LIMIT {2**63 - 1})", " WHERE __keep"


def cast_sql(view: NativeView, source: str, where: str = "", names: dict[str, str] | None = None) -> str:
    """The outputs of a query in the types of the delta."""
    columns = []
    for field in view.schema:
        found = (names or {}).get(field.name, field.name)
        columns.append(f"CAST({quote(found)} AS {store_type(field.type)}) AS {quote(field.name)}")
    return f"SELECT {', '.join(columns)} FROM {source}{where}"


def combine_sql(view: NativeView, source: str) -> str:
    """One row per group from the deltas of several tasks."""
    assert view.combines is not None
    keys = [quote(name) for name, _ in view.keys]
    outputs = [f"{sql} AS {quote(name)}" for name, sql in view.combines]
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    return cast_sql(view, f"(SELECT {', '.join([*keys, *outputs])} FROM {source}{group})")


def _check_binding(view: NativeView, stream: Stream, connection: duckdb.DuckDBPyConnection) -> None:
    """Refuse what DuckDB does not understand, before any row is there."""
    connection.register(ROWS, rows_schema(stream).empty_table())
    try:
        connection.sql(cast_sql(view, f"({select_sql(view)})")).to_arrow_table()
    except duckdb.Error as error:
        raise NotNativeError(f"DuckDB: {str(error).splitlines()[0]}") from None
    finally:
        connection.unregister(ROWS)


def rows_schema(stream: Stream) -> pa.Schema:
    """The columns of `__rows`."""
    own = list(stream.schema.to_arrow())
    place = [("__p", pa.int32()), ("__o", pa.int64()), ("__pt", pa.int64()), ("__et", pa.int64())]
    return pa.schema([*own, *(pa.field(name, type_) for name, type_ in place)])
