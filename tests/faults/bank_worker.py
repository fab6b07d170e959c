"""A bank: transfers between ten accounts come out of order, and views follow the money until the process is killed.

It speaks as `worker.py` does, and looks at its own views from a second thread all the time: `wrong <what>` is said
when a reader sees money appear or vanish, or half of a join.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from datetime import datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

START = datetime(2024, 5, 1)
BATCH_ROWS = 50

STATEMENTS = """
CREATE STREAM IF NOT EXISTS transfers (id BIGINT, source BIGINT, target BIGINT, amount BIGINT, ts TIMESTAMP,
    WATERMARK FOR ts AS ts - INTERVAL 10 SECONDS) WITH (partitions = 2);
CREATE MATERIALIZED VIEW IF NOT EXISTS credits AS
SELECT target AS account, sum(amount) AS credits FROM transfers GROUP BY target;
CREATE MATERIALIZED VIEW IF NOT EXISTS debits AS
SELECT source AS account, sum(amount) AS debits FROM transfers GROUP BY source;
CREATE MATERIALIZED VIEW IF NOT EXISTS balance AS
SELECT coalesce(c.account, d.account) AS account, coalesce(credits, 0) - coalesce(debits, 0) AS balance
FROM credits c FULL JOIN debits d ON c.account = d.account;
CREATE MATERIALIZED VIEW IF NOT EXISTS total AS SELECT sum(balance) AS total FROM balance;
CREATE MATERIALIZED VIEW IF NOT EXISTS matched AS
SELECT a.id, b.id AS partner FROM transfers a LEFT JOIN transfers b ON a.id = b.id;
CREATE MATERIALIZED VIEW IF NOT EXISTS bounded AS
SELECT a.id, b.id AS partner FROM transfers a LEFT JOIN transfers b
ON a.id = b.id AND b.ts BETWEEN a.ts - INTERVAL 1 SECOND AND a.ts + INTERVAL 1 SECOND;
"""

SUMS = """
SELECT (SELECT coalesce(sum(balance), 0) FROM balance) AS balances,
       (SELECT coalesce(max(total), 0) FROM total) AS total,
       (SELECT count(*) FROM matched WHERE partner IS NULL) AS halves, (SELECT count(*) FROM matched) AS matched,
       (SELECT count(*) FROM bounded WHERE partner IS NULL) AS bounded_halves, (SELECT count(*) FROM bounded) AS bounded
"""


def rows_of(batch: int) -> list[dict[str, object]]:
    """Batch n is always the same transfers, each up to ten seconds late."""
    chance = random.Random(batch)
    numbers = range(batch * BATCH_ROWS, (batch + 1) * BATCH_ROWS)
    return [
        {
            "id": number,
            "source": chance.randrange(10),
            "target": chance.randrange(10),
            "amount": 1,
            "ts": START + timedelta(milliseconds=100 * number - chance.randrange(10_000)),
        }
        for number in numbers
    ]


def faults(db: object) -> list[str]:
    """What no reader may ever see, looked for in one query, so in one epoch."""
    (seen,) = db.query(SUMS).rows()  # type: ignore[attr-defined]
    found = [name for name in ("balances", "total", "halves", "bounded_halves") if seen[name]]
    return found + (["joins of different prefixes"] if seen["matched"] != seen["bounded"] else [])


def main(directory: Path) -> None:
    from tests.faults.worker import say, share_jvm

    if "PYSPARK_GATEWAY_PORT" in os.environ:
        share_jvm()
    import millstream as ms

    batch = int(sys.stdin.readline())
    db = ms.connect(directory)
    say("open")
    db.sql(STATEMENTS)

    def watch() -> None:
        while True:
            for fault in faults(db):
                say("wrong", fault)

    threading.Thread(target=watch, daemon=True).start()
    while True:
        ids = [f"transfer-{row['id']}" for row in rows_of(batch)]
        db.insert("transfers", rows_of(batch), message_ids=ids)
        say("ack", batch)
        batch += 1
        if batch % 2:
            say("epoch", db.drain())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
