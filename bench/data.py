"""The input: seeded bids in the manner of Nexmark, as Parquet and as CSV, made once and kept.

Half of the bids go to the hot auction of the moment, the others to one of the auctions that are
open; 3 auctions open for every 46 bids, so the set of live auctions keeps moving. Event time runs
at 10,000 bids a second. What always holds: the same `Bids` are the same
rows, on every machine; no bid is more than `MAX_DELAY_US` behind the newest one before it,
which is less than the slack of four seconds: with epochs of any size, no bid is late.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from bench.job import CORES

ROOT = Path(__file__).parent / "data"
VERSION = 1
"""Counts up when the generator changes: kept data of another version is made again."""

START_US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
BIDS_PER_SECOND = 10_000
AUCTIONS_PER_BID = (3, 46)
OPEN_AUCTIONS = 100
HOT_SHARE = 0.5
JITTER_US = 20_000
"""Every bid is up to this much behind."""
STRAGGLERS = 0.0035
"""The share of bids that are up to `MAX_DELAY_US` behind."""
MAX_DELAY_US = 3_000_000
FIRST_ID = 1_000
CHANNELS = ("Google", "Facebook", "Baidu", "Apple", "channel-1", "channel-2", "channel-3", "channel-4")
ROW_GROUP = 125_000
"""Several per file, so that readers can share one file between their cores."""

SCHEMA = pa.schema(
    [
        ("auction", pa.int64()),
        ("bidder", pa.int64()),
        ("price", pa.int64()),
        ("channel", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)


@dataclass(frozen=True, slots=True)
class Bids:
    """A set of files: `files` of `rows_per_file` bids each, beginning with bid `first`."""

    files: int
    rows_per_file: int
    first: int = 0
    seed: int = 42

    @property
    def rows(self) -> int:
        return self.files * self.rows_per_file

    @property
    def directory(self) -> Path:
        return ROOT / f"bids-{self.files}x{self.rows_per_file}-from{self.first}-seed{self.seed}"

    def path(self, format_: str) -> Path:
        """The directory of the files in a format ('parquet' or 'csv'; 'readers' is CSV in one file per reader)."""
        return self.directory / format_

    def tables(self) -> Iterator[pa.Table]:
        """The content of the files, one by one."""
        for index in range(self.files):
            yield generate(self.first + index * self.rows_per_file, self.rows_per_file, self.seed)


def generate(first: int, rows: int, seed: int) -> pa.Table:
    """The bids `first` to `first + rows`."""
    rng = np.random.default_rng([seed, first])
    number = np.arange(first, first + rows, dtype=np.int64)
    opened, per_bids = AUCTIONS_PER_BID
    newest = number * opened // per_bids
    oldest = np.maximum(newest - OPEN_AUCTIONS, 0)
    hot = newest // OPEN_AUCTIONS * OPEN_AUCTIONS
    any_open = oldest + (rng.random(rows) * (newest - oldest + 1)).astype(np.int64)
    auction = np.where(rng.random(rows) < HOT_SHARE, hot, any_open) + FIRST_ID
    bidder = rng.integers(0, 50_000, rows, dtype=np.int64) + FIRST_ID
    price = (10.0 ** (rng.random(rows) * 6) * 100).astype(np.int64)
    channel = pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, len(CHANNELS), rows, np.int32)), list(CHANNELS))
    delay = rng.integers(0, JITTER_US, rows, dtype=np.int64)
    straggles = rng.random(rows) < STRAGGLERS
    delay[straggles] = rng.integers(0, MAX_DELAY_US, int(straggles.sum()))
    event_time = START_US + number * (1_000_000 // BIDS_PER_SECOND) - delay
    columns = [auction, bidder, price, channel.cast(pa.string()), pa.array(event_time).cast(SCHEMA.field("ts").type)]
    return pa.table(columns, schema=SCHEMA)


def prepare(bids: Bids, formats: tuple[str, ...] = ("parquet", "csv")) -> None:
    """Write the files that are not there yet."""
    for format_ in formats:
        if format_ == "readers":
            _prepare_readers(bids)
            continue
        directory = bids.path(format_)
        marker = directory / "_complete.json"
        content = json.dumps({"version": VERSION, **asdict(bids)})
        if marker.exists() and marker.read_text() == content:
            continue
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for index, table in enumerate(bids.tables()):
            path = directory / f"bids-{index:05d}.{format_}"
            if format_ == "parquet":
                pq.write_table(table, path, row_group_size=ROW_GROUP)
            else:
                # Instants without their zone: every reader here takes them as UTC.
                naive = table.set_column(4, "ts", table.column("ts").cast(pa.timestamp("us")))
                options = pa.csv.WriteOptions(include_header=False, quoting_style="none")
                pa.csv.write_csv(naive, path, options)
            # Readers take files in the order of their modification, and none shall be older than its bids.
            last_bid_at = START_US // 1_000_000 + (bids.first + (index + 1) * bids.rows_per_file) // BIDS_PER_SECOND
            modified_at = last_bid_at + index + 1
            os.utime(path, (modified_at, modified_at))
        marker.write_text(content)


def _prepare_readers(bids: Bids) -> None:
    """The CSV dealt to one file per reader, for contenders that take files in no order."""
    prepare(bids, ("csv",))
    directory = bids.path("readers")
    marker = directory / "_complete.json"
    content = json.dumps({"version": VERSION, "readers": CORES, **asdict(bids)})
    if marker.exists() and marker.read_text() == content:
        return
    shutil.rmtree(directory, ignore_errors=True)
    deal(sorted(bids.path("csv").glob("*.csv")), directory, CORES)
    marker.write_text(content)


def deal(files: list[Path], directory: Path, readers: int) -> None:
    """Deal the lines of some files in turn to one file per reader."""
    directory.mkdir(parents=True)
    with ExitStack() as opened:
        hands = [opened.enter_context((directory / f"{place}.csv").open("wb")) for place in range(readers)]
        turns = cycle(hands)
        for path in files:
            with path.open("rb") as lines:
                for line in lines:
                    next(turns).write(line)
