"""Arrow between Spark and the rest: results collected, types without zones, structs as tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from millstream.model.schema import TIMESTAMP
from millstream.spark.errors import known_exception


def collect(frame: DataFrame) -> pa.Table:
    """All rows of a DataFrame.

    Not `toArrow`, which casts the batches to a schema whose "not null" marks are too strict for
    structs that are NULL themselves, and asks the JVM for settings and the schema on the way.
    """
    source: Any = frame
    try:
        return pa.Table.from_batches(source._collect_as_arrow(empty_list_if_zero_records=False))
    except Py4JJavaError as error:
        raise known_exception(error) from None


def flatten(column: pa.ChunkedArray) -> pa.Table:
    """A struct column as a table."""
    type_ = column.type
    chunks = [pa.RecordBatch.from_struct_array(chunk) for chunk in column.chunks if len(chunk)]
    schema = pa.schema([type_[i] for i in range(type_.num_fields)])
    return pa.Table.from_batches(chunks, schema)


def naive(type_: pa.DataType) -> pa.DataType:
    """The type with instants as Millstream has them: in UTC, without saying so. Anything may be NULL."""
    return replace_timestamps(type_, TIMESTAMP)


def zoned(table: pa.Table) -> pa.Table:
    """Instants with their zone said, so that Spark takes them as TIMESTAMP."""
    utc = pa.timestamp("us", "UTC")
    schema = pa.schema([field.with_type(replace_timestamps(field.type, utc)) for field in table.schema])
    return table if schema == table.schema else table.cast(schema)


def replace_timestamps(type_: pa.DataType, by: pa.DataType) -> pa.DataType:
    """The type with another type of instants, at any depth."""
    if pa.types.is_timestamp(type_):
        return by
    if pa.types.is_map(type_):
        return pa.map_(replace_timestamps(type_.key_type, by), replace_timestamps(type_.item_type, by))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(replace_timestamps(type_.value_type, by))
    if pa.types.is_struct(type_):
        fields = [type_[i] for i in range(type_.num_fields)]
        return pa.struct([pa.field(field.name, replace_timestamps(field.type, by)) for field in fields])
    return type_
