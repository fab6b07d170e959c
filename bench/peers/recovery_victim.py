"""Millstream over clicks, told to others commit by commit: what `recovery` kills and starts again.

`python -m bench.peers.recovery_victim DIRECTORY CLICKS GROUPS`: processes all clicks, one file per epoch, and writes a
line to standard output when the database is open and after every commit: what happened, and when.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import millstream as ms
from bench.peers.growth import DEFAULTS, stream, view
from bench.peers.millstream import SPARK


def tell(what: str) -> None:
    print(what, time.time(), flush=True)


def watch(db: ms.Database, done: threading.Event) -> None:
    """Say when an epoch is committed."""
    last = db.wait_for_epoch(-1, 0.0)
    while not done.is_set():
        epoch = db.wait_for_epoch(last, 0.2)
        for number in range(last + 1, epoch + 1):
            tell(f"committed {number}")
        last = epoch


def main(directory: Path, clicks: str, groups: int) -> None:
    settings = {**DEFAULTS, "groups": groups}
    with ms.connect(directory, spark=SPARK) as db:
        tell(f"opened {db.wait_for_epoch(-1, 0.0)}")
        if not db.status()["views"]:
            db.sql(stream(settings, clicks))
            db.sql(view(settings))
        done = threading.Event()
        watcher = threading.Thread(target=watch, args=(db, done))
        watcher.start()
        try:
            db.drain()
        finally:
            done.set()
            watcher.join()
    tell("ended 0")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
