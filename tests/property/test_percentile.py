"""Watermarks at a percentile follow the model, and do not depend on restarts."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millstream as ms
from millstream.model.lateness import Lateness
from tests.parts import parts_of

from ..lateness_model import PercentileModel

pytestmark = pytest.mark.spark

Directories = Callable[[], AbstractContextManager[Path]]
EPOCH = datetime(1970, 1, 1)


@st.composite
def batches(draw: st.DrawFn) -> list[list[int]]:
    """Event times in milliseconds, batch by batch, each with a disorder of its own."""
    clock = 1_000_000
    found = []
    for size in draw(st.lists(st.integers(1, 60), min_size=3, max_size=7)):
        disorder = draw(st.sampled_from([0, 3, 1_000, 90_000]))
        late = draw(st.lists(st.integers(0, disorder), min_size=size, max_size=size))
        found.append([clock + 250 * index - by for index, by in enumerate(late)])
        clock += 250 * size
    return found


@settings(max_examples=4)
@given(
    batches=batches(),
    restarts=st.sets(st.integers(1, 6)),
    partitions=st.integers(1, 3),
    percentile=st.sampled_from([0.3, 0.5, 0.8]),
)
def test_restarts_change_nothing(
    fresh_directory: Directories, batches: list[list[int]], restarts: set[int], partitions: int, percentile: float
) -> None:
    seen = []
    for breaks in (set(), restarts):
        with fresh_directory() as directory:
            seen.append(run(directory, batches, breaks, partitions, percentile))
    assert seen[0] == seen[1]


def run(directory: Path, batches: list[list[int]], restarts: set[int], partitions: int, percentile: float) -> object:
    db = ms.connect(directory)
    try:
        db.sql(
            f"CREATE STREAM s (k BIGINT, ts TIMESTAMP, WATERMARK FOR ts AT PERCENTILE {percentile}) "
            f"WITH (partitions = {partitions}, key = 'k');"
            "CREATE MATERIALIZED VIEW w AS SELECT window_start, count(*) AS n FROM TUMBLE(s, ts, INTERVAL 1 SECOND) "
            "GROUP BY window_start EMIT ON WATERMARK"
        )
        model = PercentileModel(percentile)
        read_to = dict.fromkeys(range(partitions), 0)
        for number, batch in enumerate(batches):
            if number in restarts:
                db.close()
                db = ms.connect(directory)
            rows = [{"k": index % 7, "ts": EPOCH + timedelta(milliseconds=at)} for index, at in enumerate(batch)]
            db.insert("s", rows)
            db.drain()
            assert watermarks(db)[-1] == model.epoch(arrived(db, read_to))
            assert counted(db) == model.lateness
        assert db.query("SELECT count(*) AS n FROM s__late").rows()[0]["n"] == late_rows(db)
        shown = (db.sql(what).rows() for what in ("SHOW STREAMS", "DESCRIBE w"))  # type: ignore[union-attr]
        return watermarks(db), *shown, db.query("SELECT * FROM w ORDER BY window_start").rows()
    finally:
        db.close()


def watermarks(db: ms.Database) -> list[int | None]:
    """The watermark of the stream after each epoch."""
    found = [json.loads(row["watermarks"])["s"] for row in db.sql("SHOW EPOCHS").rows()]  # type: ignore[union-attr]
    return [None if at == -(2**62) else at for at in found]


def counted(db: ms.Database) -> Lateness | None:
    progress = parts_of(db).store.progress("s")
    assert progress is not None
    return progress.lateness


def late_rows(db: ms.Database) -> int:
    return sum(row["rows_late"] for row in db.sql("SHOW EPOCHS").rows())  # type: ignore[union-attr]


def arrived(db: ms.Database, read_to: dict[int, int]) -> list[tuple[int, int]]:
    """(partition, event time) of what the log has that was not read yet."""
    topic = parts_of(db).log.topic("s")
    found = []
    for partition, start in read_to.items():
        end = topic.end_offsets()[partition]
        for batch in topic.read(partition, start, end) if end > start else ():
            found += [(partition, (row["ts"] - EPOCH) // timedelta(microseconds=1)) for row in batch.to_pylist()]
        read_to[partition] = end
    return found
