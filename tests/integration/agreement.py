"""The same call on Spark and in the store, row by row.

Owns running calls over `edge_values` on both engines, exactly as Millstream does (`check_query`,
then Spark SQL for one and `store_sql` for the other), and finding where they differ: in a value, in
being NULL, in failing, in the family of the type.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn
from sqlglot import exp

from millstream.duck import store_sql
from millstream.engine.surface.database import Database
from millstream.model.errors import MillstreamError
from millstream.model.schema import store_type
from millstream.spark.arrow import collect, zoned
from millstream.sql import check_query, parse_statement
from millstream.sql.statements import Select
from millstream.store.duckdb.store import DuckDBStore
from tests.integration.edge_values import TYPES, table
from tests.parts import spark_of, store_of

LIMIT = 400
FAILED = "⟨error⟩"


@dataclass(frozen=True, slots=True)
class Call:
    """A call over the columns `a0`, `a1`, … of the given types."""

    text: str
    types: tuple[str, ...]

    def __str__(self) -> str:
        text = self.text
        for index, type_ in reversed(list(enumerate(self.types))):
            text = text.replace(f"a{index}", type_)
        return text


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two answers differ: in the value for some arguments, or, without arguments, as a whole."""

    on_spark: Any
    in_store: Any
    arguments: str | None = None

    def __str__(self) -> str:
        given = "" if self.arguments is None else f"({self.arguments}): "
        return f"{given}{self.on_spark!r} on Spark, {self.in_store!r} in the store"


def store_refuses(store: DuckDBStore, call: Call) -> str | None:
    """The code of the error with which the store refuses to bind a call over no rows."""
    columns = ", ".join(f"CAST(NULL AS {store_type(TYPES[t])}) AS a{i}" for i, t in enumerate(call.types))
    node = _checked(call.text)
    # A refusal is not a failure of a row: TRY does not hide it. An aggregate cannot stand in TRY.
    value = store_sql(node) if node.find(exp.AggFunc) else f"TRY({store_sql(node)})"
    try:
        store.query(f"SELECT {value} FROM (SELECT {columns}) WHERE false")
    except MillstreamError as error:
        return error.code
    return None


def compare(
    spark: SparkSession, store: duckdb.DuckDBPyConnection, calls: Iterable[Call]
) -> dict[Call, list[Difference]]:
    """Where the engines differ, for every call; an empty list is agreement."""
    by_types: dict[tuple[str, ...], list[Call]] = defaultdict(list)
    for call in dict.fromkeys(calls):
        by_types[call.types].append(call)
    found: dict[Call, list[Difference]] = {}
    for types, group in by_types.items():
        rows = table(types, LIMIT)
        nodes = [_checked(call.text) for call in group]
        on_spark = _spark_values(spark, rows, [node.sql("spark") for node in nodes])
        in_store = _store_values(store, rows, [store_sql(node) for node in nodes])
        for call, ours, theirs in zip(group, on_spark, in_store, strict=True):
            found[call] = _differences(rows, ours, theirs)
    return found


def query_rows(db: Database, rows: pa.Table, text: str) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The rows of a query over a relation `t`, from Spark and from the store."""
    statement = parse_statement(text)
    assert isinstance(statement, Select)
    check_query(statement.query, text=text)
    spark, store = spark_of(db).session(), store_of(db).cursor()
    spark.createDataFrame(zoned(rows)).coalesce(1).createOrReplaceTempView("t")
    store.register("t", rows)
    answers = (collect(spark.sql(statement.query.sql("spark"))), store.sql(store_sql(statement.query)).to_arrow_table())
    store.close()
    families = [[family(field.type) for field in answer.schema] for answer in answers]
    assert families[0] == families[1], "the types differ"
    ours, theirs = (list(zip(*(_values(column) for column in answer.columns), strict=True)) for answer in answers)
    return ours, theirs


def _checked(text: str) -> exp.Expr:
    sql = f"SELECT {text} AS v FROM t"
    statement = parse_statement(sql)
    assert isinstance(statement, Select)
    check_query(statement.query, text=sql)
    alias = statement.query.expressions[0]
    node: exp.Expr = alias.this
    return node


# -- the engines -------------------------------------------------------------------------------


def _spark_values(spark: SparkSession, rows: pa.Table, sqls: Sequence[str]) -> list[pa.Array | str]:
    """Per call a struct of one field, NULL where the call failed, or why it cannot be analysed."""
    frame = spark.createDataFrame(zoned(rows)).coalesce(1)
    frame.createOrReplaceTempView("t")
    answers: list[pa.Array | str] = []
    columns: dict[int, Column] = {}
    for index, sql in enumerate(sqls):
        try:
            spark.sql(f"SELECT {sql} FROM t").schema  # noqa: B018, analyses
        except Exception as error:
            answers.append(f"Spark: {str(error).splitlines()[0][:200]}")
            continue
        columns[index] = _attempt(spark, f"struct({sql} AS c)").alias(f"r{index}")
        answers.append("")
    got = collect(frame.select("id", *columns.values())).sort_by("id") if columns else None
    for index in columns:
        assert got is not None
        answers[index] = got.column(f"r{index}").combine_chunks()
    return answers


def _attempt(spark: SparkSession, sql: str) -> Column:
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    parsed = session.sessionState().sqlParser().parseExpression(sql)
    attempt = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(parsed)
    return ClassicColumn(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(attempt))


def _store_values(store: duckdb.DuckDBPyConnection, rows: pa.Table, sqls: Sequence[str]) -> list[pa.Array | str]:
    store.register("t", rows)
    answers: list[pa.Array | str] = []
    good: dict[int, str] = {}
    for index, sql in enumerate(sqls):
        try:
            store.sql(f"SELECT {sql} FROM t")
        except duckdb.Error as error:
            answers.append(f"store: {str(error).splitlines()[0][:200]}")
            continue
        good[index] = f"TRY(struct_pack(c := {sql})) AS r{index}"
        answers.append("")
    if good:
        got = store.sql(f"SELECT id, {', '.join(good.values())} FROM t ORDER BY id").to_arrow_table()
        for index in good:
            answers[index] = got.column(f"r{index}").combine_chunks()
    store.unregister("t")
    return answers


# -- comparing ---------------------------------------------------------------------------------


def _differences(rows: pa.Table, ours: pa.Array | str, theirs: pa.Array | str) -> list[Difference]:
    if isinstance(ours, str) or isinstance(theirs, str):
        return [Difference(*(answer if isinstance(answer, str) else "answers" for answer in (ours, theirs)))]
    spark_type, store_type = ours.type[0].type, theirs.type[0].type
    found = []
    if family(spark_type) != family(store_type):
        found.append(Difference(str(spark_type), str(store_type)))
    arguments = [_values(column) for column in rows.columns[1:]]
    for index, (a, b) in enumerate(zip(_results(ours), _results(theirs), strict=True)):
        if not same(a, b):
            found.append(Difference(a, b, ", ".join(repr(argument[index]) for argument in arguments)))
    return found


def _results(answers: pa.Array) -> list[Any]:
    valid = answers.is_valid().to_pylist()
    values = _values(answers.field(0))
    return [value if ok else FAILED for value, ok in zip(values, valid, strict=True)]


def _values(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Python values that exist for whatever an engine gives: numbers for instants and dates, bytes for strings."""
    values: list[Any] = array.cast(_countable(array.type)).to_pylist()
    return values


def _countable(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type_):
        return pa.int64()
    if pa.types.is_date(type_):
        return pa.int32()
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return pa.binary()
    if pa.types.is_map(type_):
        return pa.map_(_countable(type_.key_type), _countable(type_.item_type))
    if pa.types.is_list(type_):
        return pa.list_(_countable(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_countable(field.type)) for field in type_])
    return type_


def family(type_: pa.DataType) -> Any:
    """What must be equal of two types: the store may have wider integers, decimals and reals."""
    match type_:
        case _ if pa.types.is_integer(type_):
            return "integer"
        case _ if pa.types.is_decimal(type_):
            return "integer" if type_.scale == 0 else ("decimal", type_.scale)
        case _ if pa.types.is_floating(type_):
            return "real"
        case _ if pa.types.is_string(type_) or pa.types.is_large_string(type_):
            return "string"
        case _ if pa.types.is_timestamp(type_):
            return "timestamp"
        case _ if pa.types.is_map(type_):
            return "map", family(type_.key_type), family(type_.item_type)
        case _ if pa.types.is_list(type_):
            return "array", family(type_.value_type)
        case _ if pa.types.is_struct(type_):
            return "struct", tuple(family(field.type) for field in type_)
        case _:
            return str(type_)


def same(a: Any, b: Any) -> bool:
    """Equality that tells zero from negative zero and knows NaN; reals may differ in the last digits."""
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        if a == 0 or b == 0 or math.isinf(a) or math.isinf(b):
            return a == b and math.copysign(1, a) == math.copysign(1, b)
        return math.isclose(a, b, rel_tol=4e-15)
    if isinstance(a, dict) and isinstance(b, dict):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a.values(), b.values(), strict=True))
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, bool) != isinstance(b, bool):
        return False
    return bool(a == b)
