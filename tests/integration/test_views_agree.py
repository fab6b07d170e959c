"""Views of many shapes: epoch by epoch, what Spark answers to the same query over all rows so far.

Streams and tables get random rows, with NULLs and disorder, and the tables change. All views are in one
database, so that they share epochs as they would in a pipeline.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

import millstream as ms
from millstream.spark.arrow import collect
from tests.parts import spark_of

pytestmark = pytest.mark.spark

COLUMNS = {
    "a": "id BIGINT, x BIGINT, s STRING, ts TIMESTAMP",
    "b": "id BIGINT, y BIGINT, ts TIMESTAMP",
    "e": "id BIGINT, tags ARRAY<STRING>, attrs MAP<STRING, BIGINT>, info STRUCT<city: STRING, n: BIGINT>, ts TIMESTAMP",
    "t": "id BIGINT, name STRING, v BIGINT",
    "u": "k1 BIGINT, k2 STRING, w BIGINT",
}
KEYS = {"t": ("id",), "u": ("k1", "k2")}
TOTALS = "SELECT id, count(*) AS n, sum(x) AS total FROM a GROUP BY id"

VIEWS = {
    # joins
    "natural_": "SELECT * FROM t NATURAL JOIN a",
    "natural_full": "SELECT * FROM t NATURAL FULL JOIN totals",
    "natural_sub": "SELECT id, x, w FROM a NATURAL LEFT JOIN (SELECT k1 AS id, w FROM u) q",
    "using_full": "SELECT id, n, y, name FROM totals FULL JOIN "
    "(SELECT id, max(y) AS y FROM b GROUP BY id) m USING (id) FULL JOIN t USING (id)",
    "semi_": "SELECT * FROM t SEMI JOIN u ON t.id = u.k1 AND u.w > 3",
    "anti_using": "SELECT id, x FROM a ANTI JOIN t USING (id)",
    "comma_left": "SELECT t.id, k1, n FROM t, u LEFT JOIN totals ON totals.id = u.k1 WHERE t.v = u.w",
    "unequal": "SELECT t.id, u.k1 FROM t FULL JOIN u ON t.v = u.w + 1",
    "parentheses": "SELECT a.id, x, y, name FROM a LEFT JOIN (b JOIN t ON b.id = t.id) ON a.id = b.id",
    "lateral_group": "SELECT t.id, q.w FROM t, LATERAL (SELECT max(w) AS w FROM u WHERE u.k1 = t.id) q",
    "lateral_top": "SELECT t.id, q.y FROM t LEFT JOIN LATERAL "
    "(SELECT y FROM b WHERE b.id = t.id ORDER BY y LIMIT 1) q ON true",
    # subqueries
    "not_in": "SELECT id, name FROM t WHERE id NOT IN (SELECT k1 FROM u)",
    "not_in_nulls": "SELECT id, name FROM t WHERE id NOT IN (SELECT id FROM a)",
    "in_pair": "SELECT id, x FROM a WHERE (id, s) IN (SELECT k1, k2 FROM u)",
    "nested_exists": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k1 = t.id AND "
    "EXISTS (SELECT 1 FROM a WHERE a.id = u.k1 AND a.s = u.k2))",
    "scalar_corr": "SELECT a.id, x, (SELECT count(*) FROM b WHERE b.id = a.id) AS n FROM a",
    "having_scalar": "SELECT id, count(*) AS n FROM a GROUP BY id HAVING count(*) > (SELECT avg(n) FROM totals)",
    # sets and WITH
    "union_limit": "SELECT id, x AS v FROM a UNION ALL SELECT id, y FROM b ORDER BY v DESC, id LIMIT 4",
    "nested_sets": "(SELECT id FROM a INTERSECT SELECT id FROM b) UNION ALL (SELECT id FROM t EXCEPT SELECT k1 FROM u)",
    "except_all": "SELECT id FROM a EXCEPT ALL SELECT id FROM b",
    "nulls_union": "SELECT id, name, NULL AS ts FROM t UNION ALL SELECT id, NULL, ts FROM a",
    "with_": "WITH p AS (SELECT id, x FROM a WHERE x > 3), q AS (SELECT id, count(*) AS n FROM p GROUP BY id) "
    "SELECT p.id, p.x, q.n FROM p JOIN q ON p.id = q.id",
    # groups
    "cube_": "SELECT id, s, count(*) AS n FROM a GROUP BY id, s WITH CUBE",
    "grouping_sets": "SELECT k1, k2, sum(w) AS w, grouping(k1) AS g FROM u GROUP BY GROUPING SETS ((k1), (k2), ())",
    "group_all": "SELECT id, s, max(x) AS m, count(*) FILTER (WHERE x > 3) AS n FROM a GROUP BY ALL",
    "having_alone": "SELECT max(v) AS m FROM t HAVING count(*) > 2",
    "greatest_struct": "SELECT s, max(struct(x, ts)) AS m, max_by(id, struct(x, ts)) AS i FROM a GROUP BY s",
    "pivot_": "SELECT * FROM a PIVOT (count(ts) FOR s IN ('p' AS p, 'q' AS q))",
    "pivot_two": "SELECT * FROM (SELECT k1, k2, w FROM u) PIVOT (sum(w) AS s, max(w) AS m FOR k2 IN ('p', 'q'))",
    "unpivot_": "SELECT * FROM (SELECT id, x, x * 2 AS y FROM a) UNPIVOT (v FOR c IN (x, y AS twice))",
    # windows over rows
    "frames": "SELECT id, v, sum(v) OVER w AS a, "
    "max(v) OVER (ORDER BY v RANGE BETWEEN 2 PRECEDING AND CURRENT ROW) AS b FROM t "
    "WINDOW w AS (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    "ranked_groups": "SELECT s, count(*) AS n, rank() OVER (ORDER BY count(*) DESC) AS r FROM a GROUP BY s",
    "limit_offset": "SELECT id, v FROM t ORDER BY v DESC, 1 LIMIT 2 OFFSET 1",
    # nested values
    "explode_outer_": "SELECT id, tag FROM e LATERAL VIEW OUTER explode(tags) q AS tag",
    "explode_map": "SELECT id, k, v FROM e LATERAL VIEW explode(attrs) q AS k, v",
    "explode_place": "SELECT id, p, tag FROM e LATERAL VIEW posexplode(tags) q AS p, tag",
    "explode_group": "SELECT tag, count(*) AS n FROM (SELECT explode(tags) AS tag FROM e) GROUP BY tag",
    "fields": "SELECT id, info.*, filter(tags, g -> g > 'a') AS f FROM e",
    "aliases": "SELECT id, sum(x) AS total, total * 2 AS twice, twice + 1 AS more FROM a GROUP BY id",
}
# Where Spark has no such form: what it says in other words.
OTHERWISE = {
    "ranked_only": (
        "SELECT s, count(*) AS n FROM a GROUP BY s QUALIFY rank() OVER (ORDER BY count(*) DESC) = 1",
        "SELECT s, n FROM (SELECT s, n, rank() OVER (ORDER BY n DESC) AS r FROM "
        "(SELECT s, count(*) AS n FROM a GROUP BY s)) WHERE r = 1",
    ),
    "some_": (
        "SELECT id, v FROM t WHERE v > ANY (SELECT w FROM u)",
        "SELECT id, v FROM t WHERE v > (SELECT min(w) FROM u)",
    ),
    "all_": (
        "SELECT id, v FROM t WHERE v >= ALL (SELECT w FROM u WHERE u.k1 = t.id)",
        "SELECT id, v FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k1 = t.id AND w > t.v)",
    ),
}


class Rows:
    """Random rows, and all that were inserted, as Spark sees them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.second = 0
        self.all: dict[str, list[dict[str, Any]]] = {name: [] for name in COLUMNS}

    def insert(self, db: ms.Database) -> None:
        for name, key in KEYS.items():
            rows = list({tuple(row[k] for k in key): row for row in (self._row(name) for _ in range(3))}.values())
            db.insert(name, rows)
            replaced = {tuple(row[k] for k in key) for row in rows}
            kept = [row for row in self.all[name] if tuple(row[k] for k in key) not in replaced]
            self.all[name] = kept + rows
        for name in (name for name in COLUMNS if name not in KEYS):
            rows = [self._row(name) for _ in range(self.chance.randrange(2, 9))]
            db.insert(name, rows)
            self.all[name] += rows

    def _row(self, name: str) -> dict[str, Any]:
        chance = self.chance
        self.second += 1
        number = chance.randrange(10)
        some_id = chance.choice((None, 1, 2, 3, 4))
        ts = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.second - chance.randrange(10))
        match name:
            case "a":
                return {"id": some_id, "x": chance.choice((None, number)), "s": chance.choice("pq"), "ts": ts}
            case "b":
                return {"id": some_id, "y": number, "ts": ts}
            case "e":
                tags = [chance.choice("abc") for _ in range(chance.randrange(3))]
                attrs = dict.fromkeys(chance.choice(("", "k", "l")), number)
                info = {"city": chance.choice(("Bern", "Rome")), "n": number}
                return {"id": number, "tags": tags, "attrs": attrs, "info": info, "ts": ts}
            case "t":
                return {"id": chance.randrange(6), "name": chance.choice(("ann", "bob", None)), "v": number}
            case _:
                return {"k1": chance.randrange(4), "k2": chance.choice("pq"), "w": number}

    def show(self, spark: SparkSession) -> None:
        for name, columns in COLUMNS.items():
            rows = [tuple(row.values()) for row in self.all[name]]
            spark.createDataFrame(rows, columns).coalesce(1).createOrReplaceTempView(name)
        spark.sql(TOTALS).createOrReplaceTempView("totals")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ms.Database]:
    with ms.connect(tmp_path_factory.mktemp("views") / "db") as db:
        yield db


def bag(columns: list[list[Any]]) -> Counter[Any]:
    return Counter(_value(row) for row in zip(*columns, strict=True))


def _value(value: Any) -> Any:
    """What can be counted, and is the same for equal values of different engines."""
    if isinstance(value, dict):
        return tuple(_value(part) for part in value.values())
    if isinstance(value, list | tuple):
        return tuple(_value(part) for part in value)
    if isinstance(value, Decimal | float):
        return round(float(value), 9)
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def test_views_are_what_spark_answers(database: ms.Database) -> None:
    db, rows = database, Rows(7)
    for name, columns in COLUMNS.items():
        if name in KEYS:
            db.sql(f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({', '.join(KEYS[name])}))")
        else:
            db.sql(f"CREATE STREAM {name} ({columns}, WATERMARK FOR ts AS ts - INTERVAL 20 SECONDS)")
    db.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    queries = {**{name: (query, query) for name, query in VIEWS.items()}, **OTHERWISE}
    for name, (query, _) in queries.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    session = spark_of(db).session()
    answered = {"not_in_nulls"}
    for epoch in range(3):
        rows.insert(db)
        db.drain()
        if epoch == 0:
            continue  # The first epoch has nothing to build on; asking Spark is what takes time here.
        rows.show(session)
        for name, (_, asked) in queries.items():
            ours = db.query(f"SELECT * FROM {name}").to_arrow()
            theirs = collect(session.sql(asked))
            assert [c.lower() for c in ours.column_names] == [c.lower() for c in theirs.column_names], name
            got, wanted = (bag([column.to_pylist() for column in answer.columns]) for answer in (ours, theirs))
            assert got == wanted, f"{name} after epoch {epoch}"
            answered |= {name} if got else set()
    assert answered == set(queries)
