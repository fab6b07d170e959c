"""The options of tables, read and held against the columns; and the rows that delete.

Owns what `CREATE TABLE … WITH (…)` may say besides its source, and how keys become tombstones. A
definition that could not be kept is refused here, before anything of it exists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from millstream.engine.define.catalog import Catalog, StreamEntry
from millstream.log import TOMBSTONE
from millstream.model.errors import MillstreamError, Position, did_you_mean
from millstream.model.progress import Progress
from millstream.model.schema import TIMESTAMP, sql_type
from millstream.model.time import format_duration
from millstream.plan.nodes import Stream
from millstream.plan.tables import ANY, TableRules
from millstream.sources.options import TableOptions
from millstream.sql.statements import CreateTable, Watermark

_ORDERED = (
    pa.types.is_integer,
    pa.types.is_decimal,
    pa.types.is_timestamp,
    pa.types.is_date,
    pa.types.is_string,
)
_WORDS = (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean)


# -- definitions -------------------------------------------------------------------------------


def split_options(create: CreateTable) -> tuple[TableOptions, dict[str, str]]:
    """What a table says about its changes, and what is left for its source."""
    options = dict(create.options)
    own = {name for name in options if name.lower() in TableOptions.model_fields}
    read = TableOptions.read({name: options[name] for name in own}, create.position)
    return read, {name: value for name, value in options.items() if name not in own}


def table_rules(create: CreateTable, options: TableOptions) -> TableRules:
    """The rules that options make of a table's columns."""
    operation = _column(create, "operation", options.operation, _WORDS, "a word, a number or a flag")
    sequence = _column(create, "sequence", options.sequence, _ORDERED, "a number, an instant, a date or a text")
    watermark = table_watermark(create)
    event_time = watermark.column if watermark is not None else None
    if operation is not None and operation in (sequence, event_time):
        raise _refused(create, "operation", f"{operation} orders the changes already")
    if options.versioned and event_time is not None and event_time in create.primary_key:
        raise MillstreamError(
            "BAD_KEY",
            f"{event_time} is the event time of versions and cannot be part of the primary key",
            detail="every version would be a key of its own",
            position=create.position,
        )
    for name, needed, there in (
        ("deletes", "operation", operation is not None),
        ("upserts", "operation", operation is not None),
        ("history", "versioned", options.versioned),
    ):
        if name in options.model_fields_set and not there:
            raise _refused(create, name, f"it needs the option {needed!r}")
    deletes, upserts = options.words("deletes"), options.words("upserts")
    if "upserts" not in options.model_fields_set:
        upserts = tuple(word for word in upserts if word not in deletes)
    if not deletes or not upserts or ANY in deletes:
        raise _refused(create, "deletes" if not deletes or ANY in deletes else "upserts", "it names no operation")
    if both := sorted(set(deletes) & set(upserts)):
        raise _refused(create, "upserts", f"{both[0]!r} deletes already")
    return TableRules(
        operation,
        deletes if operation is not None else (),
        upserts if operation is not None else (),
        sequence,
        options.versioned,
        options.history,
        options.tombstone_retain,
    )


def table_watermark(create: CreateTable) -> Watermark | None:
    """The watermark of a table, its column as the table spells it."""
    watermark = create.watermark
    if watermark is not None and watermark.percentile is not None:
        raise MillstreamError(
            "NOT_SUPPORTED",
            "the watermark of a table has a fixed slack",
            detail="changes of a table are never late: the slack only says how long versions are kept",
            hint=f"write WATERMARK FOR {watermark.column} AS {watermark.column} - INTERVAL …",
            position=create.position,
        )
    column = create.schema.find(watermark.column) if watermark is not None else None
    return replace(watermark, column=column.name) if watermark is not None and column is not None else watermark


def _column(
    create: CreateTable, option: str, name: str | None, kinds: tuple[Callable[[pa.DataType], bool], ...], words: str
) -> str | None:
    """The column that an option names, as the table spells it."""
    if name is None:
        return None
    column = create.schema.find(name)
    if column is None:
        raise MillstreamError(
            "UNKNOWN_COLUMN",
            f"option {option}: {create.name} has no column {name!r}",
            hint=did_you_mean(name, (known.lower() for known in create.schema.names())),
            position=create.position,
        )
    if column.name in create.primary_key:
        raise _refused(create, option, f"{column.name} is part of the primary key")
    if not any(is_kind(column.type) for is_kind in kinds):
        raise _refused(create, option, f"{column.name} is {sql_type(column.type)}; it must be {words}")
    return column.name


def _refused(create: CreateTable, option: str, detail: str) -> MillstreamError:
    return MillstreamError("BAD_OPTION", f"option {option!r} has a bad value", detail=detail, position=create.position)


def column_notes(stream: Stream) -> dict[str, str]:
    """What DESCRIBE says of columns that decide about changes."""
    notes = {stream.rules.sequence: "sequence"} if stream.rules.sequence is not None else {}
    if stream.event_time is not None:
        said = f"event time, watermark {format_duration(stream.slack)} behind"
        notes[stream.event_time] = f"sequence, {said}" if stream.event_time in notes else said
    return notes


# -- deletions ---------------------------------------------------------------------------------


def find_table(catalog: Catalog, name: str, position: Position | None = None) -> StreamEntry:
    """The table of a name; what rows cannot be deleted from is refused."""
    entry = catalog.find(name)
    if isinstance(entry, StreamEntry) and entry.is_table:
        return entry
    if entry is None:
        tables = [known.name.lower() for known in catalog.streams() if known.is_table]
        raise MillstreamError(
            "UNKNOWN_TABLE", f"there is no table {name!r}", hint=did_you_mean(name, tables), position=position
        )
    is_stream = isinstance(entry, StreamEntry)
    raise MillstreamError(
        "NOT_A_TABLE",
        f"{entry.name} is a {'stream' if is_stream else 'view'}: its rows cannot be deleted",
        hint="a stream only grows: let a view leave the rows out, or keep what changes in a table"
        if is_stream
        else "delete the rows that it is computed from",
        position=position,
    )


def deciding_columns(stream: Stream) -> tuple[str, ...]:
    """What a deletion must say: which key and, where that matters, in which place of its changes."""
    instant = stream.event_time if stream.has_event_versions else None
    return tuple(dict.fromkeys(n for n in (*stream.primary_key, stream.rules.sequence, instant) if n is not None))


def tombstones(stream: Stream, keys: pa.Table) -> pa.Table:
    """Rows for the log that delete keys; `keys` has the columns of the table."""
    deciding = deciding_columns(stream)
    for name in deciding:
        missing = keys.column(name).is_null().index(True).as_py()
        if missing >= 0:
            raise MillstreamError(
                "MISSING_VALUE",
                f"row {missing}: {name} is NULL",
                detail=f"to delete from {stream.name}, a row says its {', '.join(deciding)}",
                hint="nothing of this was deleted",
            )
    columns = [
        column if name in (*deciding, stream.event_time) else pa.nulls(len(keys), column.type)
        for name, column in zip(keys.column_names, keys.columns, strict=True)
    ]
    return pa.table([*columns, pa.repeat(True, len(keys))], names=[*keys.column_names, TOMBSTONE])


def select_keys(stream: Stream, query: exp.Select) -> exp.Select:
    """The query of a DELETE with what its deletions must say."""
    table = query.args["from_"].this
    chosen = [exp.column(name, table=table.alias_or_name, quoted=True) for name in deciding_columns(stream)]
    selected = query.copy()
    selected.set("expressions", chosen)
    return selected


def dated(stream: Stream, keys: pa.Table, progress: Progress | None) -> pa.Table:
    """Keys that a DELETE has found, deleted just after the newest change that the table has seen.

    Processing time would not do: in a history that is read again, it is after everything to come.
    """
    if not stream.has_event_versions or progress is None or not progress.newest:
        return keys
    index = keys.column_names.index(stream.event_time)
    at = pa.scalar(max(progress.newest.values()) + 1, pa.int64()).cast(TIMESTAMP)
    return keys.set_column(index, stream.event_time, pa.repeat(at, len(keys)))
