"""A program that kills parts of its own Spark and says what its views hold afterwards.

Run as `lost_parts_worker.py <directory> <mode>`. It has a JVM of its own: the one of the test run serves others.
A part is killed while a user's function runs in a task, so the moment does not depend on how fast the machine is.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import cast

import pyarrow as pa

import millstream as ms
from millstream.model.settings import Kernel

ROWS = 40
KEYS = 4


def jvm() -> int:
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    return int(gateway.proc.pid)


def parents() -> dict[int, int]:
    """The parent of each process."""
    found = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(status.parent.name)] = int(status.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    return found


class Killer:
    """A user's function that has a part killed, once, when it is first called after `arm`."""

    def __init__(self, directory: Path) -> None:
        self._armed, self._calls = directory / "armed", directory / "calls"

    def arm(self, part: str) -> None:
        self._armed.write_text(part)

    def __call__(self, column: pa.Array) -> pa.Array:
        with self._calls.open("a") as calls:
            calls.write("x")
        try:
            part = self._armed.read_text()
            self._armed.unlink()
        except FileNotFoundError:
            return column
        worker, above = os.getpid(), parents()
        daemon = above[worker]
        os.kill({"worker": worker, "daemon": daemon, "jvm": above[daemon]}[part], signal.SIGKILL)
        return column


def expected(count: int) -> list[dict[str, int]]:
    numbers = range(count * ROWS)
    return [
        {"k": k, "n": len([n for n in numbers if n % KEYS == k]), "s": sum(n for n in numbers if n % KEYS == k)}
        for k in range(KEYS)
    ]


def main(directory: Path, kernel: Kernel, part: str, in_background: bool) -> None:
    killer = Killer(directory)
    with ms.connect(directory / "db", settings=ms.EngineSettings(kernel=kernel)) as db:
        db.create_function("same", killer, arguments=["BIGINT"], returns="BIGINT")
        db.sql(
            f"""CREATE STREAM s (v BIGINT);
            CREATE MATERIALIZED VIEW plain AS
            SELECT v % {KEYS} AS k, count(*) AS n, sum(v) AS s FROM s GROUP BY v % {KEYS};
            CREATE MATERIALIZED VIEW called AS
            SELECT same(v) % {KEYS} AS k, count(*) AS n, sum(v) AS s, max(v) AS m FROM s GROUP BY same(v) % {KEYS}"""
        )
        if in_background:
            db.start()
        for batch in range(3):
            if batch:
                killer.arm(part)
            db.insert("s", [{"v": batch * ROWS + n} for n in range(ROWS)])
            if in_background:
                await_rows(db, (batch + 1) * ROWS)
            else:
                db.drain()
        if in_background:
            threads = [thread.name for thread in threading.enumerate()]
            assert {"millstream-epochs", "millstream-history"} <= set(threads), threads
        assert not (directory / "armed").exists(), "nothing was killed"
        # What Spark is asked for by statements is there again as well.
        db.sql(
            "CREATE MATERIALIZED VIEW late AS "
            "SELECT same(v) % 4 AS k, count(*) AS n, sum(v) AS s, min(v) AS m FROM s GROUP BY 1"
        )
        db.drain()
        views = {
            name: db.query(f"SELECT k, n, s FROM {name} ORDER BY k").rows() for name in ("plain", "called", "late")
        }
        accounts = [row["streams"] for row in db.epochs().rows()]
        failure = db.status()["failure"]
    print(json.dumps({"views": views, "expected": expected(3), "accounts": str(accounts), "failure": failure}))


def await_rows(db: ms.Database, count: int) -> None:
    epoch = 0
    while True:
        rows = [db.query(f"SELECT coalesce(sum(n), 0) AS n FROM {view}").rows() for view in ("plain", "called")]
        if all(row[0]["n"] == count for row in rows):
            return
        epoch = db.wait_for_epoch(epoch, 0.5)


if __name__ == "__main__":
    main(Path(sys.argv[1]), cast("Kernel", sys.argv[2]), sys.argv[3], sys.argv[4] == "background")
