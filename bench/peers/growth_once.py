"""DuckDB over the clicks of `growth`, one query over all files: what the number of groups costs by itself.

It reads, groups and keeps the groups in memory: no epochs, no state that is found again, no changelog, nothing durable.
"""

from __future__ import annotations

import json
import time
from typing import Any

from bench.job import Answer, Job, main
from bench.peers.duckdb_once import connect
from bench.peers.growth import DEFAULTS, fingerprint, grouped


def run(job: Job) -> Answer:
    settings: dict[str, Any] = {**DEFAULTS, **json.loads(job.settings)}
    connection = connect()
    connection.execute(f"CREATE TEMP TABLE warm AS {grouped(settings, [job.warm_up_path])}")
    began, started_at = time.perf_counter(), time.time()
    connection.execute(f"CREATE TEMP TABLE result AS {grouped(settings, [job.path])}")
    seconds = time.perf_counter() - began
    return Answer(started_at, time.time(), seconds, digest=fingerprint(connection, "result", windowed=False))


if __name__ == "__main__":
    main(run)
