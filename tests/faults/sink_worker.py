"""Delivers what is due to the sinks of a data directory, and kills itself on the way.

`sink_worker.py DIRECTORY POINT N`: at the N-th append to the topic, before it, in its middle or after
it; or at the acknowledgement. Says `done` when it was not killed.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

import millstream as ms
from millstream.engine.run.delivery import Delivery
from millstream.log import Topic


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still there")


def main(directory: Path, point: str, number: int) -> None:
    appends = 0
    append = Topic.append

    def dying(self: Topic, rows: pa.Table, **rest: Any) -> Any:
        nonlocal appends
        appends += 1
        if appends < number or point == "acknowledge":
            return append(self, rows, **rest)
        if point == "middle":
            append(self, rows.slice(0, rows.num_rows // 2), **rest)
        elif point == "after":
            append(self, rows, **rest)
        die()

    Topic.append = dying  # type: ignore[method-assign]
    if point == "acknowledge":
        Delivery._acknowledge = lambda self, entry: die()  # type: ignore[method-assign]
    with ms.connect(directory, settings=ms.EngineSettings(eager_spark=False)) as db:
        # Not `drain`: that would plan epochs, for which Spark is needed.
        db._parts.delivery.drain()
        print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
