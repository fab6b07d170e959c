"""Views as the kernel's SQL: what is translated, what is refused, what is shared."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from sqlglot import exp

from millstream.duck import store_sql
from millstream.kernel.agreement import NotNativeError, check_agreement
from millstream.kernel.native import is_safe, may_fail, parsed
from millstream.kernel.program import Program
from millstream.model.schema import Column, Schema
from millstream.sql import parse_statement, spark_sql
from millstream.sql.signatures import OPERATORS, SIGNATURES, forms
from millstream.sql.statements import Select

SCHEMA = Schema(
    (
        Column("i", pa.int64()),
        Column("d", pa.float64()),
        Column("x", pa.decimal128(10, 2)),
        Column("s", pa.string()),
        Column("b", pa.bool_()),
        Column("ts", pa.timestamp("us")),
    )
)


# Written for Spark with other functions of the list, which are compared themselves.
SPELT_OTHERWISE = {"space", "unix_date"}


def as_written(text: str) -> exp.Expr:
    statement = parse_statement(f"SELECT {text} AS v FROM t")
    assert isinstance(statement, Select)
    node: exp.Expr = statement.query.expressions[0].this
    return node


@pytest.mark.parametrize("name", sorted({**OPERATORS, **SIGNATURES}.keys() - SPELT_OTHERWISE))
def test_plans_keep_the_meaning(name: str) -> None:
    """A plan has Spark SQL, which the kernel reads again: the store's SQL must be that of the text as it was written.

    What the store's SQL gives is compared with Spark in `test_functions_agree`.
    """
    for template in {**OPERATORS, **SIGNATURES}[name]:
        for text, _ in forms(template):
            node = as_written(text)
            assert store_sql(parsed(spark_sql(node))) == store_sql(node), text


@pytest.mark.parametrize(
    ("text", "agrees"),
    [
        ("i / 2 > 1.5", True),
        ("i * 0.908", True),
        ("x + 1", True),
        ("s = 'a' AND i IN (1, 2)", True),
        ("CAST(i AS STRING)", True),
        ("CAST(ts AS STRING)", True),
        ("i BETWEEN 1 AND 3", True),
        ("x / 2", False),
        ("i / 2.5", False),
        ("i % CAST(1 AS DECIMAL(5, 1))", False),
        ("CAST(d AS STRING)", False),
        ("CAST(i / 2 AS STRING)", False),
        ("CAST(sqrt(i) AS STRING)", False),
        ("s = 1", False),
        ("s IN (1, 2)", False),
        ("ts > '2024-01-01'", False),
        ("s BETWEEN 1 AND 3", False),
        ("__udf_f(i)", False),
        ("hll_sketch_agg(i, 12)", False),
    ],
)
def test_what_depends_on_types_is_refused(text: str, agrees: bool) -> None:
    if agrees:
        check_agreement(parsed(text), SCHEMA)
    else:
        with pytest.raises(NotNativeError):
            check_agreement(parsed(text), SCHEMA)


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("i > 3 AND s LIKE 'a%'", True),
        ("i % 7 = 0", True),
        ("i % 0 = 0", False),
        ("i % d = 0", False),
        ("i + 1 > 3", False),
        ("CAST(s AS INT) > 3", False),
        ("i > 3 OR element_at(array(1), i) = 1", False),
    ],
)
def test_what_may_fail(text: str, safe: bool) -> None:
    assert is_safe(parsed(text)) is safe


@pytest.mark.parametrize(
    ("text", "doubtful"),
    [
        ("sum(i * 2 + 1)", False),
        ("sum(CAST(x AS DOUBLE))", False),
        ("max(struct(i % 7 AS o, s AS v))", False),
        ("sum(i / x)", True),
        ("max(i % x)", True),
        ("CAST(s AS INT)", True),
    ],
)
def test_what_a_filter_may_guard(text: str, doubtful: bool) -> None:
    assert may_fail(parsed(text)) is doubtful


def test_no_filter_is_pushed_across_a_limit() -> None:
    """A careful filter is asked of all rows: where DuckDB began to push filters down, failures would be missed."""
    connection = duckdb.connect()
    connection.execute("SET disabled_optimizers = 'common_subexpressions'")
    connection.register("r", pa.table({"x": [0, 1, 2] * 1000, "y": [5] * 3000}))
    fails = "10 // CASE WHEN x = 0 THEN CAST(concat('q', x) AS INTEGER) ELSE x END > 1"
    for condition in (f"{fails} AND y = 6", f"y = 6 AND {fails}"):
        query = f"SELECT count(*) FROM (SELECT *, ({condition}) AS keep FROM r LIMIT {2**63 - 1}) WHERE keep"
        with pytest.raises(duckdb.ConversionException):
            connection.sql(query).fetchall()


def test_programs_of_nothing() -> None:
    from millstream.plan.nodes import Stream

    assert Program(Stream("s", SCHEMA, None, None), None, ()).queries == ()
