"""The bids of the benchmark: repeatable, as many groups as said, and never late."""

from __future__ import annotations

import duckdb
import numpy as np

from bench.data import Bids, generate


def test_the_same_bids_are_the_same_rows() -> None:
    assert generate(5_000, 1_000, seed=1).equals(generate(5_000, 1_000, seed=1))
    assert not generate(5_000, 1_000, seed=1).equals(generate(5_000, 1_000, seed=2))


def test_about_66500_groups_per_million_bids() -> None:
    connection = duckdb.connect()
    connection.register("bids", generate(3_000_000, 1_000_000, seed=42))
    rows = connection.execute("SELECT DISTINCT auction, epoch_us(ts) // 10000000 FROM bids").fetchall()
    assert 66_000 < len(rows) < 68_000


def test_no_bid_is_further_behind_than_the_slack() -> None:
    micros = np.concatenate([table.column("ts").cast("int64").to_numpy() for table in Bids(3, 50_000).tables()])
    behind = np.maximum.accumulate(micros) - micros
    assert 0 < behind.max() < 4_000_000
