"""Expressions: what they print, and that no text of the caller is ever read as SQL."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

import millstream as ms
from millstream.builder.expressions import Expression, parse_expression
from millstream.builder.literals import identifier
from millstream.sql.allowlist import AGGREGATE_EXAMPLES, SCALARS
from tests.answers import untyped
from tests.unit.builder.equality import bare

a, b, c = ms.col("a"), ms.col("b"), ms.col("c")


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (a + b * c, "a + b * c"),
        ((a + b) * c, "(a + b) * c"),
        (a - (b - c), "a - (b - c)"),
        (a - b - c, "a - b - c"),
        (1 - a, "1 - a"),
        (2 * a / 3 % 4, "2 * a / 3 % 4"),
        (10 / a + 10 % a, "10 / a + 10 % a"),
        (-a * b, "-a * b"),
        (-(a * b), "-(a * b)"),
        (-(-1 * a), "-(-1 * a)"),
        (a > -1, "a > -1"),
        ((a > 1) & (b < 2) | ~(c == 3), "a > 1 AND b < 2 OR NOT c = 3"),
        ((a > 1) & ((b < 2) | (c != 3)), "a > 1 AND (b < 2 OR c <> 3)"),
        (~((a >= 1) & (b <= 2)), "NOT (a >= 1 AND b <= 2)"),
        (True & (a > 1) | False, "TRUE AND a > 1 OR FALSE"),
        ((a > 1) == (b > 1), "(a > 1) = (b > 1)"),
        ((a + 1).is_null(), "a + 1 IS NULL"),
        ((a > 1).is_not_null(), "NOT (a > 1) IS NULL"),
        (a.isin(1, b, "x"), "a IN (1, b, 'x')"),
        (a.isin([1, 2]), "a IN (1, 2)"),
        (a.isin(x for x in (1,)), "a IN (1)"),
        (a.isin(), "FALSE"),
        (a.between(b, c + 1) & (b > 1), "a BETWEEN b AND c + 1 AND b > 1"),
        (a.like("x%") & ~b.ilike("y") & c.rlike("z+"), "a LIKE 'x%' AND NOT b ILIKE 'y' AND c RLIKE 'z+'"),
        (a.cast("string"), "CAST(a AS STRING)"),
        ((a + 1).cast("array<struct<x: int>>"), "CAST(a + 1 AS ARRAY<STRUCT<x: INT>>)"),
        (a.try_cast("bigint"), "TRY_CAST(a AS BIGINT)"),
        (a.field("x").field("y"), "a.x.y"),
        (ms.fn.f(a).field("x"), "(F(a)).x"),
        (ms.col("bids.price") + ms.col("a.b.c"), "bids.price + a.b.c"),
        (ms.fn.concat("a", ms.lit("a"), 1), "CONCAT(a, 'a', 1)"),
        (ms.call("my_udf", a.alias("x"), None), "MY_UDF(a, NULL)"),
        (ms.fn.upper(a) == "X", "UPPER(a) = 'X'"),
        (ms.expr("a || b") == "x", "(a || b) = 'x'"),
        (ms.expr("a OR b") & c, "(a OR b) AND c"),
        (ms.expr("a AS x") + 1, "a + 1"),
        (ms.case().when(a > 1, "x").when(b, c).otherwise(None), "CASE WHEN a > 1 THEN 'x' WHEN b THEN c ELSE NULL END"),
        (ms.case().when(a > 1, 1) + 1, "CASE WHEN a > 1 THEN 1 END + 1"),
    ],
)
def test_an_expression_prints_as_it_would_be_written(built: Expression, text: str) -> None:
    assert str(built) == text
    assert bare(parse_expression(str(built))) == bare(parse_expression(text))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (-5, "-5"),
        (np.int64(7), "7"),
        (np.float64(0.5), "0.5e0"),
        (10**37, "1" + "0" * 37),
        (1.0, "1.0e0"),
        (-1e-7, "-1e-07"),
        (1e22, "1e+22"),
        (float("nan"), "CAST('NaN' AS DOUBLE)"),
        (float("-inf"), "CAST('-Infinity' AS DOUBLE)"),
        (Decimal("1.50"), "1.50"),
        (Decimal("-7"), "CAST(-7 AS DECIMAL(1, 0))"),
        (Decimal("1E+2"), "CAST(100 AS DECIMAL(3, 0))"),
        (Decimal("1E-2"), "0.01"),
        (b"\x00\xff", "X'00ff'"),
        (date(2025, 1, 2), "CAST('2025-01-02' AS DATE)"),
        (datetime(2025, 1, 2, 3, 4, 5, 6), "CAST('2025-01-02 03:04:05.000006' AS TIMESTAMP)"),
        (datetime(2025, 1, 2, 3, tzinfo=UTC), "CAST('2025-01-02 03:00:00' AS TIMESTAMP)"),
        (datetime(2025, 1, 2, 3, tzinfo=timezone(timedelta(hours=2))), "CAST('2025-01-02 01:00:00' AS TIMESTAMP)"),
        (timedelta(minutes=90), "INTERVAL '90' MINUTES"),
        (timedelta(microseconds=-1), "INTERVAL '-1' MICROSECONDS"),
        ("", "''"),
        ("'; DROP VIEW v; --", "'\\'; DROP VIEW v; --'"),
        ("\\", "'\\\\'"),
    ],
)
def test_literals(value: object, text: str) -> None:
    assert str(ms.lit(value)) == text


@pytest.mark.parametrize("value", [object(), [1], {"a": 1}, 10**38, Decimal("NaN"), Decimal("1e38"), 1j])
def test_what_has_no_literal_is_refused(value: object) -> None:
    with pytest.raises(ms.MillstreamError) as caught:
        ms.lit(value)
    assert caught.value.code == "BAD_LITERAL"


texts = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(
    ["'", '"', "\\'", "\\", "--", "/*", "*/", "a'b\\", "\n", "\x00", "\\0", "${x}", "{{x}}", "'''", "\\\\'", "`"]
)


@settings(max_examples=300, deadline=None)
@given(texts)
def test_any_text_stays_one_string(text: str) -> None:
    node = parse_expression(f"concat({ms.lit(text)}, a)")
    assert [literal.name for literal in node.find_all(exp.Literal)] == [text]


WORDS = """
from current_date current_timestamp localtime interval case emit null true date timestamp window first struct exists not
values a`b ` -- x'1' 1a é
"""
names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8) | st.sampled_from(
    [*WORDS.split(), "a b"]
)


@settings(max_examples=300, deadline=None)
@given(names)
def test_any_name_stays_one_column(name: str) -> None:
    node = parse_expression(f"{identifier(name).sql('streamsql')} + {identifier(name).sql('streamsql')}.x")
    columns = list(node.find_all(exp.Column))
    assert [(column.table, column.name) for column in columns] == [("", name), (name, "x")]


def test_every_keyword_can_be_a_column() -> None:
    from millstream.sql.dialect import StreamSQL

    words = {word.lower() for word in StreamSQL.Tokenizer.KEYWORDS if word.isidentifier()}
    words |= {token.name.lower() for token in StreamSQL.Parser.NO_PAREN_FUNCTIONS}
    for word in words:
        node = parse_expression(f"{identifier(word).sql('streamsql')} = 1")
        assert [column.name for column in node.find_all(exp.Column)] == [word]


leaves = st.one_of(
    st.sampled_from([a, b, c, ms.col("t.x"), ms.fn.upper("a"), ms.expr("a || b"), ms.expr("a DIV 2")]),
    st.integers(-3, 3).map(ms.lit),
    # No intervals: what is added to one is read as another interval, whatever it is.
    st.sampled_from(["x", None, True, 1.5]).map(ms.lit),
)
_BINARY = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x / y,
    lambda x, y: x % y,
    lambda x, y: x == y,
    lambda x, y: x != y,
    lambda x, y: x < y,
    lambda x, y: x & y,
    lambda x, y: x | y,
    lambda x, y: x.isin(y, 1),
    lambda x, y: x.like(y),
    lambda x, y: ms.fn.coalesce(x, y),
    lambda x, y: ms.case().when(x, y).otherwise(x),
]
_UNARY = [
    lambda x: -x,
    lambda x: ~x,
    lambda x: x.is_null(),
    lambda x: x.is_not_null(),
    lambda x: x.between(1, x),
    lambda x: x.cast("int"),
    lambda x: x.alias("y"),
]
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda f, x, y: f(x, y), st.sampled_from(_BINARY), inner, inner),
        st.builds(lambda f, x: f(x), st.sampled_from(_UNARY), inner),
    ),
    max_leaves=8,
)


@settings(max_examples=400, deadline=None)
@given(expressions)
def test_the_text_of_an_expression_is_read_as_that_expression(expression: Expression) -> None:
    again = parse_expression(str(expression))
    assert bare(again) == bare(expression.node)
    assert str(Expression(again)) == str(expression)


@pytest.mark.parametrize("example", [*SCALARS.values()])
def test_every_function_can_be_an_operand(example: str) -> None:
    built = 1 - (1 - (ms.expr(str(ms.expr(example))) * 2))
    assert bare(parse_expression(str(built))) == bare(built.node)


@pytest.mark.parametrize("name", sorted(AGGREGATE_EXAMPLES))
def test_every_aggregate_is_known_for_one(name: str) -> None:
    from millstream.builder.aggregates import holds_aggregate

    assert holds_aggregate((ms.expr(AGGREGATE_EXAMPLES[name]) + 1).node)
    assert not holds_aggregate(ms.fn.upper("a").node)
    assert not holds_aggregate(ms.expr("sum(a) OVER (PARTITION BY b)").node)
    assert not holds_aggregate(ms.expr("(SELECT max(a) FROM t)").node)


@pytest.mark.parametrize(
    ("aggregate", "text"),
    [
        (ms.count(), "COUNT(*)"),
        (ms.count("a", "b"), "COUNT(a, b)"),
        (ms.count_distinct("a", "b"), "COUNT(DISTINCT a, b)"),
        (ms.sum("a", distinct=True), "SUM(DISTINCT a)"),
        (ms.avg(a / 2).filter(b > 1), "AVG(a / 2) FILTER(WHERE b > 1)"),
        (ms.first("a", ignore_nulls=True).filter(b > 1), "FIRST(a) FILTER(WHERE b > 1 AND NOT a IS NULL)"),
        (ms.last("a"), "LAST(a)"),
        (ms.max_by("a", "b").alias("x"), "MAX_BY(a, b) AS x"),
        (ms.approx_count_distinct("a"), "APPROX_COUNT_DISTINCT(a)"),
        (ms.sum("a") / ms.count(), "SUM(a) / COUNT(*)"),
    ],
)
def test_aggregates(aggregate: Expression, text: str) -> None:
    assert str(aggregate) == text
    assert str(ms.expr(text)) == text


REFUSED: list[tuple[str, Any]] = [
    ("EXPRESSION_AS_BOOL", lambda: bool(a > 1)),
    ("EXPRESSION_AS_BOOL", lambda: a > 1 and b > 1),
    ("EXPRESSION_AS_BOOL", lambda: a in [b]),
    ("SYNTAX_ERROR", lambda: ms.expr("a >")),
    ("SYNTAX_ERROR", lambda: ms.expr("a, b")),
    ("SYNTAX_ERROR", lambda: ms.expr("a FROM t")),
    ("SYNTAX_ERROR", lambda: ms.expr("a; SELECT b")),
    ("SYNTAX_ERROR", lambda: ms.expr("DISTINCT a")),
    ("SYNTAX_ERROR", lambda: ms.expr("")),
    ("UNKNOWN_TYPE", lambda: a.cast("bigintt")),
    ("UNKNOWN_TYPE", lambda: a.cast("INT) + CAST(1 AS INT")),
    ("UNKNOWN_TYPE", lambda: a.cast("INT) FROM t --")),
    ("BAD_NAME", lambda: ms.call("f(x); --", a)),
    ("BAD_NAME", lambda: ms.call("", a)),
    ("BAD_NAME", lambda: ms.col("")),
    ("BAD_NAME", lambda: a.alias("")),
    ("SYNTAX_ERROR", lambda: ms.fn.upper("a", "b", "c")),
    ("NOT_A_CONDITION", lambda: ms.case().when(untyped("a > 1"), 1)),
    ("NOT_A_CONDITION", lambda: ms.count().filter(untyped(True))),
    ("FILTER_TWICE", lambda: ms.count().filter(a > 1).filter(b > 1)),
    ("BAD_ORDER", lambda: a.desc(nulls=untyped("never"))),
]


@pytest.mark.parametrize(("code", "misuse"), REFUSED)
def test_misuse_is_refused_at_once(code: str, misuse: Any) -> None:
    with pytest.raises(ms.MillstreamError) as caught:
        misuse()
    assert caught.value.code == code


def test_a_syntax_error_points_into_the_text_as_it_was_given() -> None:
    with pytest.raises(ms.MillstreamError) as caught:
        ms.expr("price > )")
    position = caught.value.position
    assert position is not None
    assert (position.text, position.start, position.end) == ("price > )", 8, 9)


def test_expressions_are_not_changed_by_what_is_made_of_them() -> None:
    base = a + 1
    before = str(base)
    made = (base * 2).alias("x"), base.cast("int"), base & base, ms.case().when(base > 1, base)
    assert str(base) == before
    assert [str(one) for one in made] == [
        "(a + 1) * 2 AS x",
        "CAST(a + 1 AS INT)",
        "a + 1 AND a + 1",
        "CASE WHEN a + 1 > 1 THEN a + 1 END",
    ]
    case = ms.case().when(a > 1, 1)
    case.when(b > 1, 2)
    assert str(case) == "CASE WHEN a > 1 THEN 1 END"
