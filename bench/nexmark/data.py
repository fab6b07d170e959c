"""The events of Nexmark as CSV files, made once by Millstream's generator and kept in `bench/data`.

Owns two layouts of the same rows. `epochs`: one file per epoch and kind, in order, for contenders
that read so many files at a time. `readers`: for Flink, whose file source hands files to its readers
in no order and so would find most rows late; the rows are dealt to one file per reader, in
their order, and both readers advance together. No event is late: the disorder is below the slack.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.data import deal
from bench.job import CORES
from millstream.nexmark.files import KINDS, write_files
from millstream.nexmark.formats import FileFormat
from millstream.nexmark.generator import Nexmark
from millstream.nexmark.settings import Settings

ROOT = Path(__file__).parents[1] / "data"
VERSION = 1
"""Counts up when the layout or the generator changes: kept data of another version is made again."""
EPOCH_EVENTS = 200_000
DISORDER_US = 3_000_000


@dataclass(frozen=True, slots=True)
class Events:
    """The first `events` events of a seed, in epochs of about `EPOCH_EVENTS`; two epochs at least."""

    events: int
    seed: int = 1

    @property
    def files(self) -> int:
        return max(2, self.events // EPOCH_EVENTS)

    @property
    def directory(self) -> Path:
        return ROOT / f"nexmark-{self.events}in{self.files}-seed{self.seed}"

    @property
    def epochs(self) -> Path:
        return self.directory / "epochs"

    @property
    def readers(self) -> Path:
        return self.directory / "readers"

    def rows(self) -> dict[str, int]:
        """How many rows of each kind; known once it is prepared."""
        counts: dict[str, int] = json.loads((self.directory / "complete.json").read_text())["rows"]
        return counts


def prepare(events: Events) -> None:
    """Write the files unless they are there."""
    marker = events.directory / "complete.json"
    key = {"version": VERSION, **asdict(events)}
    if marker.exists() and json.loads(marker.read_text()).get("key") == key:
        return
    shutil.rmtree(events.directory, ignore_errors=True)
    nexmark = Nexmark(Settings(seed=events.seed, disorder=DISORDER_US))
    rows = write_files(nexmark, events.events, events.epochs, format=FileFormat.CSV, files=events.files)
    for kind in KINDS:
        in_order = sorted((events.epochs / kind).glob("*.csv"))
        for index, path in enumerate(in_order):
            # Readers take files in the order of their modification.
            os.utime(path, (1_750_000_000 + index, 1_750_000_000 + index))
        deal(in_order, events.readers / kind, CORES)
    marker.write_text(json.dumps({"key": key, "rows": rows}))
