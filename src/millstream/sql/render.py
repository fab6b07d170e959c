"""Statements → canonical text.

Owns the one way each statement is written, as SHOW CREATE prints it. The text parses back to the
same statement. Must not lose anything that a statement says.
"""

from __future__ import annotations

import re
from functools import singledispatch

import pyarrow as pa
from sqlglot import exp

from millstream.model.schema import spark_type
from millstream.model.time import format_duration
from millstream.sql.dialect import StreamSQL
from millstream.sql.parser import is_values
from millstream.sql.statements import (
    DEFAULT_EMIT,
    ClockCorrection,
    CreateFunction,
    CreateSink,
    CreateStream,
    CreateTable,
    CreateView,
    Delete,
    Describe,
    Drop,
    Emit,
    EveryEpoch,
    EveryInterval,
    EveryRows,
    Explain,
    Insert,
    Options,
    Rate,
    Rebuild,
    Select,
    SetOption,
    Show,
    ShowCreate,
    Statement,
    Subscribe,
    Watermark,
)

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Words that would be read as the beginning of a clause where a name stands.
_CLAUSE_WORDS = {"EMIT", "WATERMARK", "EVENT", "MATERIALIZED", "IF", "TO"}


@singledispatch
def render(statement: Statement) -> str:
    """The canonical text of a statement, without a semicolon."""
    raise TypeError(f"not a statement: {statement!r}")


@render.register
def _stream(statement: CreateStream) -> str:
    lines = [f"{quote_name(column.name)} {render_type(column.type)}" for column in statement.schema.columns]
    if statement.correction is not None:
        lines.append(_correction(statement.correction))
    if statement.watermark is not None:
        lines.append(_watermark(statement.watermark))
    return f"{_create('STREAM', statement)} {_block(lines)}{_options(statement.options)}"


@render.register
def _table(statement: CreateTable) -> str:
    lines = [f"{quote_name(column.name)} {render_type(column.type)}" for column in statement.schema.columns]
    lines.append(f"PRIMARY KEY ({_names(statement.primary_key)})")
    if statement.watermark is not None:
        lines.append(_watermark(statement.watermark))
    return f"{_create('TABLE', statement)} {_block(lines)}{_options(statement.options)}"


@render.register
def _view(statement: CreateView) -> str:
    emit = "" if statement.emit == DEFAULT_EMIT else f"\n{render_emit(statement.emit)}"
    return (
        f"{_create('MATERIALIZED VIEW', statement)}{_options(statement.options)} AS\n"
        f"{render_query(statement.query)}{emit}"
    )


@render.register
def _function(statement: CreateFunction) -> str:
    arguments = ", ".join(f"{quote_name(c.name)} {render_type(c.type)}" for c in statement.arguments.columns)
    source = "" if statement.source is None else f" AS {quote_string(statement.source)}"
    return f"{_create('FUNCTION', statement)}({arguments}) RETURNS {render_type(statement.returns)}{source}"


@render.register
def _sink(statement: CreateSink) -> str:
    exists = "IF NOT EXISTS " if statement.if_not_exists else ""
    name, view = quote_name(statement.name), quote_name(statement.view)
    return f"CREATE SINK {exists}{name} FROM {view}{_options(statement.options)}"


@render.register
def _drop(statement: Drop) -> str:
    kind = "MATERIALIZED VIEW" if statement.kind == "view" else statement.kind.upper()
    return f"DROP {kind}{' IF EXISTS' if statement.if_exists else ''} {quote_name(statement.name)}"


@render.register
def _rebuild(statement: Rebuild) -> str:
    return f"ALTER MATERIALIZED VIEW {quote_name(statement.name)} REBUILD"


@render.register
def _set(statement: SetOption) -> str:
    return f"SET {statement.name} = {quote_string(statement.value)}"


@render.register
def _show(statement: Show) -> str:
    return f"SHOW {statement.what.upper()}"


@render.register
def _show_create(statement: ShowCreate) -> str:
    return f"SHOW CREATE {quote_name(statement.name)}"


@render.register
def _describe(statement: Describe) -> str:
    return f"DESCRIBE {quote_name(statement.name)}"


@render.register
def _explain(statement: Explain) -> str:
    if isinstance(statement.target, str):
        return f"EXPLAIN {quote_name(statement.target)}"
    return f"EXPLAIN {render(statement.target)}"


@render.register
def _insert(statement: Insert) -> str:
    columns = f" ({_names(statement.columns)})" if statement.columns else ""
    return f"INSERT INTO {quote_name(statement.target)}{columns}\n{render_query(statement.query)}"


@render.register
def _delete(statement: Delete) -> str:
    (table, where) = (statement.query.args["from_"].this, statement.query.args.get("where"))
    alias = f" AS {quote_name(table.alias)}" if table.alias else ""
    condition = f"\nWHERE {where.this.sql(dialect=StreamSQL)}" if where is not None else ""
    return f"DELETE FROM {quote_name(statement.target)}{alias}{condition}"


@render.register
def _select(statement: Select) -> str:
    return render_query(statement.query)


@render.register
def _subscribe(statement: Subscribe) -> str:
    start = f" FROM EPOCH {statement.from_epoch}" if statement.from_epoch else ""
    return f"SUBSCRIBE {quote_name(statement.name)}{start}"


# -- parts ---------------------------------------------------------------------------------------


def render_query(query: exp.Query) -> str:
    """A query in StreamSQL, pretty-printed."""
    if is_values(query):
        rows = query.args["from_"].this.expressions
        return "VALUES\n  " + ",\n  ".join(row.sql(dialect=StreamSQL) for row in rows)
    return query.sql(dialect=StreamSQL, pretty=True, indent=2, pad=2)


def render_emit(emit: Emit) -> str:
    """The EMIT clause, every part in its place.

    >>> render_emit(Emit(on_watermark=True, late=EveryRows(1), lateness=3_600_000_000))
    'EMIT ON WATERMARK LATE EVERY 1 ROW ACCUMULATING ALLOWED LATENESS INTERVAL 1 HOUR'
    """
    parts = ["EMIT"]
    if emit.repeatedly is not None:
        parts.append(_rate(emit.repeatedly))
    if emit.early is not None:
        parts.append(f"EARLY {_rate(emit.early)}")
    if emit.on_watermark:
        parts.append("ON WATERMARK")
    if emit.late is not None:
        parts.append(f"LATE {_rate(emit.late)}")
    parts.append(emit.accumulation.upper())
    if emit.lateness is not None:
        parts.append(f"ALLOWED LATENESS {_interval(emit.lateness)}")
    return " ".join(parts)


def render_type(type_: pa.DataType) -> str:
    """A column type in StreamSQL; struct fields are quoted only where they must be."""
    if pa.types.is_struct(type_):
        fields = (f"{quote_name(field.name)}: {render_type(field.type)}" for field in type_)
        return f"STRUCT<{', '.join(fields)}>"
    if pa.types.is_map(type_):
        return f"MAP<{render_type(type_.key_type)}, {render_type(type_.item_type)}>"
    if pa.types.is_list(type_):
        return f"ARRAY<{render_type(type_.value_type)}>"
    return spark_type(type_)


def quote_name(name: str) -> str:
    """A name as it must be written: in backticks if it is not a plain word or is a keyword."""
    if _PLAIN.fullmatch(name) and name.upper() not in StreamSQL.Tokenizer.KEYWORDS.keys() | _CLAUSE_WORDS:
        return name
    return f"`{name.replace('`', '``')}`"


def quote_string(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _create(kind: str, statement: CreateStream | CreateTable | CreateView | CreateFunction) -> str:
    replace = "OR REPLACE " if statement.or_replace else ""
    exists = "IF NOT EXISTS " if statement.if_not_exists else ""
    return f"CREATE {replace}{kind} {exists}{quote_name(statement.name)}"


def _block(lines: list[str]) -> str:
    return "(\n  " + ",\n  ".join(lines) + "\n)"


def _options(options: Options) -> str:
    if not options:
        return ""
    return " WITH " + _block([f"{_option_key(key)} = {quote_string(value)}" for key, value in options])


def _option_key(key: str) -> str:
    return key if _PLAIN.fullmatch(key) else quote_string(key)


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(quote_name(name) for name in names)


def _watermark(watermark: Watermark) -> str:
    column = quote_name(watermark.column)
    if watermark.percentile is not None:
        return f"WATERMARK FOR {column} AT PERCENTILE {watermark.percentile!r}"
    slack = f" - {_interval(watermark.slack)}" if watermark.slack else ""
    return f"WATERMARK FOR {column} AS {column}{slack}"


def _correction(correction: ClockCorrection) -> str:
    clocks = _names((correction.sent_at, correction.received_at))
    return f"EVENT TIME {quote_name(correction.column)} CORRECTED BY ({clocks})"


def _rate(rate: Rate) -> str:
    match rate:
        case EveryRows(1):
            return "EVERY 1 ROW"
        case EveryRows(count):
            return f"EVERY {count} ROWS"
        case EveryInterval(micros):
            return f"EVERY {_amount(micros)}"
        case EveryEpoch():
            return "ON EPOCH"


def _interval(micros: int) -> str:
    return f"INTERVAL {_amount(micros)}"


def _amount(micros: int) -> str:
    return format_duration(micros).upper()
