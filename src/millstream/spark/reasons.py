"""Why a line could not be decoded, in words that help.

Spark says only that a record is corrupt. The few lines that are get a second look here.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from millstream.model.schema import Column, Schema, sql_type

_SHOWN = 80


def explain_line(line: str | None, schema: Schema, format_: str) -> str:
    """The reason a line is malformed.

    >>> schema = Schema((Column("price", pa.int64()),))
    >>> explain_line('{"price": "abc"}', schema, "json")
    'malformed json: price is BIGINT, got "abc"'
    >>> explain_line('{"price": ', schema, "json")
    'malformed json: Expecting value at character 10'
    """
    if line is None or format_ != "json":
        return f"malformed {format_}"
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        return f"malformed json: {error.msg} at character {error.pos}"
    except RecursionError:
        return "malformed json: nested too deeply"
    if not isinstance(value, dict):
        return f"malformed json: expected an object, got {_shown(value)}"
    fields = {str(key).lower(): item for key, item in value.items()}
    # An instant is judged last: Spark reads more spellings of it than can be told here.
    in_order = sorted(schema.columns, key=lambda column: pa.types.is_temporal(column.type))
    for column in in_order:
        item = fields.get(column.name.lower())
        if item is not None and not _fits(item, column):
            return f"malformed json: {column.name} is {sql_type(column.type)}, got {_shown(item)}"
    return "malformed json"


def _fits(value: Any, column: Column) -> bool:
    type_ = column.type
    if pa.types.is_boolean(type_):
        return isinstance(value, bool)
    if pa.types.is_integer(type_):
        limit = 2 ** (type_.bit_width - 1)
        return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
    if pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        # Spark has judged the text already; whatever it is, it is no instant to it.
        return False
    if pa.types.is_list(type_):
        return isinstance(value, list)
    if pa.types.is_struct(type_) or pa.types.is_map(type_):
        return isinstance(value, dict)
    return True


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
