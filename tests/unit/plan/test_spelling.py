"""Short forms of SQL, written out."""

from __future__ import annotations

import pytest
from sqlglot import exp, parse_one

from millstream.model.errors import MillstreamError
from millstream.plan.spelling import write_nested_joins, write_out

COLUMNS = {"r": ["id", "k", "x"], "s": ["k", "y", "id"], "t": ["z"]}


def columns(item: exp.Expr) -> list[str]:
    return COLUMNS[item.name] if isinstance(item, exp.Table) else item.this.named_selects


def written(text: str) -> str:
    query = parse_one(text, dialect="spark")
    assert isinstance(query, exp.Query)
    return write_out(query, columns, lambda code, message, node, **more: MillstreamError(code, message)).sql("spark")


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("SELECT * FROM r NATURAL JOIN s", "SELECT * FROM r JOIN s USING (k, id)"),
        ("SELECT * FROM t, r NATURAL LEFT JOIN s", "SELECT * FROM t CROSS JOIN r LEFT JOIN s USING (k, id)"),
        (
            "SELECT * FROM r NATURAL FULL JOIN (SELECT k, max(y) AS y FROM s GROUP BY k) AS q",
            "SELECT * FROM r FULL JOIN (SELECT k, MAX(y) AS y FROM s GROUP BY k) AS q USING (k)",
        ),
        ("SELECT id FROM r GROUP BY id, k WITH CUBE", "SELECT id FROM r GROUP BY CUBE (id, k)"),
        ("SELECT id FROM r GROUP BY id, k WITH ROLLUP", "SELECT id FROM r GROUP BY ROLLUP (id, k)"),
        (
            "SELECT id FROM r UNION SELECT id FROM s ORDER BY id LIMIT 3",
            "SELECT * FROM (SELECT id FROM r UNION SELECT id FROM s) AS __union ORDER BY id LIMIT 3",
        ),
        (
            "WITH q AS (SELECT id FROM r) SELECT id FROM q EXCEPT SELECT id FROM s LIMIT 1 OFFSET 2",
            "WITH q AS (SELECT id FROM r) SELECT * FROM (SELECT id FROM q EXCEPT SELECT id FROM s) AS __union "
            "LIMIT 1 OFFSET 2",
        ),
        (
            "SELECT * FROM (SELECT id FROM r UNION SELECT id FROM s LIMIT 3) AS q",
            "SELECT * FROM (SELECT * FROM (SELECT id FROM r UNION SELECT id FROM s) AS __union LIMIT 3) AS q",
        ),
        (
            "SELECT id FROM r UNION SELECT id FROM s ORDER BY id",
            "SELECT id FROM r UNION SELECT id FROM s",
        ),
        (
            "SELECT * FROM r PIVOT (sum(x) FOR k IN ('p', 'q' AS qq)) AS z",
            "SELECT * FROM (SELECT id, SUM(x) FILTER(WHERE k IS NOT DISTINCT FROM 'p') AS p, "
            "SUM(x) FILTER(WHERE k IS NOT DISTINCT FROM 'q') AS qq FROM r AS __pivoted GROUP BY id) AS z",
        ),
        (
            "SELECT * FROM r PIVOT (count(*) FOR k IN ('p'))",
            "SELECT * FROM (SELECT id, x, CASE WHEN COUNT(*) FILTER(WHERE k IS NOT DISTINCT FROM 'p') > 0 "
            "THEN COUNT(*) FILTER(WHERE k IS NOT DISTINCT FROM 'p') END AS p "
            "FROM r AS __pivoted GROUP BY id, x) AS __pivot",
        ),
        (
            "SELECT * FROM r UNPIVOT (v FOR c IN (x, k AS kk)) AS z",
            "SELECT * FROM (SELECT id, 'x' AS c, x AS v FROM r AS __pivoted WHERE NOT x IS NULL UNION ALL "
            "SELECT id, 'kk' AS c, k AS v FROM r AS __pivoted WHERE NOT k IS NULL) AS z",
        ),
        (
            "SELECT * FROM r UNPIVOT INCLUDE NULLS (v FOR c IN (x))",
            "SELECT * FROM (SELECT id, k, 'x' AS c, x AS v FROM r AS __pivoted) AS __pivot",
        ),
    ],
)
def test_what_a_short_form_says(short: str, long: str) -> None:
    assert written(short) == long


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT * FROM r NATURAL JOIN t", "NO_COMMON_COLUMN"),
        ("SELECT * FROM r PIVOT (sum(x) FOR (id, k) IN ((1, 2)))", "NOT_SUPPORTED"),
    ],
)
def test_what_has_no_meaning_is_refused(text: str, code: str) -> None:
    with pytest.raises(MillstreamError) as refused:
        written(text)
    assert refused.value.code == code


@pytest.mark.parametrize(
    "joined", ["r LEFT JOIN (s JOIN t ON s.y = t.z) ON r.id = s.id", "r LEFT JOIN s JOIN t ON s.y = t.z ON r.id = s.id"]
)
def test_a_join_inside_of_a_join_is_a_subquery(joined: str) -> None:
    query = parse_one(f"SELECT r.k, t.z FROM {joined} WHERE s.y > 1", dialect="spark")
    assert isinstance(query, exp.Query)
    write_nested_joins(query)
    assert query.sql("spark") == (
        "SELECT r.k, `__join`.`t.z` FROM r LEFT JOIN (SELECT t.z AS `t.z`, s.id AS `s.id`, s.y AS `s.y` FROM s "
        "JOIN t ON s.y = t.z) AS __join ON r.id = `__join`.`s.id` WHERE `__join`.`s.y` > 1"
    )
