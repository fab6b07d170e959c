"""All the queries in one database, through real kills: nothing lost, nothing twice, one prefix."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

import millstream as ms
from tests.faults.workers import Worker

from .checks import check_no_letters, check_view, rows_read
from .feed import KINDS, Feed
from .queries import PENDING, QUERIES

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).with_name("worker.py")
VIEWS = [query for query in QUERIES if query not in PENDING]
LARGE = [pytest.mark.large, pytest.mark.timeout(3_600)]
SIZES = [
    pytest.param("77-12000-12-500", id="small"),
    pytest.param("78-1000000-16-10000", id="large", marks=LARGE),
]

# On Spark SQL all queries in one database are some forty branches of a job, more than a JVM of 1 GB plans at this size.
NATIVE = {"MILLSTREAM_KERNEL": "auto"}


def wait_for_ack(worker: Worker, batch: int, seconds: float = 300) -> None:
    until = time.monotonic() + seconds
    while (worker.acknowledged or 0) < batch:
        assert worker.listen(0.05), f"the worker ended: {worker.said}\n{worker.errors()}"
        assert time.monotonic() < until, f"no batch {batch}: {worker.said}\n{worker.errors()}"


@pytest.mark.parametrize("description", SIZES)
def test_killed_in_the_middle(tmp_path: Path, jvm: dict[str, str], description: str) -> None:
    directory = tmp_path / "data"
    feed = Feed(*map(int, description.split("-")))
    chance = random.Random(feed.seed)
    acknowledged = -1
    for target in (feed.batches // 4, feed.batches // 2):
        worker = Worker(directory, description, jvm=jvm | NATIVE, script=SCRIPT)
        try:
            worker.begin(acknowledged + 1)
            wait_for_ack(worker, target)
            # At any moment of the next batch, however fast it is.
            until = time.monotonic() + chance.uniform(0, 1.5)
            while worker.acknowledged == target and time.monotonic() < until:
                worker.listen(0.005)
        finally:
            worker.kill()
        assert worker.acknowledged is not None
        acknowledged = worker.acknowledged
        assert acknowledged < feed.batches - 1, "it was killed too late to show anything"
        with ms.connect(directory, clock=feed.clock(acknowledged)) as db:
            read = rows_read(db)
            rows = feed.rows(acknowledged + 2, read)
            assert {kind: table.num_rows for kind, table in rows.items()} == read, "rows that nobody sent"
            for view in VIEWS:
                check_view(db, view, rows)
    clock = feed.clock(acknowledged + 1)
    with ms.connect(directory, clock=clock) as db:
        for number in range(acknowledged + 1, feed.batches):
            feed.set_clock(clock, number)
            feed.insert(db, number, message_ids=True)
        db.drain()
        everything = feed.rows(feed.batches)
        assert rows_read(db) == {kind: everything[kind].num_rows for kind in KINDS}
        for view in VIEWS:
            check_view(db, view, everything)
        check_no_letters(db)
