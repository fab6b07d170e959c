"""What may fail in the store's SQL is guarded, and nothing else is."""

from __future__ import annotations

import duckdb
import pytest

from millstream.duck import guarded_sql
from millstream.duck.connection import give_meaning
from millstream.sql import parse_statement
from millstream.sql.statements import Select


def query(text: str) -> str:
    statement = parse_statement(text)
    assert isinstance(statement, Select)
    return guarded_sql(statement.query)


@pytest.fixture(scope="module")
def store() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    give_meaning(connection)
    connection.execute("CREATE TABLE t (k VARCHAR, a BIGINT, b BIGINT, l BIGINT[], f BOOLEAN)")
    connection.execute("INSERT INTO t VALUES ('1', 6, 3, [1], true), ('x', 5, 0, [0, 1], NULL)")
    return connection


@pytest.mark.parametrize(
    "text",
    [
        "SELECT t.k, t.a FROM t JOIN t AS u ON t.k = u.k AND t.a < u.b WHERE t.k IS NULL OR t.k = 'x' AND f",
        "SELECT coalesce(a, b), CASE WHEN f THEN a ELSE b END, try_cast(k AS INT) FROM t",
        "SELECT k, count(*), max(a) FROM t GROUP BY k HAVING count(*) > 1",
        "SELECT k, row_number() OVER (PARTITION BY k ORDER BY a) FROM t",
        "SELECT k FROM t GROUP BY k HAVING count(*) FILTER (WHERE f) = 1 AND sum(a) <> -2",
        "SELECT k FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY a) = 1",
        "SELECT a FROM t WHERE k LIKE 'a%' AND k IN ('x', 'y') AND a IN (SELECT b FROM t)",
    ],
)
def test_what_cannot_fail_is_left_alone(text: str) -> None:
    # `try_cast` is a TRY of its own.
    assert query(text).count("TRY(") == text.count("try_cast")


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT a / b FROM t", [(2.0,), (None,)]),
        ("SELECT a FROM t WHERE b = 0 OR a / b > 1", [(6,), (5,)]),
        ("SELECT a FROM t WHERE NOT a / b > 1", []),
        ("SELECT a FROM t WHERE a / b IS NULL", [(5,)]),
        ("SELECT a FROM t WHERE k IN (1, 2)", [(6,)]),
        ("SELECT a FROM t WHERE a BETWEEN 0 AND a / b + 4", [(6,)]),
        ("SELECT a FROM t WHERE k <> -1", [(6,)]),
        ("SELECT sum(cast(k AS INT)) FROM t", [(1,)]),
        ("SELECT f, sum(a) / sum(b) + count(*) FROM t GROUP BY f ORDER BY 1 NULLS LAST", [(True, 3.0), (None, None)]),
        ("SELECT f FROM t GROUP BY f HAVING sum(a) / sum(b) IS NULL", [(None,)]),
        ("SELECT cast(k AS INT) + 1, count(*) FROM t GROUP BY cast(k AS INT) ORDER BY 1 NULLS LAST",
         [(2, 1), (None, 1)]),
        ("SELECT cast(max(k) OVER () AS INT) FROM t", [(None,), (None,)]),
        ("SELECT a FROM t WHERE a > (SELECT min(cast(k AS INT)) FROM t) + 4", [(6,)]),
        ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM t AS u WHERE u.a = t.a / t.b + 4)", [(6,)]),
        ("SELECT transform(l, x -> 10 / x) FROM t", [([10.0],), (None,)]),
        ("SELECT l[1] FROM t", [(None,), (1,)]),
        ("SELECT a FROM t ORDER BY cast(k AS INT) DESC NULLS LAST LIMIT 1", [(6,)]),
        ("SELECT explode(split(k, '')) FROM t", [("1",), ("x",)]),
        ("SELECT count(*) FILTER (WHERE a / b > 1) FROM t", [(1,)]),
        ("SELECT a + 9223372036854775807 FROM t", [(None,), (None,)]),
        ("SELECT cast('7' AS INT) + a FROM t", [(13,), (12,)]),
        ("SELECT count(DISTINCT cast(k AS INT)) FROM t", [(1,)]),
        ("SELECT any_value(cast(k AS INT)) IGNORE NULLS + 1 FROM t", [(2,)]),
        ("SELECT sum(10 / b) FILTER (WHERE k = 1) FROM t", [(10 / 3,)]),
        ("SELECT lag(cast(k AS INT)) OVER (ORDER BY a) + 1 FROM t", [(None,), (None,)]),
        ("SELECT cast(k AS INT), if(a / b > 1, 1, 2), count(*) FROM t GROUP BY ROLLUP (cast(k AS INT)), (a / b > 1) "
         "ORDER BY 1 NULLS LAST, 2, 3", [(1, 1, 1), (None, 1, 1), (None, 2, 1), (None, 2, 1)]),
        ("SELECT a FROM t LATERAL VIEW explode(array(10 / b, 1.0D)) q AS e", [(6,), (6,)]),
        ("SELECT k LIKE k || '\\\\' FROM t", [(None,), (None,)]),
        ("SELECT k LIKE k || '%' FROM t", [(True,), (True,)]),
        ("SELECT nullif(b, k) FROM t", [(3,), (None,)]),
        ("SELECT CASE a WHEN k THEN 1 ELSE 2 END FROM t", [(2,), (None,)]),
        ("SELECT a FROM t WHERE a IN (k, b + 3)", [(6,)]),
        ("SELECT max(k) = 1 FROM t", [(None,)]),
        ("SELECT f FROM t GROUP BY f HAVING min(k) = 1", [(True,)]),
        ("SELECT a FROM t WHERE a > (SELECT b FROM t)", []),
        ("SELECT a FROM t WHERE a > (SELECT u.b FROM t AS u WHERE u.a = t.a)", [(6,), (5,)]),
        ("SELECT (SELECT b FROM t WHERE a = 6), (SELECT b FROM t)", [(3, None)]),
        ("SELECT try_cast(split(k, '') AS ARRAY<INT>) FROM t", [([1],), ([None],)]),
        ("SELECT count(*) OVER (ORDER BY c RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM "
         "(SELECT cast(-9223372036854775808 AS BIGINT) AS c) q", [(1,)]),
    ],
)  # fmt: skip
def test_what_fails_is_null(text: str, rows: list[tuple[object, ...]], store: duckdb.DuckDBPyConnection) -> None:
    assert store.execute(query(text)).fetchall() == rows


@pytest.mark.parametrize("condition", ["k", "NOT k", "f AND a", "lower(k)", "(k)"])
def test_a_condition_is_no_text_and_no_number(condition: str, store: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.Error, match="a condition is BOOLEAN"):
        store.execute(query(f"SELECT a FROM t WHERE {condition}"))
