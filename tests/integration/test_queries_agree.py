"""Aggregates, window functions, grouping and order give the same on Spark and in the store, over edge values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import millstream as ms
from millstream.sql.allowlist import AGGREGATE_EXAMPLES, WINDOWED
from tests.integration.agreement import query_rows, same
from tests.integration.edge_values import table

pytestmark = pytest.mark.spark

TYPES = ("INT", "BIGINT", "DOUBLE", "DECIMAL(10, 2)", "STRING", "DATE", "TIMESTAMP", "BOOLEAN")
COLUMNS = {type_: f"a{index}" for index, type_ in enumerate(TYPES)}
ORDERED = "(PARTITION BY id % 3 ORDER BY {c}, id)"

QUERIES = [
    # aggregates over columns with and without rows
    *(f"SELECT min({c}), max({c}), count({c}), count(*), count(DISTINCT {c}) FROM t" for c in COLUMNS.values()),
    *(f"SELECT id % 4, min({c}), max({c}) FROM t GROUP BY id % 4" for c in COLUMNS.values()),
    *(f"SELECT sum({c}), avg({c}), any_value({c}) FROM t WHERE false" for c in ("a0", "a1", "a2")),
    "SELECT sum(a0), avg(a0), mean(a0) FROM t",
    "SELECT id % 2, sum(a2), avg(a2) FROM t WHERE a2 BETWEEN -1e10D AND 1e10D GROUP BY id % 2",
    "SELECT sum(a2), avg(a2) FROM t",
    "SELECT sum(a3) FROM t",
    "SELECT stddev(a0), stddev_samp(a0), stddev_pop(a0), variance(a0), var_samp(a0), var_pop(a0) FROM t WHERE a0 < 100",
    "SELECT stddev(a0), var_samp(a0), var_pop(a0), stddev_pop(a0) FROM t WHERE id = 1",
    "SELECT bool_and(a7), bool_or(a7), every(a7), some(a7), any(a7) FROM t",
    "SELECT bool_and(a7), bool_or(a7) FROM t WHERE a7 IS NULL",
    "SELECT count_if(a0 > 0), count_if(a7), sum(a0) FILTER (WHERE a0 > 0), sum(DISTINCT a0) FROM t",
    "SELECT max_by(id, a2), min_by(id, a0) FROM t WHERE a2 IS NOT NULL AND a2 < 1e300D AND id < 20",
    # groups and order, with NULL, NaN and both zeros
    *(f"SELECT {c}, count(*) FROM t GROUP BY {c}" for c in COLUMNS.values()),
    *(f"SELECT DISTINCT {c} FROM t" for c in COLUMNS.values()),
    *(f"SELECT {c} FROM t ORDER BY {c}, id" for c in COLUMNS.values()),
    *(f"SELECT {c} FROM t ORDER BY {c} DESC, id" for c in COLUMNS.values()),
    "SELECT a0 FROM t ORDER BY a0 DESC NULLS FIRST, id LIMIT 7",
    "SELECT a0 FROM t ORDER BY a0 NULLS LAST, id LIMIT 5 OFFSET 3",
    # window functions
    *(
        f"SELECT id, row_number() OVER {w}, lag({c}) OVER {w}, lead({c}, 2) OVER {w}, first_value({c}) OVER {w}, "
        f"last_value({c}) OVER {w}, nth_value({c}, 2) OVER {w} FROM t"
        for c in COLUMNS.values()
        for w in [ORDERED.format(c=c)]
    ),
    *(
        f"SELECT id, rank() OVER {w}, dense_rank() OVER {w}, percent_rank() OVER {w}, cume_dist() OVER {w} FROM t"
        for c in COLUMNS.values()
        for w in [f"(PARTITION BY id % 3 ORDER BY {c} DESC)"]
    ),
    "SELECT id, ntile(4) OVER (ORDER BY id), lag(a0, 1, 0) OVER (ORDER BY id) FROM t",
    "SELECT id, sum(a0) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM t WHERE a0 < 100",
    "SELECT id, count(*) OVER (ORDER BY a0), max(a2) OVER (ORDER BY a0) FROM t",
    # relations
    "SELECT a0 FROM t UNION SELECT a0 FROM t",
    "SELECT a2 FROM t EXCEPT SELECT a2 FROM t WHERE a2 > 0",
    "SELECT a4 FROM t INTERSECT SELECT a4 FROM t WHERE length(a4) < 3",
    "SELECT l.id, r.id FROM t l JOIN t r ON l.a2 = r.a2 WHERE l.id < 30 AND r.id < 30",
    "SELECT l.id, r.id FROM t l LEFT JOIN t r ON l.a0 = r.a0 AND r.id < 10 WHERE l.id < 20",
    "SELECT id, a0 FROM t WHERE a0 IN (SELECT a0 FROM t WHERE id < 5)",
    "SELECT a7, a0 % 2, grouping(a7), count(*) FROM t WHERE a0 > 0 GROUP BY ROLLUP (a7, a0 % 2)",
    "SELECT id, e FROM t LATERAL VIEW explode(array(a0, NULL, 7)) q AS e WHERE id < 9",
    "SELECT id, p, e FROM t LATERAL VIEW posexplode(array(a4, 'x')) q AS p, e WHERE id < 9",
    "SELECT explode(array(1, NULL, 2)) AS e",
]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ms.Database]:
    with ms.connect(tmp_path_factory.mktemp("agree") / "db") as db:
        yield db


def comparable(rows: list[tuple[Any, ...]], text: str) -> list[tuple[Any, ...]]:
    return rows if " ORDER BY a" in text and "OVER" not in text else sorted(rows, key=repr)


@pytest.mark.parametrize("text", QUERIES)
def test_spark_and_the_store_agree(text: str, database: ms.Database) -> None:
    ours, theirs = (comparable(rows, text) for rows in query_rows(database, table(TYPES, 60), text))
    different = [pair for pair in zip(ours, theirs, strict=False) if not same(*pair)]
    assert not different, different[:5]
    assert len(ours) == len(theirs)


def test_every_aggregate_and_window_function_is_among_the_queries() -> None:
    # Their values depend on the order of the rows, which a query does not have, or are estimates.
    unordered = {"approx_count_distinct", "array_agg", "collect_list", "collect_set", "first", "last"}
    text = " ".join(QUERIES)
    missing = {name for name in {*AGGREGATE_EXAMPLES, *WINDOWED} if f"{name}(" not in text}
    assert missing == unordered
