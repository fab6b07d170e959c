"""Spark as what computes: what it answers without starting."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pyarrow as pa
import pytest

from millstream.model.schema import Column, Schema
from millstream.model.settings import SparkSettings
from millstream.plan.compute import Compute, LaneName
from millstream.plan.nodes import Stream
from millstream.spark.compute import SparkCompute


@pytest.fixture
def compute(tmp_path: Path) -> Compute:
    return SparkCompute(SparkSettings(), "auto", tmp_path)


def test_lanes_are_there_without_spark(compute: Compute) -> None:
    lanes = [compute.lane(name) for name in get_args(LaneName)]
    assert len(set(map(id, lanes))) == 3
    assert [compute.lane(name) for name in get_args(LaneName)] == lanes


def test_no_expressions_have_no_types(compute: Compute) -> None:
    stream = Stream("s", Schema((Column("k", pa.int64()),)), None, None)
    assert compute.types(stream, []) == []
    with pytest.raises(AssertionError):
        compute.types(stream, ["k"])


def test_what_runs_nothing_starts_nothing(compute: Compute, tmp_path: Path) -> None:
    compute.use_kernel("spark")
    compute.use_functions([])
    compute.keep([])
    compute.streaming("rate", None, {}, Schema(()), tmp_path / "checkpoint")
    compute.close()
