"""Expressions of which Spark and DuckDB make different things, or might: they are left to Spark.

The functions on the list of `sql.allowlist` agree, form by form; what is refused here is what depends on
types that the text does not show: quotients of decimals, digits of floating numbers, comparisons of texts with
what is none, FLOATs with other numbers, which Spark makes DOUBLEs of and DuckDB FLOATs. Where the type of an operand
cannot be told, the expression is refused too.
"""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
from sqlglot import exp

from millstream.model.schema import Schema

Kind = Literal["text", "real", "float", "decimal", "integer", "time", "boolean", "other"]
"""`real` is a DOUBLE."""

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_TEXTS = (exp.Lower, exp.Upper, exp.Concat, exp.ConcatWs, exp.DPipe, exp.Substring, exp.Trim, exp.RegexpExtract)
_INTEGERS = (exp.Length, exp.Year, exp.Month, exp.Day, exp.Extract)
_TIMES = (exp.TimestampTrunc, exp.DateTrunc, exp.TsOrDsToDate)


class NotNativeError(Exception):
    """A view that is left to Spark, and why."""


def check_agreement(node: exp.Expr, schema: Schema) -> None:
    """Refuse an expression on which the engines may not agree.

    >>> from sqlglot import parse_one
    >>> from millstream.model.schema import Column
    >>> check_agreement(parse_one("s = 1"), Schema((Column("s", pa.string()),)))
    Traceback (most recent call last):
    ...
    millstream.kernel.agreement.NotNativeError: compares text with what is none: s = 1
    """
    for part in node.walk():
        match part:
            case exp.Anonymous() if part.name.startswith("__") or part.name.lower() == "raise_error":
                raise NotNativeError("a user's function is called")
            case exp.Anonymous() if part.name.lower() == "hll_sketch_agg":
                raise NotNativeError("a sketch is built")
            case exp.Div() | exp.IntDiv() | exp.Mod() if "decimal" in _kinds(schema, part.this, part.expression):
                raise NotNativeError(f"decimals are divided: {part.sql()}")
            case exp.Cast() if part.to.is_type(*exp.DataType.TEXT_TYPES):
                if not _kinds(schema, part.this) <= {"text", "integer", "time", "boolean", "decimal"}:
                    raise NotNativeError(f"the digits of a number are Java's: {part.sql()}")
            case exp.In():
                _check_alike(schema, part, part.this, *part.expressions)
            case exp.Between():
                _check_alike(schema, part, part.this, part.args["low"], part.args["high"])
            case exp.Coalesce() | exp.Greatest() | exp.Least():
                _check_alike(schema, part, part.this, *part.expressions)
            case _ if isinstance(part, _COMPARISONS):
                _check_alike(schema, part, part.this, part.expression)
        for together in _computed_together(part):
            _check_floats(schema, part, together)


def _computed_together(part: exp.Expr) -> list[list[exp.Expr]]:
    """The operands that an expression brings to one type, if it does so."""
    match part:
        case exp.In() | exp.Coalesce() | exp.Greatest() | exp.Least():
            return [[part.this, *part.expressions]]
        case exp.Between():
            return [[part.this, part.args["low"], part.args["high"]]]
        case exp.Array() | exp.DecodeCase():
            return [part.expressions]
        case exp.If() if not isinstance(part.parent, exp.Case):
            return [[part.args["true"], part.args.get("false") or exp.Null()]]
        case exp.Nvl2():
            return [[part.args["true"], part.args.get("false") or exp.Null()]]
        case exp.Case():
            branches = part.args["ifs"]
            results = [*(branch.args["true"] for branch in branches), part.args.get("default") or exp.Null()]
            return [results, [part.this, *(branch.this for branch in branches)]] if part.this else [results]
        # A quotient is of DOUBLEs on either side.
        case exp.Binary() if not isinstance(part, exp.Div | exp.Connector | exp.Dot):
            return [[part.this, part.expression]]
        case exp.Nullif() | exp.EqualNull() | exp.ArrayContains() | exp.ArrayAppend() | exp.ArrayPrepend():
            return [[part.this, part.expression]]
    return []


def _check_floats(schema: Schema, whole: exp.Expr, parts: list[exp.Expr]) -> None:
    some = [part.unnest() for part in parts if not isinstance(part, exp.Null)]
    floats = [kind_of(schema, part) == "float" for part in some]
    if not all(floats) and (any(floats) or any(_has_float(schema, part) for part in some)):
        raise NotNativeError(f"computes with FLOAT and what is none: {whole.sql()}")


def _has_float(schema: Schema, node: exp.Expr) -> bool:
    """Whether an expression of an unknown type may be a FLOAT."""
    leaves = node.find_all(exp.Column, exp.Cast)
    return kind_of(schema, node) == "other" and any(kind_of(schema, leaf) == "float" for leaf in leaves)


def _check_alike(schema: Schema, whole: exp.Expr, *parts: exp.Expr) -> None:
    kinds = _kinds(schema, *(part for part in parts if not isinstance(part, exp.Null)))
    if "text" in kinds and kinds != {"text"}:
        raise NotNativeError(f"compares text with what is none: {whole.sql()}")


def _kinds(schema: Schema, *nodes: exp.Expr) -> set[Kind]:
    return {kind_of(schema, node.unnest()) for node in nodes}


def kind_of(schema: Schema, node: exp.Expr) -> Kind:
    """What an expression is, as far as its text and the columns tell."""
    match node:
        case exp.Column():
            column = schema.find(node.name) if not node.table else None
            return (
                _kind_of_type(column.type)
                if column is not None
                else "integer"
                if node.name.startswith("__")
                else "other"
            )
        case exp.Literal():
            if node.is_string:
                return "text"
            return "integer" if node.is_int else "decimal"
        case exp.Cast():
            return _kind_of_target(node.to)
        case exp.Neg():
            return kind_of(schema, node.this.unnest())
        case exp.Mod():
            return kind_of(schema, node.this.unnest())
        case exp.Add() | exp.Sub() | exp.Mul():
            return _widest(_kinds(schema, node.this, node.expression))
        case exp.Div():
            return "real"
        case exp.If():
            return _widest(_kinds(schema, node.args["true"], node.args.get("false") or node.args["true"]))
        case exp.Case():
            results = [branch.args["true"] for branch in node.args["ifs"]]
            default = [node.args["default"]] if node.args.get("default") is not None else []
            return _widest(_kinds(schema, *results, *default))
        case exp.Coalesce():
            return _widest(_kinds(schema, node.this, *node.expressions))
    if isinstance(node, exp.Predicate | exp.And | exp.Or | exp.Not | exp.Boolean):
        return "boolean"
    if isinstance(node, _TEXTS):
        return "text"
    if isinstance(node, _INTEGERS):
        return "integer"
    return "time" if isinstance(node, _TIMES) else "other"


def _widest(kinds: set[Kind]) -> Kind:
    for kind in ("other", "text", "real", "float", "decimal"):
        if kind in kinds:
            return "other" if kind == "text" and kinds != {"text"} else kind
    return next(iter(kinds)) if len(kinds) == 1 else "other"


def _kind_of_type(type_: pa.DataType) -> Kind:
    if pa.types.is_string(type_):
        return "text"
    if pa.types.is_integer(type_):
        return "integer"
    if pa.types.is_floating(type_):
        return "float" if pa.types.is_float32(type_) else "real"
    if pa.types.is_decimal(type_):
        return "decimal"
    if pa.types.is_temporal(type_):
        return "time"
    return "boolean" if pa.types.is_boolean(type_) else "other"


def _kind_of_target(target: exp.DataType) -> Kind:
    if target.is_type(*exp.DataType.TEXT_TYPES):
        return "text"
    if target.is_type(*exp.DataType.INTEGER_TYPES):
        return "integer"
    if target.is_type(exp.DType.DECIMAL):
        return "decimal"
    if target.is_type(*exp.DataType.REAL_TYPES):
        return "float" if target.is_type(exp.DType.FLOAT) else "real"
    if target.is_type(*exp.DataType.TEMPORAL_TYPES):
        return "time"
    return "boolean" if target.is_type(exp.DType.BOOLEAN) else "other"
