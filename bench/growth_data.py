"""The input of `growth` and `recovery`: clicks on ids that come back as late as possible, or on few ids at a time.

The n-th click is on `n * STRIDE % IDS`, and so every id comes once before any comes again: of `id % groups` there are
exactly as many groups as said (or as many as there are clicks), and an epoch that is smaller than the number of
groups touches as many groups as it has rows. That is the worst case for whatever keeps groups. If `hot` is given, the
clicks of a file are on so many ids alone, which are others in the next file.
What always holds: the same `Clicks` are the same rows; no click is `disorder_us` or more behind the newest one.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.data import ROOT, ROW_GROUP, START_US

VERSION = 1
"""Counts up when the generator changes."""
IDS = 10_000_000
STRIDE = 2_654_435_761
"""Has no divisor in common with IDS."""
CLICKS_PER_SECOND = 10_000

SCHEMA = pa.schema([("id", pa.int64()), ("price", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])


@dataclass(frozen=True, slots=True)
class Clicks:
    """A set of Parquet files: `files` of `rows_per_file` clicks each, out of order by less than `disorder_us`."""

    files: int
    rows_per_file: int
    disorder_us: int = 1
    first: int = 0
    hot: int | None = None

    @property
    def rows(self) -> int:
        return self.files * self.rows_per_file

    @property
    def path(self) -> Path:
        hot = f"-hot{self.hot}" if self.hot is not None else ""
        return ROOT / f"clicks-{self.files}x{self.rows_per_file}-from{self.first}-disorder{self.disorder_us}{hot}"

    def tables(self) -> Iterator[pa.Table]:
        """The content of the files, one by one."""
        for index in range(self.files):
            first = self.first + index * self.rows_per_file
            ids = None if self.hot is None else hot_ids(index, self.rows_per_file, self.hot)
            yield generate(first, self.rows_per_file, self.disorder_us, ids)


Ids = np.ndarray[Any, np.dtype[np.int64]]


def hot_ids(file: int, rows: int, hot: int) -> Ids:
    """Ids of one stretch, the same number of times each. Of `id % groups` there are as many as of ids, for any
    number of groups that `hot` divides."""
    stretch = file * STRIDE % (IDS // hot)
    return np.arange(rows, dtype=np.int64) % hot + stretch * hot


def generate(first: int, rows: int, disorder_us: int = 1, ids: Ids | None = None) -> pa.Table:
    """The clicks `first` to `first + rows`."""
    number = np.arange(first, first + rows, dtype=np.int64)
    ids = number * STRIDE % IDS if ids is None else ids
    price = (number * 7_919 + ids) % 100_003
    behind = number * 48_271 % 2_147_483_647 % disorder_us
    at = START_US + number * (1_000_000 // CLICKS_PER_SECOND) - behind
    return pa.table([ids, price, pa.array(at).cast(SCHEMA.field("ts").type)], schema=SCHEMA)


def groups_of(clicks: Clicks, groups: int) -> int:
    """How many groups `id % groups` has, for a divisor of IDS."""
    return min(groups, clicks.rows)


def prepare(clicks: Clicks) -> Path:
    """Write the files unless they are there; their directory."""
    marker = clicks.path / "_complete.json"
    content = json.dumps({"version": VERSION, **asdict(clicks)})
    if marker.exists() and marker.read_text() == content:
        return clicks.path
    shutil.rmtree(clicks.path, ignore_errors=True)
    clicks.path.mkdir(parents=True)
    for index, table in enumerate(clicks.tables()):
        path = clicks.path / f"clicks-{index:05d}.parquet"
        pq.write_table(table, path, row_group_size=ROW_GROUP)
        # Readers take files in the order of their modification, and none shall be older than its clicks.
        last_click_at = START_US // 1_000_000 + (clicks.first + (index + 1) * clicks.rows_per_file) // CLICKS_PER_SECOND
        os.utime(path, (last_click_at + index + 1,) * 2)
    marker.write_text(content)
    return clicks.path
