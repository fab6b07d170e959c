"""A program that keeps all the queries over one feed until it is killed; started by the tests.

    worker.py DIRECTORY SEED-EVENTS-BATCHES-RATE

It speaks as `tests/faults/worker.py` does: it reads the number of the batch to begin with, then says
`open`, `ack <batch>` once all rows of a batch are inserted, and `epoch <number>` once they are processed.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))


def main(directory: Path, description: str) -> None:
    from tests.faults.worker import say, share_jvm

    if "PYSPARK_GATEWAY_PORT" in os.environ:
        share_jvm()
    import millstream as ms
    from tests.nexmark.feed import Feed
    from tests.nexmark.queries import PENDING, QUERIES, create

    feed = Feed(*map(int, description.split("-")))
    first = int(sys.stdin.readline())
    clock = feed.clock(first)
    db = ms.connect(directory, clock=clock)
    say("open")
    create(db, *(query for query in QUERIES if query not in PENDING))
    for number in range(first, feed.batches):
        feed.set_clock(clock, number)
        feed.insert(db, number, message_ids=True)
        say("ack", number)
        say("epoch", db.drain())
    time.sleep(600)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
