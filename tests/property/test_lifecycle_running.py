"""Random definitions, rows and restarts of processing in a running database, against a model.

Streams of the log and of Structured Streaming come, go and are replaced while their rows arrive, and processing is
stopped and started. In the end everything is drained: each view has every row of the streams that it reads, no query
or checkpoint of a dropped stream is left, and nothing fails. Deltas are computed in this process.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

import millstream as ms
from millstream.engine.surface.database import Database
from tests.inprocess_compute import InProcessCompute
from tests.parts import parts_of

STEPS = 40
LOGS, PUSHED, VIEWS = ("a", "b", "c"), ("p", "q"), ("u", "v", "w")


@dataclass
class Stream:
    """One incarnation, with the rows that were taken from it."""

    rows: list[int] = field(default_factory=list)
    batches: int = 0


@dataclass
class View:
    stream: str
    rows: list[int] = field(default_factory=list)
    """Of a stream without history: those that came since the view was created."""


@dataclass
class Run:
    directory: Path
    random: random.Random
    streams: dict[str, Stream] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    is_running: bool = False

    def __post_init__(self) -> None:
        self.compute = InProcessCompute()
        settings = ms.EngineSettings(eager_spark=False).model_copy(update={"max_epoch_rows": 10})
        self.db = Database(self.directory / "db", lambda _: self.compute, settings=settings)
        self.sources = {name: self.compute.push(name) for name in PUSHED}

    # -- steps ---------------------------------------------------------------------------------

    def define(self, sql: str) -> bool:
        try:
            self.db.sql(sql)
        except ms.MillstreamError as error:
            if error.code in ("IN_USE", "ALREADY_EXISTS", "UNKNOWN_STREAM", "UNKNOWN_VIEW", "UNKNOWN_RELATION"):
                return False
            raise
        return True

    def create_stream(self) -> None:
        name = self.random.choice((*LOGS, *LOGS, *PUSHED))
        # A definition that says the same replaces nothing.
        number = self.random.randrange(10**9)
        options = f"source = 'spark', format = 'rate', path = '{name}', 'option.n' = {number}"
        rest = f"(k BIGINT) WITH ({options})" if name in PUSHED else f"(k BIGINT, c{number} BIGINT)"
        replace = self.random.choice(["", "OR REPLACE "])
        if self.define(f"CREATE {replace}STREAM {name} {rest}"):
            self.streams[name] = Stream()
            self.take_pushed()

    def drop_stream(self) -> None:
        name = self.random.choice((*LOGS, *PUSHED))
        if self.define(f"DROP STREAM {name}"):
            del self.streams[name]

    def create_view(self) -> None:
        name, stream = self.random.choice(VIEWS), self.random.choice((*LOGS, *PUSHED))
        if name not in self.views and self.define(
            f"CREATE MATERIALIZED VIEW {name} AS SELECT count(*) AS n, sum(k) AS total FROM {stream}"
        ):
            self.views[name] = View(stream)

    def drop_view(self) -> None:
        name = self.random.choice(VIEWS)
        if self.define(f"DROP VIEW {name}"):
            del self.views[name]

    def insert(self) -> None:
        for name in [name for name in LOGS if name in self.streams]:
            values = [self.random.randrange(100) for _ in range(self.random.randint(1, 30))]
            self.db.insert(name, [{"k": value} for value in values])
            self.streams[name].rows += values

    def push(self) -> None:
        """A batch, which a query that runs takes at once."""
        name = self.random.choice(PUSHED)
        batch = pa.table({"k": pa.array([self.random.randrange(100) for _ in range(3)], pa.int64())})
        source = self.sources[name]
        assert (source.deliver is not None) == (self.is_running and name in self.streams), name
        if source.deliver is not None:
            source.push(batch)
        else:
            source.batches.append(batch)
        self.take_pushed()

    def take_pushed(self, *, drains: bool = False) -> None:
        """Give views the batches that were delivered, if queries run."""
        if not self.is_running and not drains:
            return
        for name, source in self.sources.items():
            stream = self.streams.get(name)
            if stream is None:
                continue
            for batch in source.batches[stream.batches :]:
                for view in self.views.values():
                    if view.stream == name:
                        view.rows += batch.column("k").to_pylist()
            stream.batches = len(source.batches)

    def start(self) -> None:
        self.db.start()
        self.is_running = True
        self.take_pushed()

    def stop(self) -> None:
        self.db.stop()
        self.is_running = False

    def drain(self) -> None:
        self.db.drain()
        self.take_pushed(drains=True)
        self.check()

    # -- what must hold ------------------------------------------------------------------------

    def check(self) -> None:
        for name, view in self.views.items():
            rows = view.rows if view.stream in PUSHED else self.streams[view.stream].rows
            (found,) = self.db.query(f"SELECT n, coalesce(total, 0) AS total FROM {name}").rows()
            assert found == {"n": len(rows), "total": sum(rows)}, name
        status = self.db.status()
        assert {each["name"]: each["state"] for each in status["streams"]} == dict.fromkeys(self.streams, "live")
        assert {each["name"]: each["state"] for each in status["views"]} == dict.fromkeys(self.views, "live")
        assert (status["failure"], status["running"]) == (None, self.is_running)


def run(directory: Path, seed: int) -> None:
    run = Run(directory, random.Random(seed))
    try:
        steps: list[Callable[[], None]] = [
            *[run.create_stream, run.create_view, run.insert] * 4,
            *[run.drop_stream, run.drop_view, run.push] * 2,
            *[run.start, run.start, run.stop, run.drain],
        ]
        run.start()
        for _ in range(STEPS):
            run.random.choice(steps)()
        run.drain()
        run.stop()
        assert all(source.deliver is None for source in run.sources.values())
        assert parts_of(run.db).definitions.holdings.in_use == set()
        assert run.compute.open == 0
    finally:
        run.db.close()


@pytest.mark.parametrize("seed", range(4))
def test_definitions_while_the_database_runs(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(4, 200))
def test_definitions_while_the_database_runs_many_times(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed)
