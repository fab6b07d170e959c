"""Column types as they are written, as Arrow types.

Owns which types a stream or table may have: those that Spark SQL, Arrow and the store all have.
TIMESTAMP, TIMESTAMP_LTZ and TIMESTAMP_NTZ are one type here, an instant in UTC microseconds.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from millstream.model.schema import TIMESTAMP

_D = exp.DType
_SIMPLE: dict[exp.DType, pa.DataType] = {
    _D.BOOLEAN: pa.bool_(),
    _D.TINYINT: pa.int8(),
    _D.SMALLINT: pa.int16(),
    _D.INT: pa.int32(),
    _D.BIGINT: pa.int64(),
    _D.FLOAT: pa.float32(),
    _D.DOUBLE: pa.float64(),
    _D.TEXT: pa.string(),
    _D.VARCHAR: pa.string(),
    _D.CHAR: pa.string(),
    _D.BINARY: pa.binary(),
    _D.DATE: pa.date32(),
    _D.TIMESTAMP: TIMESTAMP,
    _D.TIMESTAMPTZ: TIMESTAMP,
    _D.TIMESTAMPLTZ: TIMESTAMP,
    _D.TIMESTAMPNTZ: TIMESTAMP,
}
_WITH_LENGTH = {_D.VARCHAR, _D.CHAR}
_MAX_PRECISION = 38

TYPE_NAMES = (
    "array", "bigint", "binary", "boolean", "byte", "char", "date", "decimal", "double", "float", "int",
    "integer", "long", "map", "numeric", "short", "smallint", "string", "struct", "timestamp",
    "timestamp_ltz", "timestamp_ntz", "tinyint", "varchar",
)  # fmt: skip


def arrow_type(type_: exp.Expr) -> pa.DataType | None:
    """The Arrow type of a parsed type, or None where StreamSQL has no such type."""
    if not isinstance(type_, exp.DataType):
        return None
    arguments = type_.expressions
    match type_.this:
        case _D.DECIMAL:
            return _decimal(arguments)
        case _D.ARRAY if len(arguments) == 1:
            inner = arrow_type(arguments[0])
            return None if inner is None else pa.list_(inner)
        case _D.MAP if len(arguments) == 2:
            key, value = arrow_type(arguments[0]), arrow_type(arguments[1])
            return None if key is None or value is None else pa.map_(key, value)
        case _D.STRUCT if arguments:
            return _struct(arguments)
        case kind:
            if arguments and kind not in _WITH_LENGTH:
                return None
            return _SIMPLE.get(kind)


def _decimal(arguments: list[exp.Expr]) -> pa.DataType | None:
    numbers = [argument.name for argument in arguments]
    if len(numbers) > 2 or not all(number.isdigit() for number in numbers):
        return None
    precision = int(numbers[0]) if numbers else 10
    scale = int(numbers[1]) if len(numbers) == 2 else 0
    if not (1 <= precision <= _MAX_PRECISION and scale <= precision):
        return None
    return pa.decimal128(precision, scale)


def _struct(arguments: list[exp.Expr]) -> pa.DataType | None:
    fields: list[pa.Field] = []
    for argument in arguments:
        if not isinstance(argument, exp.ColumnDef) or argument.args.get("constraints"):
            return None
        inner = arrow_type(argument.args["kind"])
        if inner is None or argument.name.lower() in {field.name.lower() for field in fields}:
            return None
        fields.append(pa.field(argument.name, inner))
    return pa.struct(fields)
