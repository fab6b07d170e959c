"""A program that is killed while it reads history; started by the tests, never imported by them.

    history_worker.py DIRECTORY MODE

It reads a line from standard input, opens the directory, fills a stream, and then, running, either
creates views over what is there (`backfill`) or rebuilds the one that is there (`rebuild`). After some
slices of history it says `held` and does nothing more, holding the epoch loop.
"""

from __future__ import annotations

import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
START = datetime(2024, 3, 1)
ROWS = 60_000
SLICE_ROWS = 10_000
SLICES = 3

STREAM = """
CREATE STREAM s (id BIGINT, k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)
WITH (partitions = 2, key = 'k');
CREATE STREAM t (id BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS);
"""
PER_KEY = "CREATE MATERIALIZED VIEW per_key AS SELECT k, count(*) AS n, sum(v) AS sv FROM s GROUP BY k"
VIEWS = f"""
{PER_KEY};
CREATE MATERIALIZED VIEW best AS SELECT max(n) AS most, count(*) AS keys FROM per_key;
CREATE MATERIALIZED VIEW pairs AS SELECT s.id, s.k FROM s JOIN t ON s.id = t.id
AND t.ts BETWEEN s.ts - INTERVAL 2 SECONDS AND s.ts + INTERVAL 2 SECONDS;
"""


def rows_of(first: int, count: int) -> list[dict[str, object]]:
    return [
        {"id": n, "k": f"key-{n % 7}", "v": n % 101, "ts": START + timedelta(milliseconds=10 * n)}
        for n in range(first, first + count)
    ]


def others_of(first: int, count: int) -> list[dict[str, object]]:
    """Rows of the other stream: a partner for every tenth."""
    return [
        {"id": n, "ts": START + timedelta(milliseconds=10 * n + 500)}
        for n in range(first, first + count)
        if n % 10 == 0
    ]


def main(directory: Path, mode: str) -> None:
    sys.path.insert(0, str(HERE.parents[1]))
    from tests.faults.worker import say, share_jvm

    share_jvm()
    import millstream as ms
    from millstream.engine.run.backfill import History

    sys.stdin.readline()
    db = ms.connect(directory, settings=ms.EngineSettings(max_epoch_rows=SLICE_ROWS))
    db.sql(STREAM)
    if mode == "rebuild":
        db.sql(PER_KEY)
    db.insert("s", rows_of(0, ROWS))
    db.insert("t", others_of(0, ROWS))
    db.drain()
    done = 0
    commit = History._commit

    def counting(self: History, *arguments: Any) -> None:
        nonlocal done
        commit(self, *arguments)
        done += 1
        if done == SLICES:
            say("held")
            time.sleep(600)

    history: Any = History
    history._commit = counting
    db.start()
    db.sql("ALTER MATERIALIZED VIEW per_key REBUILD" if mode == "rebuild" else VIEWS)
    time.sleep(600)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
