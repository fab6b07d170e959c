"""The delta of a view in DuckDB's SQL, where that provably means what Spark's does.

The counterpart of `spark.delta`: the same columns, over rows that are decoded and not dead. What is
refused, with the reason in words, is left to Spark: functions of users and sketches, arithmetic of
which the engines make different types, keys that they compare differently. What can fail on a row
fails in both: DuckDB is then kept from skipping rows that Spark would have asked, and whoever runs
the query lets Spark find the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
from sqlglot import exp, parse_one

from millstream.duck import quote, store_sql
from millstream.kernel.agreement import NotNativeError, check_agreement, kind_of
from millstream.model.errors import MillstreamError
from millstream.model.schema import store_type
from millstream.plan.aggregates import FILTER
from millstream.plan.nodes import USED, AggregateView, AppendView, Kept, Stream, Top, View, fill
from millstream.plan.windows import CountWindow, SessionWindow, SlideWindow, Window, remainder_sql
from millstream.sql.dialect import StreamSQL

ROWS = "__rows"
"""The relation of a task's rows: the stream's columns, `__p`, `__o`, `__pt` and `__et`; `NUMBER` if a view asks."""
NUMBER = "__n"
"""The number of a row among those of its epoch: rows of a file share their place, and this keeps them apart."""
NO_PUSHING = f"LIMIT {2**63 - 1}"
"""Behind a subquery: across a LIMIT no filter is pushed down, and no expression put in place of its name."""

_PANE = "__pane_of_row"
_MOST_EXACT = 2**24
"""Up to here every integer is one for a FLOAT, too."""
# By which rows of a count window are ordered, and the columns of the delta that have it.
_PLACE_OF_ROW = (("__t", "__et"), ("__p", "__p"), ("__o", "__o"))
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
    equals: tuple[Equality, ...] = ()
    """Terms that must hold for it to hold."""


@dataclass(frozen=True, slots=True)
class Equality:
    """A term `sql = value` of a filter, and the others as one. Of two values of a `sql` a row has at most one."""

    sql: str
    value: str
    rest: str | None


@dataclass(frozen=True, slots=True)
class Output:
    """A column of a delta."""

    name: str
    sql: str
    combine: str | None = None
    """How several partials become one, `{x}` being the column; None for a column of rows."""


@dataclass(frozen=True, slots=True, eq=False)
class NativeView:
    """The parts of a delta query over `__rows`; each output is cast to the type that Spark gives it.

    Made once for a view, and known by itself.
    """

    name: str
    keys: tuple[tuple[str, str], ...]
    """(column of the delta, SQL)"""
    outputs: tuple[Output, ...]
    """Partials of a view of groups; columns of a view of rows."""
    condition: Condition | None
    schema: pa.Schema
    is_grouped: bool
    guarded: bool = False
    """Whether what is grouped or aggregated may fail on rows that the filter leaves out."""
    top: Top | None = None
    """Of a view of rows: which of them can matter at all."""


def native_view(view: View, stream: Stream, schema: pa.Schema) -> NativeView:
    """A view for the kernel; `schema` is that of its delta as Spark has it. Raises `NotNativeError`."""
    if stream.is_ordered:
        raise NotNativeError("the order of rows matters to the stream")
    compiler = _Compiler(view, stream)
    return compiler.grouped(view, schema) if isinstance(view, AggregateView) else compiler.rows(view, schema)


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
        # As an aggregate of the view would count them, so that it is done once.
        outputs = [Output("__rows", self.translated("count(1)"), "sum({x})")]
        if isinstance(view.window, SessionWindow):
            outputs.append(Output("__first", f"min({self.instant})", "min({x})"))
            outputs.append(Output("__last", f"max({self.instant})", "max({x})"))
        if isinstance(view.window, CountWindow):
            # Each row is a group of its own.
            outputs += [Output(name, f"min({column})", "min({x})") for name, column in _PLACE_OF_ROW]
        for kept in view.kept:
            combine = "sum({x})" if len(kept.delta_columns) > 1 else kept.accumulator.combine
            outputs += [
                Output(column, sql, combine)
                for column, sql in zip(kept.delta_columns, self._partials(kept), strict=True)
            ]
        types = pa.schema([schema.field(name) for name in (*(name for name, _ in keys), *(o.name for o in outputs))])
        accumulators = [kept.accumulator for kept in view.kept]
        asked = [key.sql for key in view.keys] + [sql for a in accumulators for sql in a.arguments or a.partials]
        guarded = any(may_fail(parsed(sql.replace(FILTER, ""))) for sql in asked)
        return NativeView(view.name, tuple(keys), tuple(outputs), self.condition(), types, True, guarded)

    def rows(self, view: AppendView, schema: pa.Schema) -> NativeView:
        outputs = [Output(name, self.translated(sql)) for name, sql in view.columns]
        if view.window is not None:
            outputs.append(Output("__pane", self.pane()))
        outputs.append(Output("__t", "__et"))
        types = pa.schema([schema.field(output.name) for output in outputs])
        # Which rows are late is not known yet, and one that is must not push out another.
        top = view.top if view.horizon is None and view.window is None else None
        return NativeView(view.name, (), tuple(outputs), self.condition(), types, False, top=top)

    def _partials(self, kept: Kept) -> list[str]:
        """The partials of an accumulator, with the FILTER of the aggregate."""
        accumulator, own, clause = kept.accumulator, "", ""
        if kept.filter is not None:
            node = parsed(kept.filter)
            if not is_safe(node) and node.find(exp.And, exp.Or):
                raise NotNativeError(f"FILTER (WHERE {kept.filter}) may fail on a row")
            own = f" FILTER (WHERE {kept.filter})"
            clause = f" FILTER (WHERE {self.translated(kept.filter)})"
        if accumulator.native:
            arguments = tuple(self.translated(argument) for argument in accumulator.arguments)
            return [fill(template.replace(FILTER, clause), arguments) for template in accumulator.native]
        return [self.translated(partial.replace(FILTER, own)) for partial in accumulator.partials]

    def condition(self) -> Condition | None:
        """Which rows are used."""
        filter_, window = self.view.filter, self.view.window
        conditions = [f"({self.translated(filter_)})"] if filter_ is not None else []
        # Rows without an event time are dead already.
        untimed = window is None or window.on_clock or isinstance(window, CountWindow)
        if not untimed and not self.view.windows_close:
            conditions.append(f"{self.instant} IS NOT NULL")
        if isinstance(window, Window) and window.has_gaps:
            conditions.append(f"{remainder_sql(self.instant, window.offset, window.slide)} < {window.size}")
        if not conditions:
            return None
        node = parsed(filter_) if filter_ is not None else exp.true()
        has_branches = len(conditions) > 1 or node.find(exp.And, exp.Or) is not None
        sql, careful = " AND ".join(conditions), has_branches and not is_safe(node)
        return Condition(sql, careful, () if careful else self._equalities(node, conditions[1:]))

    def _equalities(self, node: exp.Expr, also: list[str]) -> tuple[Equality, ...]:
        """Terms of a filter that compare something with a constant."""
        terms, found = list(node.unnest().flatten()) if isinstance(node.unnest(), exp.And) else [node.unnest()], []
        for place, term in enumerate(terms):
            bare = term.unnest()
            if isinstance(bare, exp.EQ) and self._is_exact(bare.this, bare.expression):
                others = [f"({self.translated(other.sql(StreamSQL))})" for other in terms[:place] + terms[place + 1 :]]
                operand, value = (self.translated(side.sql(StreamSQL)) for side in (bare.this, bare.expression))
                found.append(Equality(operand, value, " AND ".join([*others, *also]) or None))
        return tuple(found)

    def _is_exact(self, operand: exp.Expr, value: exp.Expr) -> bool:
        """Whether two different constants of this kind cannot both equal one operand."""
        if not isinstance(value, exp.Literal):
            return False
        if not value.is_string:
            exact = kind_of(self.stream.schema, operand.unnest()) in ("integer", "decimal")
            is_plain = value.name.isdigit() and value.name == str(int(value.name))
            return is_plain and (exact or int(value.name) <= _MOST_EXACT)
        column = self.stream.schema.find(operand.name) if isinstance(operand, exp.Column) else None
        return column is not None and pa.types.is_string(column.type)

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
            case Window() as window:
                return window.pane_in_store(self.instant)
            case SessionWindow(gap=gap):
                return f"({self.instant} - {remainder_sql(self.instant, 0, gap)})"
            case CountWindow():
                return NUMBER
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
    if isinstance(node, exp.Anonymous) and node.name.lower() == "validate_utf8":
        # DuckDB makes no text of other bytes.
        (text,) = node.expressions
        assert isinstance(text, exp.Expr)
        return text
    return node


def is_safe(node: exp.Expr) -> bool:
    """Whether an expression cannot fail on a row.

    >>> is_safe(parsed("a > 3 AND b IS NULL")), is_safe(parsed("a + 1 > 3"))
    (True, False)
    """
    return all(isinstance(part, _SAFE) or _is_safe_call(part) for part in node.walk())


def may_fail(node: exp.Expr) -> bool:
    """Whether an expression fails on rows that a filter is likely to leave out: a matter of speed alone.

    >>> may_fail(parsed("sum(a + 1)")), may_fail(parsed("sum(a / b)"))
    (False, True)
    """
    doubtful = (exp.Div, exp.IntDiv, exp.Mod, exp.Cast, exp.Bracket, exp.Anonymous)
    return any(
        isinstance(part, doubtful)
        and not _is_safe_call(part)
        and not (isinstance(part, exp.Cast) and part.is_type(exp.DType.DOUBLE))
        for part in node.walk()
    )


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
    """The rows of a view of rows."""
    source, where = rows_of(view.condition)
    outputs = ", ".join(f"{output.sql} AS {quote(output.name)}" for output in view.outputs)
    sql = f"SELECT {outputs} FROM {source}{where}"
    return sql if view.top is None else f"SELECT * FROM ({sql}) QUALIFY {view.top.ranked()} <= {view.top.count}"


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
    # All rows are asked all of it.
    return f"(SELECT *, ({condition.sql}) AS __keep FROM {ROWS} {NO_PUSHING})", " WHERE __keep"


def cast_sql(source: str, types: Mapping[str, pa.DataType], *more: str) -> str:
    """Columns of a query in their types, behind more that are as they are."""
    columns = (f"CAST({quote(name)} AS {store_type(type_)}) AS {quote(name)}" for name, type_ in types.items())
    return f"SELECT {', '.join([*more, *columns])} FROM ({source})"


def rows_schema(stream: Stream) -> pa.Schema:
    """The columns of `__rows`."""
    own = list(stream.schema.to_arrow())
    place = [("__p", pa.int32()), *((name, pa.int64()) for name in ("__o", "__pt", "__et", NUMBER))]
    return pa.schema([*own, *(pa.field(name, type_) for name, type_ in place)])
