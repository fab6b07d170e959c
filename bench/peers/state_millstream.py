"""Millstream over an input that never ends: how much it keeps, measured after every epoch.

One view with `retain`, fed slice by slice: a slice is written as two files, becomes one epoch or two, and is
removed. The clock is ours and goes with event time, so that what is kept for so long in processing time (the
changelog) has a horizon too. The store is checkpointed after every slice: otherwise its file would show what
was written since the last checkpoint, up to 256 MB, and not what is kept. At the end the newest rows are
compared with a one-shot DuckDB query.
"""

from __future__ import annotations

import os
import time
from collections import deque
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import millstream as ms
from bench.data import START_US
from bench.job import Answer, Job, main
from bench.peers.duckdb_once import connect
from bench.peers.millstream import SPARK
from bench.runner import resident
from bench.state_data import RETAIN_SECONDS, SLICE_US, Slices
from millstream.store.duckdb.store import DuckDBStore

COMPARED_SECONDS = 60
"""Of the end of the input: well within what is retained, and windows that began before are still known."""

STREAMS = """
CREATE STREAM orders (
    id BIGINT, buyer BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 4 SECONDS
) WITH (source = 'files', path = '{path}/orders', format = 'parquet', files_per_epoch = '1');
CREATE STREAM payments (
    id BIGINT, amount BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 4 SECONDS
) WITH (source = 'files', path = '{path}/payments', format = 'parquet', files_per_epoch = '1');
"""

_OPTIONS = f"WITH (retain = '{RETAIN_SECONDS} seconds', changelog_retain = '{RETAIN_SECONDS} seconds')"

VIEWS = {
    "interval_join": f"""
CREATE MATERIALIZED VIEW answer {_OPTIONS} AS
SELECT o.id, o.buyer, p.amount, o.ts AS ordered_at, p.ts AS paid_at
FROM orders AS o
JOIN payments AS p ON o.id = p.id AND p.ts BETWEEN o.ts AND o.ts + INTERVAL 10 SECONDS""",
    "sessions": f"""
CREATE MATERIALIZED VIEW answer {_OPTIONS} AS
SELECT buyer, window_start, window_end, count(*) AS n
FROM SESSION(orders PARTITION BY buyer, ts, INTERVAL 10 SECONDS)
GROUP BY buyer, window_start, window_end""",
}

# Over the newest slices, with the instant {since} from which on rows are compared.
TRUTHS = {
    "interval_join": """
SELECT o.id, o.buyer, p.amount, epoch_us(o.ts) AS ordered_at, epoch_us(p.ts) AS paid_at
FROM orders o JOIN payments p USING (id) WHERE epoch_us(o.ts) >= {since}""",
    "sessions": """
WITH gaps AS (
  SELECT buyer, epoch_us(ts) AS us, us - lag(us) OVER (PARTITION BY buyer ORDER BY us) >= 10000000 AS begins FROM orders
), numbered AS (
  SELECT *, count(*) FILTER (begins) OVER (PARTITION BY buyer ORDER BY us) AS session FROM gaps
)
SELECT buyer, min(us) AS window_start, max(us) + 10000000 AS window_end, count(*) AS n
FROM numbered GROUP BY buyer, session HAVING min(us) >= {since}""",
}
FOUND = {
    "interval_join": """
SELECT id, buyer, amount, epoch_us(ordered_at) AS ordered_at, epoch_us(paid_at) AS paid_at
FROM answer WHERE epoch_us(ordered_at) >= {since}""",
    "sessions": """
SELECT buyer, epoch_us(window_start) AS window_start, epoch_us(window_end) AS window_end, n
FROM answer WHERE epoch_us(window_start) >= {since}""",
}


class Feed:
    """Slices as files; the newest are remembered for the comparison."""

    def __init__(self, slices: Slices, directory: Path) -> None:
        self._slices = slices
        self._directory = directory
        kept = RETAIN_SECONDS * 1_000_000 // SLICE_US
        self.newest: dict[str, deque[pa.Table]] = {name: deque(maxlen=kept) for name in ("orders", "payments")}
        for name in self.newest:
            (directory / name).mkdir(parents=True)

    def put(self, number: int) -> list[Path]:
        """Write a slice; its files."""
        tables = {"orders": self._slices.orders(number), "payments": self._slices.payments(number)}
        paths = []
        for name, table in tables.items():
            self.newest[name].append(table)
            path = self._directory / name / f"{number:06d}.parquet"
            hidden = path.with_name(f".{path.name}")
            pq.write_table(table, hidden)
            hidden.rename(path)
            paths.append(path)
        return paths


def compare(question: str, answer: pa.Table, newest: dict[str, deque[pa.Table]], until: int) -> tuple[int, int]:
    """How many of the newest rows there are, and how many differ from the one-shot query."""
    connection = connect()
    connection.register("answer", answer)
    for name, tables in newest.items():
        connection.register(name, pa.concat_tables(tables))
    since = until - COMPARED_SECONDS * 1_000_000
    truth, found = (texts[question].format(since=since) for texts in (TRUTHS, FOUND))
    counted = connection.execute(
        f"WITH truth AS ({truth}), found AS ({found}) SELECT (SELECT count(*) FROM truth), "
        "(SELECT count(*) FROM ((FROM truth EXCEPT ALL FROM found) UNION ALL (FROM found EXCEPT ALL FROM truth)))"
    ).fetchone()
    assert counted is not None
    return int(counted[0]), int(counted[1])


def steady_memory() -> int:
    """The resident memory of this process tree, the lower of two looks.

    For an instant after a fork a child can share all pages of the JVM, which would count twice.
    """
    first = resident(os.getpid())
    time.sleep(0.05)
    return min(first, resident(os.getpid()))


def store_bytes(db: ms.Database, directory: Path) -> tuple[int, int]:
    """The size of the store's file, and how much was written since it was last looked at."""
    log = directory / "store.duckdb.wal"
    written = log.stat().st_size if log.exists() else 0
    store = db._parts.store
    assert isinstance(store, DuckDBStore)
    store.cursor().execute("CHECKPOINT")
    return (directory / "store.duckdb").stat().st_size, written


def run(job: Job) -> Answer:
    work = Path(job.work)
    slices = Slices(job.rows, job.slices)
    clock = ms.ManualClock(START_US / 1_000_000)
    feed = Feed(slices, work / "input")
    memory: list[int] = []
    sizes: list[int] = []
    written: list[int] = []
    seconds: list[float] = []
    with ms.connect(work / "data", spark=SPARK, clock=clock) as db:
        db.sql(STREAMS.format(path=work / "input"))
        try:
            db.sql(VIEWS[job.question])
        except ms.MillstreamError as error:
            if error.code == "NOT_SUPPORTED":
                return Answer(0, 0, 0, notes={"refused": error.message})
            raise
        plan = db.sql("EXPLAIN answer")
        assert isinstance(plan, ms.Result)
        lines = [str(row["plan"]).strip() for row in plan.rows()]
        bounds = [line for line in lines if line.startswith(("state:", "retains:", "part ", "view "))]
        started_at = time.time()
        for number in range(slices.slices):
            clock.advance(SLICE_US / 1_000_000)
            paths = feed.put(number)
            began = time.perf_counter()
            db.drain()
            seconds.append(time.perf_counter() - began)
            for path in paths:
                path.unlink()
            memory.append(steady_memory())
            size, log = store_bytes(db, work / "data")
            sizes.append(size)
            written.append(log)
        ended_at = time.time()
        answer = db.query("SELECT * FROM answer").to_arrow()
    compared, wrong = compare(job.question, answer, feed.newest, START_US + slices.slices * SLICE_US)
    notes = {
        "bounds": bounds,
        "memory_bytes": memory,
        "store_bytes": sizes,
        "written_bytes": written,
        "rows_at_end": answer.num_rows,
        "rows_compared": compared,
        "rows_wrong": wrong,
    }
    return Answer(started_at, ended_at, sum(seconds), tuple(one * 1000 for one in seconds), notes=notes)


if __name__ == "__main__":
    main(run)
