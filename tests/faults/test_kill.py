"""Exactly once, whatever is killed and whenever."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import millstream as ms

from .checks import check_consistent, check_logged, check_results
from .worker import BATCH_ROWS, message_ids, rows_of
from .workers import Worker

pytestmark = pytest.mark.spark

KILLS = 25


def finish(directory: Path, acknowledged: int) -> None:
    """Send the batch again that may or may not have arrived, process everything, and look at all of it."""
    with ms.connect(directory) as db:
        check_logged(db, acknowledged)
        db.insert("s", rows_of(acknowledged + 1), message_ids=message_ids(acknowledged + 1))
        db.drain()
        assert check_consistent(db) == (acknowledged + 2) * BATCH_ROWS
        check_results(db, acknowledged + 2)


def test_killed_at_random_moments(tmp_path: Path, jvm: dict[str, str]) -> None:
    directory = tmp_path / "data"
    chance = random.Random(20240301)
    acknowledged = -1
    worked = 0
    upcoming = Worker(directory, "loop", jvm=jvm)
    try:
        for number in range(KILLS):
            worker, upcoming = upcoming, Worker(directory, "loop", jvm=jvm)
            try:
                worker.begin(acknowledged + 1)
                # The first one creates the views; the others are killed early, in the middle and late.
                worker.wait_for("epoch" if number == 0 else chance.choice(("open", "ack", "epoch", "epoch")))
                worker.listen(chance.uniform(0, 0.7))
            finally:
                worker.kill()
            if worker.acknowledged is not None:
                acknowledged = worker.acknowledged
            worked += any(line.startswith("epoch") for line in worker.said)
            with ms.connect(directory) as db:
                check_logged(db, acknowledged)
                check_consistent(db)
    finally:
        upcoming.close()
    assert worked >= KILLS / 4, "most workers were killed before they had done anything"
    finish(directory, acknowledged)


@pytest.mark.parametrize("moment", ["before-commit", "in-commit"])
def test_killed_between_the_log_and_the_commit(tmp_path: Path, jvm: dict[str, str], moment: str) -> None:
    """What is acknowledged and not yet in an epoch is in the next one; half an epoch leaves no trace."""
    directory = tmp_path / "data"
    first = Worker(directory, "once", jvm=jvm)
    first.begin(0)
    first.wait_for("epoch")
    first.process.wait(60)
    first.close()
    worker = Worker(directory, moment, jvm=jvm)
    worker.begin(1)
    worker.wait_for("held")
    worker.kill()
    assert worker.acknowledged == 1
    with ms.connect(directory) as db:
        check_logged(db, 1)
        assert check_consistent(db) == BATCH_ROWS, "the epoch that was not committed is not there"
        assert db.drain() == 2
        check_results(db, 2)
    finish(directory, 1)


def test_killed_together_with_its_spark(tmp_path: Path) -> None:
    """A worker with a JVM of its own, as a user has it: the JVM goes with the process."""
    import psutil

    directory = tmp_path / "data"
    worker = Worker(directory, "loop")
    try:
        worker.begin(0)
        worker.wait_for("epoch", 180)
        children = psutil.Process(worker.process.pid).children(recursive=True)
        worker.listen(0.3)
    finally:
        worker.kill()
    assert children, "it has a JVM"
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive, "a JVM without its process"
    assert worker.acknowledged is not None
    finish(directory, worker.acknowledged)
