"""Standing queries: the same answer from every rendering that can be asked here; latencies and their percentiles."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from bench.data import generate
from bench.job import SLACK_SECONDS, Answer
from bench.peers.latency_native import ends, latencies, offsets
from bench.percentiles import percentile
from bench.runner import Run
from bench.standing import LATENCY, Standing, standing
from bench.workloads import latency, standing_queries


def with_bids(rows: int = 20_000) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("bids", generate(0, rows, seed=1))
    return connection


def test_ten_views_of_three_kinds() -> None:
    windowed = [view for view in LATENCY if view.window_seconds]
    filtered = [view for view in LATENCY if view.where]
    assert (len(LATENCY), len(windowed), len(filtered)) == (10, 5, 3)
    assert len({view.keys for view in windowed}) == 5


def test_no_two_queries_are_the_same() -> None:
    queries = standing(1_000)
    assert len({query.name for query in queries}) == 1_000
    assert len({(query.keys, query.where, query.window_seconds) for query in queries}) == 1_000
    assert standing(10) == queries[:10]


@pytest.mark.parametrize("query", [*LATENCY, *standing(10)], ids=lambda query: query.name)
def test_every_query_has_its_columns_and_some_rows(query: Standing) -> None:
    connection = with_bids()
    answered = connection.execute(query.duckdb_sql())
    assert tuple(column[0] for column in answered.description or ()) == query.columns
    assert answered.fetchall()


def test_a_fingerprint_is_blind_to_order_and_not_to_values() -> None:
    query, connection = LATENCY[2], with_bids()
    truth = query.truth(connection)
    assert query.fingerprint(connection, f"(FROM ({query.duckdb_sql()}) ORDER BY n DESC)") == truth
    assert query.fingerprint(connection, f"(SELECT * REPLACE (top + 1 AS top) FROM ({query.duckdb_sql()}))") != truth


def test_a_window_of_ours_is_compared_in_microseconds() -> None:
    query, connection = LATENCY[2], with_bids()
    shown = f"(SELECT * REPLACE (make_timestamptz(window_start) AS window_start) FROM ({query.duckdb_sql()}))"
    assert query.fingerprint(connection, query.published(shown)) == query.truth(connection)


def test_renderings_say_the_same() -> None:
    query = Standing("v", (("bucket", "bidder % 10"),), "price > 5", 10)
    assert query.millstream_sql() == (
        "CREATE MATERIALIZED VIEW v AS SELECT window_start, window_end, bidder % 10 AS bucket, count(*) AS n, "
        "coalesce(max(price), 0) AS top FROM TUMBLE(bids, ts, INTERVAL 10 SECONDS) WHERE price > 5 "
        "GROUP BY window_start, window_end, bidder % 10"
    )
    assert query.spark_sql().endswith("FROM bids WHERE price > 5 GROUP BY window(ts, '10 seconds'), bidder % 10")


def test_queries_that_wait_have_complete_windows_only() -> None:
    connection = with_bids(400_000)
    at_once, waits = (standing(10, waits=waits) for waits in (False, True))
    assert all(query.window_seconds and query.millstream_sql().endswith("EMIT ON WATERMARK") for query in waits)
    assert [(query.keys, query.where) for query in waits] == [(query.keys, query.where) for query in at_once]
    complete = connection.execute(waits[2].duckdb_sql()).fetchall()
    every = connection.execute(at_once[2].duckdb_sql()).fetchall()
    ((newest,),) = connection.execute("SELECT epoch_us(max(ts)) FROM bids").fetchall()
    bound = newest - SLACK_SECONDS * 1_000_000
    assert sorted(complete) == sorted(row for row in every if row[0] + 10_000_000 <= bound)
    assert 0 < len(complete) < len(every)


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(value) for value in range(1, 201)]
    assert [percentile(values, share) for share in (0.5, 0.95, 0.99, 1.0)] == [100, 190, 198, 200]
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def progress(offset: int | None, rows: int, second: int, took_ms: int) -> dict[str, object]:
    return {
        "sources": [{"endOffset": None if offset is None else json.dumps({"logOffset": offset})}],
        "numInputRows": rows,
        "timestamp": f"1970-01-01T00:00:{second:02d}.000Z",
        "durationMs": {"triggerExecution": took_ms},
    }


def test_a_file_of_native_ends_with_the_first_batch_that_reaches_it(tmp_path: Path) -> None:
    log = tmp_path / "sources" / "0"
    log.mkdir(parents=True)
    (log / "0").write_text('v1\n{"path":"file:///in/a","timestamp":1,"batchId":0}\n')
    (log / "1").write_text('v1\n{"path":"file:///in/b","timestamp":1,"batchId":1}\n')
    (log / ".1.crc").write_bytes(b"\xff")
    done = ends([progress(None, 0, 0, 5), progress(0, 9, 2, 500), progress(0, 0, 3, 5), progress(1, 9, 4, 250)])
    assert done == [(0, 2.5), (1, 4.25)]
    landed_at = {"a": 1.0, "b": 2.25, "later": 9.0}
    assert latencies(landed_at, offsets(tmp_path), done, since=0.0, until=5.0) == [1500.0, 2000.0]


def run_of(values: list[float]) -> Run:
    rate = {"latency_ms": values, "behind_seconds": 0.0, "pace": {"load": 0.1}}
    notes = {"rates": {"10000": rate}, "wrong": [], "rows": 1, "views": 10}
    return Run("x", Answer(0, 1, 1, notes=notes), 2**30)


def test_latency_is_judged_at_one_rate_by_the_best_runs() -> None:
    runs = {latency.OURS: [run_of([10.0]), run_of([30.0])], latency.NATIVE: [run_of([100.0])]}
    found = latency.section(10_000, runs)
    assert [(target.value, target.unit, target.aim) for target in found.targets] == [
        (0.1, "x", False),
        (0.1, "x", False),
        (10.0, "ms", True),
        (10.0, "ms", True),
    ]
    assert all(figure.peak_bytes == 2**30 for figure in found.figures)
    assert found.notes["pace"] == [{"load": 0.1}, {"load": 0.1}]
    rates = {"1000": {"latency_ms": [1.0], "behind_seconds": 0, "pace": {}}}
    other = {who: [Run("x", Answer(0, 1, 1, notes={"rates": rates}), 0)] for who in runs}
    assert latency.section(1_000, other).targets == []


def test_many_queries_are_judged_by_the_time_of_one() -> None:
    counts = (1, 10, 100, 1_000)
    met, missed = standing_queries.targets({1: 2.0, 10: 3.0, 100: 9.0, 1_000: 80.0}, counts)
    assert (met.met, missed.missed) == (True, True)
    assert [target.value for target in standing_queries.targets({1: 3.0, 100: 9.0}, counts)] == [3.0, None]
    assert standing_queries.targets({1: 3.0}, (1, 10)) == []


def test_a_wrong_view_is_named() -> None:
    wrong = Run("x", Answer(0, 1, 1, notes={"wrong": ["q0007"]}), 0)
    assert "q0007" in standing_queries.check("millstream", 10, [wrong]).detail
    assert not standing_queries.check("millstream", 10, [wrong]).ok
