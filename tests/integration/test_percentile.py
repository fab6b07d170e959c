"""Watermarks at a percentile with real epochs: the late share, adapting, every kind of source, history."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import millstream as ms
from millstream.model.lateness import Lateness, bucket, buckets_sql
from tests.parts import parts_of, spark_of, store_of

from ..lateness_model import PercentileModel

Connect = Callable[..., ms.Database]
SECOND = 1_000_000
START = 1_700_000_000 * SECOND
NOTHING = -(2**62)


def rows(show: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = show.rows()
    return found


def watermarks(db: ms.Database) -> list[int]:
    return [json.loads(row["watermarks"])["s"] for row in rows(db.sql("SHOW EPOCHS"))]


def counted(db: ms.Database) -> Lateness | None:
    progress = parts_of(db).store.progress("s")
    assert progress is not None
    return progress.lateness


def insert(db: ms.Database, instants: np.ndarray[Any, Any]) -> None:
    db.insert("s", pa.table({"ts": pa.array(instants, pa.timestamp("us"))}))


def test_spark_finds_the_buckets_of_python(connect: Connect) -> None:
    db = connect()
    values = sorted({max(0, 2**n + d) for n in range(59) for d in (-2, -1, 0, 1, 3)} | set(range(600)))
    spark = spark_of(db).session()
    spark.createDataFrame(pa.table({"n": pa.array(values, pa.int64())})).createOrReplaceTempView("lateness_values")
    found = spark.sql(f"SELECT __bucket FROM {buckets_sql('lateness_values', 'n')}").toArrow().column(0).to_pylist()
    assert found == [bucket(value) for value in values]
    spark.catalog.dropTempView("lateness_values")


def test_the_late_share_approaches_what_is_left_and_the_slack_adapts(connect: Connect) -> None:
    """Rows a tenth of a millisecond apart whose lateness is exponential: of mean 10, then 2, then 20 seconds."""
    db = connect(settings=ms.EngineSettings(max_epoch_rows=10_000))
    db.sql(
        "CREATE STREAM s (ts TIMESTAMP, WATERMARK FOR ts AT PERCENTILE 0.9);"
        "CREATE MATERIALIZED VIEW w AS SELECT window_start, count(*) AS n "
        "FROM TUMBLE(s, ts, INTERVAL 100 MILLISECONDS) GROUP BY window_start"
    )
    chance = np.random.default_rng(7)
    phases = ((10, 10), (2, 6), (20, 5))
    model = PercentileModel(0.9)
    expected: list[int | None] = []
    arrived_at = START
    share = []
    for mean, epochs in phases:
        count = epochs * 10_000
        instants = arrived_at + np.arange(count) * 100 - chance.exponential(mean * SECOND, count).astype(np.int64)
        arrived_at += count * 100
        # All epochs of a phase are there at once, so Spark reads ahead.
        insert(db, instants)
        db.drain()
        cuts = (instants[first : first + 10_000].tolist() for first in range(0, count, 10_000))
        expected += [model.epoch((0, at) for at in cut) for cut in cuts]
        assert watermarks(db) == expected
        assert counted(db) == model.lateness
        assert model.slack == pytest.approx(mean * SECOND * np.log(10), rel=0.15)
        steady = rows(db.sql("SHOW EPOCHS"))[-epochs + 3 :]
        share.append(sum(row["rows_late"] for row in steady) / sum(row["rows_in"] for row in steady))
    # A row is judged by the watermark before its epoch, half a second older in the mean, and by the end of its window:
    # a little fewer are late than a tenth, and fewer still where lateness is short.
    assert 0.08 < share[0] < 0.11
    assert 0.05 < share[1] < 0.11
    (late,) = db.query("SELECT count(*) AS n FROM s__late").rows()
    totals = rows(db.sql("SHOW EPOCHS"))
    assert late["n"] == sum(row["rows_late"] for row in totals)
    assert sum(row["rows_in"] for row in totals) == late["n"] + sum(row["rows_used"] for row in totals)
    # Known apart from the engine: what the view holds was in time, or else it is among the late rows.
    note = next(row["note"] for row in rows(db.sql("DESCRIBE w")) if row["column"] == "(completeness)")
    fired = "make_timestamp({0}) <= make_timestamp({1})"
    ends = fired.format("epoch_us(window_start) + 100000", watermarks(db)[-1])
    (held,) = store_of(db).query(f"SELECT CAST(sum(n) AS BIGINT) AS n FROM main.w WHERE {ends}").to_pylist()
    assert note.startswith(f"{held['n']} of {held['n'] + late['n']} rows (")


def test_rows_that_executors_read(connect: Connect) -> None:
    """So many rows that they stay in frames, in three partitions."""
    db = connect()
    db.sql("CREATE STREAM s (ts TIMESTAMP, WATERMARK FOR ts AT PERCENTILE 0.99) WITH (partitions = 3)")
    chance = np.random.default_rng(3)
    model = PercentileModel(0.99)
    read_to = dict.fromkeys(range(3), 0)
    for epoch in range(2):
        count = 24_000
        at = START + (np.arange(count) + epoch * count) * 1_000 - chance.integers(0, 30 * SECOND, count)
        insert(db, at)
        db.drain()
        topic = parts_of(db).log.topic("s")
        arrived = []
        for partition, start in read_to.items():
            read_to[partition] = topic.end_offsets()[partition]
            for batch in topic.read(partition, start, read_to[partition]):
                arrived += [(partition, value) for value in batch.column("ts").cast(pa.int64()).to_pylist()]
        assert len(arrived) == count
        assert watermarks(db)[-1] == model.epoch(arrived)
        assert counted(db) == model.lateness


@pytest.mark.parametrize("format_", ["json", "csv", "parquet"])
def test_rows_of_files_in_the_order_of_lines(connect: Connect, tmp_path: Path, format_: str) -> None:
    incoming = tmp_path / "in"
    incoming.mkdir()
    chance = np.random.default_rng(5)
    files = [START + np.arange(400) * SECOND - chance.integers(0, 90 * SECOND, 400) for _ in range(2)]
    for number, instants in enumerate(files):
        # The second file begins anew, so all of it is late; its name comes first.
        write(incoming / f"{9 - number}.x", instants, format_, 1_700_000_500 + number)
    db = connect()
    db.sql(
        "CREATE STREAM s (ts TIMESTAMP, WATERMARK FOR ts AT PERCENTILE 0.5) "
        f"WITH (source = 'files', path = '{incoming}', format = '{format_}')"
    )
    db.drain()
    model = PercentileModel(0.5)
    assert watermarks(db) == [model.epoch((0, int(at)) for instants in files for at in instants)]
    assert counted(db) == model.lateness


def test_micro_batches_of_structured_streaming(connect: Connect, tmp_path: Path) -> None:
    incoming = tmp_path / "in"
    incoming.mkdir()
    db = connect()
    db.sql(
        "CREATE STREAM s (ts TIMESTAMP, WATERMARK FOR ts AT PERCENTILE 0.5) "
        f"WITH (source = 'spark', format = 'parquet', path = '{incoming}')"
    )
    model = PercentileModel(0.5)
    chance = np.random.default_rng(9)
    expected = []
    for number in range(2):
        instants = START + (np.arange(300) + 200 * number) * SECOND - chance.integers(0, 90 * SECOND, 300)
        write(incoming / f"{number}.parquet", instants, "parquet", 1_700_000_500 + number)
        db.drain()
        expected.append(model.epoch((0, int(at)) for at in instants))
    assert watermarks(db) == expected
    assert counted(db) == model.lateness


def write(path: Path, instants: Iterable[int], format_: str, modified_at: int) -> None:
    if format_ == "parquet":
        pq.write_table(pa.table({"ts": pa.array(instants, pa.timestamp("us", "UTC"))}), path)
    else:
        lines = [(datetime(1970, 1, 1) + timedelta(microseconds=int(at))).isoformat() for at in instants]
        path.write_text("".join((json.dumps({"ts": line}) if format_ == "json" else line) + "\n" for line in lines))
    os.utime(path, (modified_at, modified_at))


def test_history_is_judged_like_live_rows(connect: Connect) -> None:
    """A view that is made later reads the same epochs, so it has the same windows and the same late rows."""
    db = connect(settings=ms.EngineSettings(max_epoch_rows=10_000))
    query = (
        "AS SELECT window_start, count(*) AS n FROM TUMBLE(s, ts, INTERVAL 1 SECOND) GROUP BY window_start "
        "EMIT ON WATERMARK"
    )
    db.sql("CREATE STREAM s (ts TIMESTAMP, WATERMARK FOR ts AT PERCENTILE 0.8)")
    db.sql(f"CREATE MATERIALIZED VIEW live {query}")
    chance = np.random.default_rng(11)
    insert(db, START + np.arange(40_000) * 500 - chance.exponential(3 * SECOND, 40_000).astype(np.int64))
    db.drain()
    db.sql(f"CREATE MATERIALIZED VIEW past {query}")
    db.drain()
    by_view = {
        name: db.query(f"SELECT ts FROM s__late WHERE _view = '{name}' ORDER BY ts").rows() for name in ("live", "past")
    }
    assert len(by_view["live"]) > 50
    assert by_view["live"] == by_view["past"]
    for what in ("SELECT * FROM {} ORDER BY window_start", "DESCRIBE {}"):
        live, past = (rows(db.sql(what.format(name))) for name in ("live", "past"))
        assert live == past
    assert watermarks(db)[-1] != NOTHING
