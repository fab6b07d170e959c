"""Millstream over clicks: one view whose number of groups, window, disorder, epochs or partitions are as the job says.

`job.settings` is a JSON object with what differs from the `DEFAULTS`. From files, measured is everything from CREATE
STREAM to the last commit; from the log, where partitions and the size of epochs are varied, the processing of rows
that are already there; with clicks to `load`, the processing of those that follow them. In a process that has done the
same over other clicks. The view is read after the database was closed and opened again, and compared with a one-shot
DuckDB query.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import millstream as ms
from bench.job import Answer, Job, main
from bench.peers.duckdb_once import connect
from bench.peers.millstream import SPARK

DEFAULTS: dict[str, Any] = {
    "groups": 10_000,
    "window_seconds": None,
    "slack_seconds": 1,
    "partitions": None,
    "epoch_rows": 1_000_000,
    "load": None,
}
"""With partitions the clicks come from the log, without from files, one per epoch. `load` is a directory of clicks that
the view has before."""
CHUNK = 100_000
"""Rows of one insert into the log."""


def stream(settings: dict[str, Any], path: str) -> str:
    files = f"source = 'files', path = '{path}', format = 'parquet', files_per_epoch = '1'"
    options = files if settings["partitions"] is None else f"source = 'log', partitions = '{settings['partitions']}'"
    slack = f"WATERMARK FOR ts AS ts - INTERVAL {settings['slack_seconds']} SECONDS"
    return f"CREATE STREAM clicks (id BIGINT, price BIGINT, ts TIMESTAMP, {slack}) WITH ({options})"


def view(settings: dict[str, Any]) -> str:
    window = settings["window_seconds"]
    source = f"TUMBLE(clicks, ts, INTERVAL {window} SECONDS)" if window else "clicks"
    shown, grouped = ("window_start, ", "window_start, window_end, ") if window else ("", "")
    key = f"id % {settings['groups']}"
    return (
        f"CREATE MATERIALIZED VIEW answer AS SELECT {shown}{key} AS key, count(*) AS n, sum(price) AS total "
        f"FROM {source} GROUP BY {grouped}{key}"
    )


def process(settings: dict[str, Any], path: str, directory: Path) -> tuple[float, float, int]:
    """Everything in a directory of clicks: when it began, the seconds it took, the number of epochs."""
    engine = ms.EngineSettings(max_epoch_rows=settings["epoch_rows"])
    files = path
    if settings["load"] is not None:
        files = f"{directory}-files"
        link(settings["load"], files)
    with ms.connect(directory, spark=SPARK, settings=engine) as db:
        began, started_at = time.perf_counter(), time.time()
        db.sql(stream(settings, files))
        db.sql(view(settings))
        loaded = 0
        if settings["load"] is not None:
            loaded = db.drain()
            link(path, files)
            began, started_at = time.perf_counter(), time.time()
        if settings["partitions"] is not None:
            for file in sorted(Path(path).glob("*.parquet")):
                table = pq.read_table(file)
                for first in range(0, table.num_rows, CHUNK):
                    db.insert("clicks", table.slice(first, CHUNK))
            began, started_at = time.perf_counter(), time.time()
        epochs = db.drain() - loaded
        return started_at, time.perf_counter() - began, epochs


def link(source: str, target: str) -> None:
    """Put files into a directory by other names of theirs."""
    Path(target).mkdir(exist_ok=True)
    for file in Path(source).glob("*.parquet"):
        (Path(target) / f"{Path(source).name}-{file.name}").hardlink_to(file)


def fingerprint(connection: Any, relation: str, *, windowed: bool) -> dict[str, int]:
    names = ("window_start", "key", "n", "total") if windowed else ("key", "n", "total")
    values = ", ".join(f"CAST({name} AS BIGINT)" for name in names)
    ((groups, n, total, hash_),) = connection.execute(
        f"SELECT count(*), sum(n), sum(total), bit_xor(hash({values}) >> 4) FROM {relation}"
    ).fetchall()
    return {"groups": int(groups), "n": int(n), "total": int(total), "hash": int(hash_)}


def grouped(settings: dict[str, Any], paths: list[str]) -> str:
    """The question as a one-shot query over directories of clicks; `window_start` is in microseconds."""
    window = (settings["window_seconds"] or 0) * 1_000_000
    start = f"epoch_us(ts) - epoch_us(ts) % {window} AS window_start, " if window else ""
    files = [f"{path}/*.parquet" for path in paths]
    key = f"id % {settings['groups']} AS key"
    return f"SELECT {start}{key}, count(*) AS n, sum(price) AS total FROM read_parquet({files}) GROUP BY ALL"


def check(settings: dict[str, Any], path: str, directory: Path) -> tuple[dict[str, int], dict[str, int]]:
    """What the view has after a restart, and what it should have."""
    with ms.connect(directory, spark=SPARK) as db:
        answer = db.query("SELECT * FROM answer").to_arrow()
    connection = connect()
    connection.register("answer", answer)
    windowed = bool(settings["window_seconds"])
    shown = "(SELECT * REPLACE (epoch_us(window_start) AS window_start) FROM answer)" if windowed else "answer"
    truth = grouped(settings, [directory for directory in (path, settings["load"]) if directory is not None])
    return fingerprint(connection, shown, windowed=windowed), fingerprint(connection, f"({truth})", windowed=windowed)


def run(job: Job) -> Answer:
    work = Path(job.work)
    settings = {**DEFAULTS, **json.loads(job.settings)}
    process({**settings, "load": None}, job.warm_up_path, work / "warm")
    started_at, seconds, epochs = process(settings, job.path, work / "data")
    ended_at = time.time()
    found, truth = check(settings, job.path, work / "data") if job.verify else (None, None)
    store = (work / "data" / "store.duckdb").stat().st_size
    notes = {"truth": truth, "epochs": epochs, "store_bytes": store}
    return Answer(started_at, ended_at, seconds, digest=found, notes=notes)


if __name__ == "__main__":
    main(run)
