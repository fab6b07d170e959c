"""Steps that share one SELECT mean what they mean one by one.

The oracle puts every step into a query of its own around the one before, and DuckDB runs both
over the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

import millstream as ms
from millstream.builder.expressions import Expression
from millstream.builder.relations import Relation

Row = tuple[int | None, ...]

a, b, c = ms.col("a"), ms.col("b"), ms.col("c")


@dataclass(frozen=True)
class Step:
    """A step as the builder takes it, and as a query around the query before."""

    build: Callable[[Relation], Relation]
    around: Callable[[str], str]
    said: str

    def __repr__(self) -> str:
        return self.said


def sql(expression: Expression) -> str:
    return expression.node.sql(dialect="duckdb")


numbers = st.recursive(
    st.sampled_from([a, b, c]) | st.integers(-2, 2).map(ms.lit),
    lambda inner: st.one_of(
        st.builds(lambda x, y: x + y, inner, inner),
        st.builds(lambda x, y: x - y, inner, inner),
        st.builds(lambda x, y: x * y, inner, inner),
        st.builds(lambda x: -x, inner),
        st.builds(lambda x, y: ms.case().when(x > y, x).otherwise(y), inner, inner),
        st.builds(lambda x: ms.fn.coalesce(x, 7), inner),
    ),
    max_leaves=4,
)
tests = st.recursive(
    st.builds(lambda x, y: x > y, numbers, numbers)
    | st.builds(lambda x: x.is_null(), numbers)
    | st.builds(lambda x, y: x.between(y, 3), numbers, numbers)
    | st.builds(lambda x, y: x.isin(y, 0), numbers, numbers),
    lambda inner: st.builds(lambda x, y: x & ~y, inner, inner) | st.builds(lambda x, y: x | y, inner, inner),
    max_leaves=3,
)


def filtered(test: Expression) -> Step:
    return Step(lambda r: r.filter(test), lambda q: f"SELECT * FROM ({q}) AS q WHERE {sql(test)}", f"filter({test})")


def selected(x: Expression, y: Expression) -> Step:
    return Step(
        lambda r: r.select("c", a=x, b=y),
        lambda q: f"SELECT c, {sql(x)} AS a, {sql(y)} AS b FROM ({q}) AS q",
        f"select(c, a={x}, b={y})",
    )


def grouped(key: Expression, value: Expression, test: Expression) -> Step:
    return Step(
        lambda r: r.group_by("c", a=key).agg(b=ms.sum(value)).filter(test),
        lambda q: (
            f"SELECT * FROM (SELECT c, {sql(key)} AS a, sum({sql(value)}) AS b FROM ({q}) AS q "
            f"GROUP BY ALL) AS q WHERE {sql(test)}"
        ),
        f"group_by(c, a={key}).agg(b=sum({value})).filter({test})",
    )


def having(test: Expression) -> Step:
    """Over all of the rows: one group, which may vanish."""
    return Step(
        lambda r: r.group_by("c").agg(a=ms.max(a), b=ms.count()).having((ms.min("b") < b) | test),
        lambda q: (
            "SELECT c, a, b FROM (SELECT c, max(a) AS a, count(*) AS b, min(b) AS m "
            f"FROM ({q}) AS q GROUP BY c) AS q WHERE m < b OR {sql(test)}"
        ),
        f"having({test})",
    )


def topped(key: Expression) -> Step:
    return Step(
        lambda r: r.top(2, by=key, order_by=[ms.desc("a"), "b", "c"]).select("a", "b", "c"),
        lambda q: (
            f"SELECT a, b, c FROM (SELECT *, row_number() OVER (PARTITION BY {sql(key)} "
            f"ORDER BY a DESC NULLS LAST, b NULLS FIRST, c NULLS FIRST) AS r FROM ({q}) AS q) AS q WHERE r <= 2"
        ),
        f"top(2, by={key})",
    )


DISTINCT = Step(lambda r: r.distinct(), lambda q: f"SELECT DISTINCT * FROM ({q}) AS q", "distinct()")
FIRST = Step(
    lambda r: r.order_by("a", ms.desc("b"), "c").limit(3),
    lambda q: f"SELECT * FROM ({q}) AS q ORDER BY a NULLS FIRST, b DESC NULLS LAST, c NULLS FIRST LIMIT 3",
    "order_by(a, b, c).limit(3)",
)
TWICE = Step(
    lambda r: r.select("a", "b", "c").union_all(r.select("c", "b", "a")),
    lambda q: f"SELECT a, b, c FROM ({q}) AS q UNION ALL SELECT c, b, a FROM ({q}) AS q",
    "union_all(select(c, b, a))",
)
steps = st.lists(
    st.one_of(
        st.builds(filtered, tests),
        st.builds(selected, numbers, numbers),
        st.builds(grouped, numbers, numbers, tests),
        st.builds(having, tests),
        st.builds(topped, numbers),
        st.sampled_from([DISTINCT, FIRST, TWICE]),
    ),
    min_size=1,
    max_size=5,
)
values = st.none() | st.integers(-3, 3)
rows = st.lists(st.tuples(values, values, values), min_size=1, max_size=12)


PAIRED = [
    filtered(a * 2 > b - c),
    filtered(~((a > 0) & (b < 2)) | c.is_null()),
    selected(a + b, b - a),
    selected(a * b - c, -a * 2),
    selected(b, b),
    grouped(a * 2, b - 1, b > 0),
    grouped(ms.lit(2), a, a < 3),
    grouped(-ms.lit(-2), b, a < 3),
    having(a * 2 > b),
    topped(b - a),
    DISTINCT,
    FIRST,
    TWICE,
]
ROWS: list[Row] = [(x, y, z) for x in (None, -1, 0, 2) for y in (None, 1, 2) for z in (0, 0, 1)]


@pytest.mark.parametrize("first", PAIRED, ids=repr)
@pytest.mark.parametrize("second", PAIRED, ids=repr)
def test_every_step_after_every_other(first: Step, second: Step) -> None:
    check([first, second], ROWS)


@settings(max_examples=60, deadline=None)
@given(steps, rows)
def test_steps_together_and_one_by_one(steps: list[Step], rows: list[Row]) -> None:
    check(steps, rows)


def with_columns_first(query: exp.Query) -> exp.Query:
    """In HAVING a name is a column before it is an output, to StreamSQL; to DuckDB it is the other way round."""
    query = query.copy()
    for having in query.find_all(exp.Having):
        select = having.find_ancestor(exp.Select)
        assert select is not None
        source = select.args["from_"].this
        if not source.alias_or_name:
            source.set("alias", exp.TableAlias(this=exp.to_identifier("q")))
        for column in having.find_all(exp.Column):
            column.set("table", exp.to_identifier(column.table or source.alias_or_name))
    return query


def check(steps: list[Step], rows: list[Row]) -> None:
    relation: Relation = ms.stream("t").select("a", "b", "c")
    query = "SELECT a, b, c FROM t"
    for step in steps:
        relation, query = step.build(relation), step.around(query)
    relation, query = relation.select("a", "b", "c"), f"SELECT a, b, c FROM ({query}) AS q"
    with duckdb.connect() as store:
        store.execute("CREATE TABLE t (a HUGEINT, b HUGEINT, c HUGEINT)")
        store.execute("INSERT INTO t VALUES " + ", ".join(str(row).replace("None", "NULL") for row in rows))
        built = with_columns_first(relation.statement("v").query).sql(dialect="duckdb")
        expected = sorted(store.sql(query).fetchall(), key=repr)
        assert sorted(store.sql(built).fetchall(), key=repr) == expected
