"""Columns and their types.

A type is an Arrow type, the one form that producers, Spark and the store all understand; this
module spells it for each of them. TIMESTAMP is an instant in UTC microseconds: Arrow
`timestamp[us]` without a zone, Spark `TIMESTAMP` in a UTC session, the store's `TIMESTAMP`.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase

import pyarrow as pa

from millstream.model.errors import MillstreamError

TIMESTAMP = pa.timestamp("us")

_SPARK_NAMES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    TIMESTAMP: "TIMESTAMP",
}
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
_KEPT_BY_THE_LOG = frozenset({"_raw", "_offset", "_landed_at", "_tombstone"})
_STORE_NAMES = {pa.int32(): "INTEGER", pa.string(): "VARCHAR", pa.binary(): "BLOB"}


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Schema:
    """An ordered list of columns; names are unique without regard to case."""

    columns: tuple[Column, ...]

    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def find(self, name: str) -> Column | None:
        """The column of that name in any case, as Spark resolves names."""
        for column in self.columns:
            if column.name.lower() == name.lower():
                return column
        return None

    def to_arrow(self) -> pa.Schema:
        return pa.schema([pa.field(column.name, column.type) for column in self.columns])


def folded(name: str) -> str:
    """A name as the store compares it: in lower case, but for letters beyond ASCII.

    >>> folded("Größe Ü")
    'größe Ü'
    """
    return name.translate(_LOWER)


def check_names(schema: Schema) -> None:
    """Refuse names that could not be quoted alike everywhere, and those kept for the engine."""
    for column in schema.columns:
        for name in (column.name, *_field_names(column.type)):
            check_name(name)


def check_name(name: str) -> None:
    if not name or any(character in "`\"'\\" or not character.isprintable() for character in name):
        raise MillstreamError("BAD_NAME", f"{name!r} cannot be a name", hint="leave out quotes and backslashes")
    if name.startswith("__") or name in _KEPT_BY_THE_LOG:
        raise MillstreamError("RESERVED_NAME", f"{name!r} is reserved", hint="names may not begin with __")


def _field_names(type_: pa.DataType) -> list[str]:
    if pa.types.is_struct(type_):
        fields = [type_[i] for i in range(type_.num_fields)]
        return [name for field in fields for name in (field.name, *_field_names(field.type))]
    children = [type_.field(i) for i in range(type_.num_fields)]
    return [name for child in children for name in _field_names(child.type)]


def spark_type(type_: pa.DataType) -> str:
    """The type in Spark's DDL.

    >>> spark_type(pa.list_(pa.int64()))
    'ARRAY<BIGINT>'
    """
    return _spell(type_, _SPARK_NAMES, "ARRAY<{}>", "MAP<{}, {}>", "STRUCT<{}>", "`{}`: {}")


def store_type(type_: pa.DataType) -> str:
    """The type in the store's DDL.

    >>> store_type(pa.list_(pa.int64()))
    'BIGINT[]'
    """
    return _spell(type_, {**_SPARK_NAMES, **_STORE_NAMES}, "{}[]", "MAP({}, {})", "STRUCT({})", '"{}" {}')


def sql_type(type_: pa.DataType) -> str:
    """The type as StreamSQL spells it, which is Spark's way."""
    return spark_type(type_).replace("`", "")


def is_storable(type_: pa.DataType) -> bool:
    """Whether a column can be of the type, or is NULL throughout.

    >>> is_storable(pa.list_(pa.int64())), is_storable(pa.duration("us"))
    (True, False)
    """
    try:
        return pa.types.is_null(type_) or bool(spark_type(type_))
    except KeyError:
        return False


def _spell(type_: pa.DataType, names: dict[pa.DataType, str], array: str, map_: str, struct: str, field: str) -> str:
    def spell(inner: pa.DataType) -> str:
        return _spell(inner, names, array, map_, struct, field)

    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    if pa.types.is_timestamp(type_):
        return "TIMESTAMP"
    if pa.types.is_large_string(type_):
        return names[pa.string()]
    if pa.types.is_map(type_):
        return map_.format(spell(type_.key_type), spell(type_.item_type))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return array.format(spell(type_.value_type))
    if pa.types.is_struct(type_):
        return struct.format(
            ", ".join(field.format(type_[i].name, spell(type_[i].type)) for i in range(type_.num_fields))
        )
    return names[type_]
