"""A table is its changes applied one by one: through the log, Spark, epochs, restarts and compaction."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millstream as ms
from tests.answers import rows_of
from tests.parts import parts_of, store_of

from ..table_model import Change, Mode, TableModel

pytestmark = pytest.mark.spark

Directories = Callable[[], AbstractContextManager[Path]]
Way = Literal["insert", "lines", "delete"]
Epoch = tuple[list[tuple[Change, Way]], int, bool]
DAY = 86_400

CHANGES = st.builds(
    Change,
    key=st.integers(1, 4),
    value=st.sampled_from(["a", "b", None]),
    sequence=st.integers(0, 6),
    at=st.integers(0, 20).map(lambda second: second * 1_000_000),
)


class Run:
    """A table of a database, fed in every way there is, and its model."""

    def __init__(self, directory: Path, mode: Mode, sequence: bool, partitions: int) -> None:
        self.directory = directory
        self.mode: Mode = mode
        self.sequence = sequence
        self.partitions = partitions
        self.clock = ms.ManualClock(1_000)
        self.model = TableModel(mode, sequence)
        self.db = ms.connect(directory, clock=self.clock)
        self.create("t")

    def create(self, name: str) -> None:
        """A table over the topic `t`."""
        watermark = ", WATERMARK FOR ts AS ts" if self.mode == "event" else ""
        options = {"topic": "t", "partitions": self.partitions, "operation": "op", "tombstone_retain": "900 days"}
        options |= {"sequence": "seq"} if self.sequence else {}
        options |= {"versioned": "true"} if self.mode != "plain" else {}
        said = ", ".join(f"{key} = '{value}'" for key, value in options.items())
        columns = f"id BIGINT PRIMARY KEY, value STRING, op STRING, seq BIGINT, ts TIMESTAMP{watermark}"
        self.db.sql(f"CREATE TABLE {name} ({columns}) WITH ({said})")

    def restart(self) -> None:
        self.db.close()
        self.db = ms.connect(self.directory, clock=self.clock)

    def step(self, changes: list[tuple[Change, Way]], pause: int) -> None:
        self.clock.advance(pause)
        for way, group in groupby(changes, key=lambda item: item[1]):
            rows = [_record(change) for change, _ in group]
            match way:
                case "insert":
                    self.db.insert("t", rows)
                case "delete":
                    self.db.delete("t", rows)
                case "lines":
                    self.db.insert_lines("t", [json.dumps(row) for row in rows])
        self.db.drain()
        self.model.epoch([change for change, _ in changes], self.clock.now())
        self.check("t")
        if changes:
            counts = json.loads(rows_of(self.db, "SHOW EPOCHS")[-1]["streams"])["t"]
            assert counts["in"] == counts["decoded"] == counts["used"] + counts["filtered"] == len(changes)

    def check(self, name: str) -> None:
        columns = "id, value, seq, epoch_us(ts)"
        assert self._read(f'SELECT {columns} FROM main."{name}"') == Counter(self.model.rows().values())
        if self.mode == "event" or (self.mode == "arrival" and name == "t"):
            versions = self._read(f'SELECT {columns}, __from, __to FROM ms."{name}.versions"')
            assert versions == Counter(self.model.versions(self.clock.now()))

    def _read(self, sql: str) -> Counter[tuple[Any, ...]]:
        return Counter(tuple(row.values()) for row in store_of(self.db).query(sql).to_pylist())

    def check_compacted(self) -> None:
        """What compaction leaves in the log makes the same table."""
        for _ in range(2):
            # A day seals the segments, so that they can be compacted.
            self.clock.advance(2 * DAY)
            self.db.maintain()
        topic = parts_of(self.db).log.topic("t")
        rows = [row for p in range(self.partitions) for batch in topic.read(p, 0) for row in batch.to_pylist()]
        typed = [(row["id"], row["ts"] if self.mode == "event" else None) for row in rows if "_raw" not in row]
        assert len(typed) == len(set(typed)), "the log is compacted"
        self.create("again")
        self.db.drain()
        self.check("t")
        self.check("again")


def _record(change: Change) -> dict[str, Any]:
    return {
        "id": change.key,
        "value": change.value,
        "op": "d" if change.value is None else "u",
        "seq": change.sequence,
        "ts": f"1970-01-01T00:00:{change.at // 1_000_000:02}Z",
    }


@st.composite
def feeds(draw: st.DrawFn) -> tuple[int, list[Epoch]]:
    partitions = draw(st.integers(1, 3))
    # Lines are dealt to partitions in turn: with several of them there is no order within a key.
    ways: list[Way] = ["insert", "lines"] if partitions == 1 else ["insert"]

    def changes() -> Iterator[tuple[Change, Way]]:
        for change in draw(st.lists(CHANGES, max_size=12)):
            yield change, draw(st.sampled_from(["delete", *ways] if change.value is None else ways))

    epochs = draw(st.integers(1, 4))
    return partitions, [(list(changes()), draw(st.integers(0, 3)), draw(st.booleans())) for _ in range(epochs)]


@pytest.mark.parametrize("sequence", [False, True], ids=["arrival-order", "sequence"])
@pytest.mark.parametrize("mode", ["plain", "arrival", "event"])
@settings(max_examples=4)
@given(feed=feeds())
def test_a_table_is_its_changes_applied_one_by_one(
    fresh_directory: Directories, mode: Mode, sequence: bool, feed: tuple[int, list[Epoch]]
) -> None:
    partitions, epochs = feed
    with fresh_directory() as directory:
        run = Run(directory, mode, sequence, partitions)
        try:
            for changes, pause, restarts in epochs:
                if restarts:
                    run.restart()
                run.step(changes, pause)
            run.check_compacted()
        finally:
            run.db.close()
