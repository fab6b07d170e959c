"""Views of hundreds of groups with texts and lists, many of which change in an epoch and many of which do not.

What a store does wrong with vectors of rows, or with rows of the same transaction, does not show with three groups.
After every epoch each view is compared with DuckDB's answer over all rows so far.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from ..conftest import Connect

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [("id", pa.int64()), ("k", pa.string()), ("v", pa.int64()), ("s", pa.string()), ("ts", pa.timestamp("us", "UTC"))]
)
GROUPED = "k, count(*) AS n, max(s) AS s"
PANES = "EARLY EVERY 1 ROW ON WATERMARK LATE EVERY 1 ROW"
LATENESS = "ALLOWED LATENESS INTERVAL 1 HOUR"
RANK = "row_number() OVER (PARTITION BY k ORDER BY v DESC, id)"
IN_SESSIONS = """
    (SELECT *, sum(begins) OVER (PARTITION BY k ORDER BY ts, id) AS session FROM (SELECT *, CAST(coalesce(
    ts - lag(ts) OVER (PARTITION BY k ORDER BY ts, id) >= INTERVAL 5 SECONDS, true) AS BIGINT) AS begins FROM rows))
"""

# (the view, the same of all rows)
VIEWS = {
    "live": (
        f"SELECT {GROUPED}, collect_set(v) AS l FROM e GROUP BY k",
        f"SELECT {GROUPED}, {{set}} FROM rows GROUP BY k",
    ),
    "retracting": (
        f"SELECT {GROUPED} FROM e GROUP BY k EMIT ON EPOCH RETRACTING",
        f"SELECT {GROUPED} FROM rows GROUP BY k",
    ),
    "some": (
        f"SELECT {GROUPED} FROM e GROUP BY k HAVING count(*) > 3",
        f"SELECT {GROUPED} FROM rows GROUP BY k HAVING count(*) > 3",
    ),
    "over": (
        "SELECT n, count(*) AS groups FROM some GROUP BY n",
        "SELECT n, count(*) AS groups FROM (SELECT count(*) AS n FROM rows GROUP BY k HAVING n > 3) GROUP BY n",
    ),
    "leaders": (
        "SELECT k, n, s, l FROM live ORDER BY n DESC, k LIMIT 10",
        f"SELECT {GROUPED}, {{set}} FROM rows GROUP BY k ORDER BY n DESC, k LIMIT 10",
    ),
    "windows": (
        f"SELECT unix_seconds(window_start) AS w, {GROUPED}, collect_set(v) AS l "
        f"FROM TUMBLE(e, ts, INTERVAL 10 SECONDS) GROUP BY window_start, window_end, k "
        f"EMIT {PANES} RETRACTING {LATENESS}",
        f"SELECT epoch_us(ts) // 10000000 * 10 AS w, {GROUPED}, {{set}} FROM rows GROUP BY w, k",
    ),
    "sessions": (
        f"SELECT unix_seconds(window_start) AS w, {GROUPED}, collect_list(v) AS l FROM SESSION(e PARTITION BY k, ts, "
        f"INTERVAL 5 SECONDS) GROUP BY window_start, window_end, k EMIT ON EPOCH {LATENESS}",
        f"SELECT epoch_us(min(ts)) // 1000000 AS w, {GROUPED}, {{list}} FROM {IN_SESSIONS} GROUP BY k, session",
    ),
    "fours": (
        f"SELECT {GROUPED}, collect_list(v) AS l FROM COUNT_WINDOW(e PARTITION BY k, 4) "
        "GROUP BY window_start, window_end, k",
        f"SELECT {GROUPED}, {{list}} FROM (SELECT *, (row_number() OVER (PARTITION BY k ORDER BY epoch, ts, id) - 1) "
        f"// 4 AS w FROM rows) GROUP BY k, w HAVING count(*) = 4",
    ),
    "kept": (
        f"SELECT DISTINCT k, v, s FROM e QUALIFY {RANK} <= 2",
        f"SELECT DISTINCT k, v, s FROM rows QUALIFY {RANK} <= 2",
    ),
    "first": (
        f"SELECT k, v, s FROM (SELECT *, {RANK} AS r FROM e) WHERE r <= 3",
        f"SELECT k, v, s FROM rows QUALIFY {RANK} <= 3",
    ),
}
SET, LIST = "list_sort(list(DISTINCT v)) AS l", "list(v ORDER BY ts, id) AS l"


def made(chance: random.Random, first: int, now: datetime) -> pa.Table:
    count = chance.randrange(50, 300)
    keys = [chance.randrange(300) for _ in range(count)]
    columns: list[Sequence[Any]] = [
        range(first, first + count),
        [f"a longer key {key}" if key % 7 else f"{key}" for key in keys],
        [chance.randrange(10**6) for _ in keys],
        [f"text of the number {chance.randrange(10**9)}" for _ in keys],
        [now + timedelta(seconds=chance.randrange(-12, 8)) for _ in keys],
    ]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def bag(rows: list[dict[str, Any]]) -> Counter[str]:
    """Rows in any order."""
    return Counter(repr(list(row.values())) for row in rows)


@pytest.mark.parametrize("seed", [1, 2])
def test_every_epoch(seed: int, connect: Connect) -> None:
    db, chance, truth = connect(), random.Random(seed), duckdb.connect()
    truth.execute("SET TimeZone = 'UTC'")
    db.sql(
        "CREATE STREAM e (id BIGINT, k STRING, v BIGINT, s STRING, ts TIMESTAMP, "
        "WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)"
    )
    for name, (sql, _) in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
    rows = SCHEMA.append(pa.field("epoch", pa.int64())).empty_table()
    for epoch in range(15):
        new = made(chance, rows.num_rows, datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=3 * epoch))
        rows = pa.concat_tables([rows, new.append_column("epoch", pa.array([epoch] * new.num_rows, pa.int64()))])
        db.insert("e", new)
        db.drain()
        truth.register("rows", rows)
        for name, (_, sql) in VIEWS.items():
            expected = truth.sql(sql.replace("{set}", SET).replace("{list}", LIST)).to_arrow_table().to_pylist()
            assert bag(db.query(f"SELECT * FROM {name}").to_arrow().to_pylist()) == bag(expected), (name, epoch)
