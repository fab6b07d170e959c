"""The same views by either kernel over the same rows: contents, changelogs, letters and accounting are equal.

Scalar functions are compared one by one elsewhere (`test_functions_agree`, `test_native`); here are the
aggregates over all types and edges, the windows, and what fails on a row.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import millstream as ms
from millstream.kernel.native import NativeView
from millstream.model.settings import Kernel
from tests.answers import rows_of
from tests.integration.edge_values import VALUES
from tests.parts import parts_of, spark_of

pytestmark = pytest.mark.spark

START = datetime(2024, 3, 1, 12)
COLUMNS = {
    "k": "STRING",
    "i": "INT",
    "v": "BIGINT",
    "d": "DOUBLE",
    "f": "FLOAT",
    "x": "DECIMAL(10, 2)",
    "b": "BOOLEAN",
    "day": "DATE",
    "at": "TIMESTAMP",
}
EDGES = {name: type_ for name, type_ in COLUMNS.items() if name != "at"}
STREAM = (
    "CREATE STREAM s (" + ", ".join(f"`{name}` {type_}" for name, type_ in COLUMNS.items()) + ", ts TIMESTAMP, "
    "WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)"
)

AGGREGATES = [
    "count(*)",
    *(f"count({c})" for c in ("k", "d")),
    *(f"sum({c})" for c in ("i", "v", "x")),
    *(f"avg({c})" for c in ("i", "v", "x")),
    *(f"{f}({c})" for f in ("min", "max", "count_distinct", "collect_set", "first", "last", "any_value")
      for c in ("k", "i", "v", "x", "b", "day", "at")),
    *(f"{f}(d)" for f in ("min", "max")),
    *(f"{f}({c}, ts)" for f in ("min_by", "max_by") for c in ("k", "v")),
    "collect_list(v)",
    "bool_and(b)",
    "bool_or(b)",
    "count_if(v > 0)",
    "sum(i) FILTER (WHERE b)",
    "count(*) FILTER (WHERE i > 0 AND k IS NOT NULL)",
    "max(v % 10)",
    "sum(CASE WHEN v > 0 THEN 1 ELSE -1 END)",
]  # fmt: skip
VIEWS = {
    "aggregates": "SELECT k, "
    + ", ".join(f"{call.replace('count_distinct(', 'count(DISTINCT ')} AS r{n}" for n, call in enumerate(AGGREGATES))
    + " FROM s GROUP BY k",
    "sketch": "SELECT k, approx_count_distinct(v) AS r FROM s GROUP BY k",
    "all_of_it": "SELECT count(*) AS n, sum(v) AS sv, stddev(i) AS sd FROM s",
    "tumbling": "SELECT window_start, k, count(*) AS n, max(v) AS m FROM TUMBLE(s, ts, INTERVAL 10 SECONDS) "
    "GROUP BY window_start, k",
    "shifted": "SELECT window_start, count(*) AS n FROM TUMBLE(s, ts, INTERVAL 10 SECONDS, INTERVAL 3 SECONDS) "
    "GROUP BY window_start",
    "hopping": "SELECT window_start, window_end, i % 3 AS g, sum(v) AS sv FROM HOP(s, ts, INTERVAL 2 SECONDS, "
    "INTERVAL 10 SECONDS) WHERE b GROUP BY window_start, window_end, i % 3",
    "gaps": "SELECT window_start, count(*) AS n FROM HOP(s, ts, INTERVAL 10 SECONDS, INTERVAL 4 SECONDS) "
    "GROUP BY window_start",
    "sessions": "SELECT window_start, window_end, k, count(*) AS n FROM SESSION(s PARTITION BY k, ts, "
    "INTERVAL 3 SECONDS) GROUP BY window_start, window_end, k",
    "sliding": "SELECT window_end, k, sum(i) AS si FROM SLIDE(s PARTITION BY k, ts, INTERVAL 4 SECONDS) "
    "GROUP BY window_start, window_end, k",
    "counted": "SELECT window_start, window_end, k, collect_list(v) AS vs, sum(i) AS si FROM COUNT_WINDOW(s "
    "PARTITION BY k, 5, 2) WHERE b IS NOT NULL GROUP BY window_start, window_end, k",
    "counted_alike": "SELECT k, window_end, count(d) AS n FROM COUNT_WINDOW(s PARTITION BY k, 5) WHERE i > 0 "
    "GROUP BY window_start, window_end, k",
    "on_watermark": "SELECT window_start, count(*) AS n FROM TUMBLE(s, ts, INTERVAL 5 SECONDS) GROUP BY window_start "
    "EMIT ON WATERMARK",
    "other_time": "SELECT window_start, count(*) AS n FROM TUMBLE(s, at, INTERVAL 1 HOUR) GROUP BY window_start",
    "rows": "SELECT k, i, v, d, x, b, day, at, ts, upper(k) AS u FROM s WHERE i >= 0",
    "windowed_rows": "SELECT window_start, window_end, v FROM TUMBLE(s, ts, INTERVAL 10 SECONDS) WHERE v < 100",
    "fails_in_the_filter": "SELECT k, v FROM s WHERE 10 div i > 0 AND b",
    "fails_after_it": "SELECT k, i * 2 AS two FROM s WHERE i > 0",
    "fails_in_an_aggregate": "SELECT k, sum(100 div i) AS q FROM s GROUP BY k",
    "by_double": "SELECT d, count(*) AS n FROM s GROUP BY d",
}
NUMBERS = {
    "overflows_in_the_filter": "SELECT k, v, i FROM s WHERE v + 1 > 0 AND i + 1 > 0 AND i * 2 <> 4",
    "overflows_in_a_sum": "SELECT sum(v + 1) AS sv, sum(1 + i) AS si FROM s",
    "floats": "SELECT f, f + f AS ff, -f AS n FROM s WHERE f <= f",
    "float_compared": "SELECT k, v FROM s WHERE f = 0.1 OR f = 16777217 OR f IN (0.2, 3) OR f = v "
    "OR greatest(f, i) = i",
    "float_results": "SELECT f + 1 AS a, f + i AS b, f * 0.1 AS c, CASE WHEN b THEN f ELSE i END AS d FROM s",
}
FILTERS = [
    "k = 'a'",
    "k = 'ß' AND v > 0",
    "i % 3 = 1",
    "i % 3 = 2 AND b",
    "(i % 3 = 2) AND (NOT b AND k = 'a')",
    "i % 3 = 0 AND v BETWEEN 0 AND 9",
    "v > 100",
    "b OR i < 0",
    "100 div i > 3",
    "d = 9007199254740992",
    "d = 9007199254740993",
]
FILTERED = {
    f"filtered_{number}": "SELECT k, count(*) AS n, sum(v) AS sv, avg(x) AS ax, collect_list(i) AS li, "
    f"count(b) FILTER (WHERE v > 0) AS cb FROM s WHERE {filter_} GROUP BY k"
    for number, filter_ in enumerate(FILTERS)
}
LEFT_TO_SPARK = {"by_double", "sketch"}
FLOATS_LEFT_TO_SPARK = {"float_compared", "float_results"}


def batches(seed: int) -> list[list[dict[str, Any]]]:
    """Rows with edges of every type, out of order, some without a time."""
    chance = random.Random(seed)
    made = []
    for number in range(4):
        rows = []
        for _ in range(60):
            row = {name: chance.choice([None, *VALUES[type_]]) for name, type_ in EDGES.items()}
            row["k"] = chance.choice(["a", "b", "", "ß", None])
            row["f"] = chance.choice([row["f"], 0.1, 16777216.0])
            row["d"] = chance.choice([row["d"], 9007199254740992.0])
            row["at"] = chance.choice([None, START, START + timedelta(days=chance.randrange(9))])
            offset = timedelta(seconds=number * 10 + chance.uniform(-12, 12))
            row["ts"] = None if chance.random() < 0.03 else START + offset
            rows.append(row)
        made.append(rows)
    return made


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """All there is to see, by kernel."""
    found: dict[str, dict[str, Any]] = {}
    kernels: tuple[Kernel, ...] = ("spark", "native")
    for kernel in kernels:
        directory: Path = tmp_path_factory.mktemp(kernel)
        sets = {"kinds": VIEWS, "numbers": NUMBERS, "filters": FILTERED}
        found[kernel] = {}
        for name, views in sets.items():
            found[kernel] |= _answers(directory / name, kernel, views)
    return found


def _answers(directory: Path, kernel: Kernel, views: dict[str, str]) -> dict[str, Any]:
    first = next(iter(views))
    with ms.connect(directory, clock=ms.ManualClock(0), settings=ms.EngineSettings(kernel=kernel)) as db:
        db.sql(STREAM)
        for name, query in views.items():
            text, emit, rest = query.partition(" EMIT ")
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}{emit}{rest}")
        for rows in batches(7):
            db.insert("s", pa.Table.from_pylist(rows, schema=parts_of(db).catalog.stream("s").stream.schema.to_arrow()))
            db.drain()
        forms = spark_of(db).forms
        return {
            **{name: _seen(db.query(f"SELECT * FROM {name}").to_arrow()) for name in views},
            **{f"{name}.changes": _seen(db.changes(name).to_arrow()) for name in views},
            **{f"{first}__{kind}": _seen(db.query(f"SELECT * FROM s__{kind}").to_arrow()) for kind in ("late", "dead")},
            f"{first}.accounting": [(row["streams"], row["views"]) for row in rows_of(db, "SHOW EPOCHS")],
            f"{first}.forms": {view.name: form for (_, view), form in forms._forms.items()},
            f"{first}.programs": [[query.views for query in program.queries] for program in forms._programs.values()],
        }


def _seen(table: pa.Table) -> list[str]:
    """Rows as text, in an order of their own; lists have none."""
    rows = [tuple(sorted(map(repr, v)) if isinstance(v, list) else repr(v) for v in row.values())
            for row in table.to_pylist()]  # fmt: skip
    return sorted(map(str, rows))


COMPARED = [
    *VIEWS,
    *NUMBERS,
    *FILTERED,
    *(f"{name}.changes" for name in (*VIEWS, *NUMBERS, *FILTERED)),
    *(
        f"{first}{of}"
        for first in ("aggregates", "overflows_in_the_filter", "filtered_0")
        for of in ("__late", "__dead", ".accounting")
    ),
]


@pytest.mark.parametrize("name", COMPARED)
def test_both_kernels_give_the_same(name: str, answers: dict[str, dict[str, Any]]) -> None:
    on_spark, native = answers["spark"][name], answers["native"][name]
    assert native == on_spark
    if name in ("rows", "aggregates__late", "filtered_0__dead", "fails_in_the_filter", "float_compared", *FILTERED):
        assert native, "nothing was compared"


def test_the_kernel_has_what_it_can(answers: dict[str, dict[str, Any]]) -> None:
    forms = answers["native"]["aggregates.forms"]
    assert {name for name, form in forms.items() if not isinstance(form, NativeView)} == LEFT_TO_SPARK
    forms = answers["native"]["overflows_in_the_filter.forms"]
    assert {name for name, form in forms.items() if not isinstance(form, NativeView)} == FLOATS_LEFT_TO_SPARK
    assert answers["spark"]["aggregates.programs"] == []
    ((together,),) = answers["native"]["filtered_0.programs"]
    assert sorted(together) == list(range(len(FILTERED))), "all share one query"


Connect = Callable[..., ms.Database]


def test_set_kernel(connect: Connect) -> None:
    db = connect()
    db.sql("CREATE STREAM s (k STRING); CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM s GROUP BY k")
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT k, max(k) AS m FROM s WHERE k <> 'a' GROUP BY k")
    for number, kernel in enumerate(("spark", "native", "auto"), 1):
        db.sql(f"SET kernel = '{kernel}'")
        plan = "\n".join(row["plan"] for row in rows_of(db, "EXPLAIN v"))
        assert ("kernel: native\n      shares its aggregation with w" in plan) is (kernel != "spark")
        assert ("kernel: Spark SQL, because kernel is set to 'spark'" in plan) is (kernel == "spark")
        db.insert("s", [{"k": "a"}])
        db.drain()
        assert db.query("SELECT n FROM v").rows() == [{"n": number}]
    with pytest.raises(ms.MillstreamError) as wrong:
        db.sql("SET kernel = 'fast'")
    assert (wrong.value.code, wrong.value.hint) == ("BAD_SETTING", "one of 'auto', 'native', 'spark'")
    with pytest.raises(ms.MillstreamError, match="there is no setting"):
        db.sql("SET kernal = 'spark'")
