"""Random faults planted in one source of many: all other streams go on, and the failing one recovers.

A source raises where the engine asks it something, its rows cannot be read, one of its files is unreadable or gone, a
streaming query ends, or the history of a new view cannot be read. What is checked, for a caller who drains and in the
background: every other view equals the batch result over all rows, the failing stream shows a whole prefix, its state
says so, and rows add up. When the fault is gone, everything is right. Deltas are computed in this process.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import millstream as ms
from millstream.engine.surface.database import Database
from millstream.plan.compute import Portion
from tests.inprocess_compute import InProcessCompute, PushedRows
from tests.parts import parts_of

PATIENCE = 120
LOGS, FILES, PUSHED = ("a", "b"), ("parquet_", "json_"), ("p", "q")
STREAMS = (*LOGS, *FILES, *PUSHED)
ERRORS: tuple[Callable[[], Exception], ...] = (
    lambda: OSError(5, "Input/output error", "/planted"),
    lambda: ConnectionResetError(104, "planted"),
    lambda: KeyError("planted"),
    lambda: RuntimeError("planted"),
    lambda: ms.MillstreamError("SPARK_FAILED", "planted"),
)


class Faulty:
    """A source that raises in one place."""

    def __init__(self, source: Any, place: str, error: Callable[[], Exception]) -> None:
        self._source, self._place, self._error = source, place, error

    def __getattr__(self, name: str) -> Any:
        if name == self._place:
            raise self._error()
        return getattr(self._source, name)


@dataclass
class World:
    directory: Path
    random: random.Random
    rows: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in STREAMS})
    files: int = 0
    dead: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in STREAMS})
    pushed: dict[str, PushedRows] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clock, self.compute = ms.ManualClock(0), InProcessCompute()
        settings = ms.EngineSettings(eager_spark=False).model_copy(update={"max_epoch_rows": 10})
        self.db = Database(self.directory / "db", lambda _: self.compute, clock=self.clock, settings=settings)
        for name in STREAMS:
            options = ""
            if name in FILES:
                (self.directory / name).mkdir()
                options = f"WITH (source = 'files', path = '{self.directory / name}', format = '{name[:-1]}')"
            elif name in PUSHED:
                self.pushed[name] = self.compute.push(name)
                options = f"WITH (source = 'spark', format = 'rate', path = '{name}')"
            self.db.sql(f"CREATE STREAM {name} (k BIGINT) {options}")
            self.db.sql(f"CREATE MATERIALIZED VIEW v_{name} AS SELECT count(*) AS n, sum(k) AS total FROM {name}")
        self.db.sql("CREATE MATERIALIZED VIEW over AS SELECT x.n + y.n AS n FROM v_a x CROSS JOIN v_json_ y")

    def add(self, name: str) -> None:
        """More rows of a stream."""
        values = [self.random.randrange(100) for _ in range(self.random.randint(1, 8))]
        if name in LOGS:
            self.db.insert(name, [{"k": value} for value in values])
        elif name in FILES:
            self.write(name, values)
        else:
            batch = pa.table({"k": pa.array(values, pa.int64())})
            source = self.pushed[name]
            if source.deliver is not None:
                source.push(batch)
            else:
                source.batches.append(batch)
        self.rows[name] += values

    def write(self, name: str, values: list[int] | None) -> Path:
        """A file of rows, or one that cannot be read."""
        self.files += 1
        path = self.directory / name / f"{self.files:04}.{name[:-1]}{'.gz' if values is None else ''}"
        hidden = path.with_name(f".{path.name}")
        if values is None:
            hidden.write_bytes(b"neither Parquet nor gzip")
        elif name == "parquet_":
            pq.write_table(pa.table({"k": pa.array(values, pa.int64())}), hidden)
        else:
            hidden.write_text("".join(f'{{"k": {value}}}\n' for value in values))
        os.utime(hidden, (self.files, self.files))
        hidden.rename(path)
        return path

    # -- faults --------------------------------------------------------------------------------

    def plant(self, kind: str, name: str) -> Callable[[], None]:
        """Plant a fault; returns what removes it."""
        error = self.random.choice(ERRORS)
        entry = parts_of(self.db).catalog.stream(name)
        match kind:
            case "end" | "waiting" | "cut":
                good = entry.source
                entry.source = Faulty(good, kind, error)

                def remove() -> None:
                    entry.source = good
            case "read" | "history":

                def strike(portion: Portion) -> None:
                    if portion.stream.name == name and (kind == "read" or "late" in {v.name for v in portion.views}):
                        raise error()

                self.compute.on_read = strike

                def remove() -> None:
                    self.compute.on_read = lambda portion: None
            case "unreadable" | "gone":
                path = self.write(name, None)
                self.dead[name].append(str(path))
                if kind == "gone":
                    entry.source.end()
                    path.unlink()

                def remove() -> None:
                    pass
            case _:
                self.pushed[name].ended = ms.MillstreamError("SPARK_SOURCE_FAILED", "planted")
                self.pushed[name].deliver = None

                def remove() -> None:
                    self.pushed[name].ended = None

        return remove

    # -- what must hold ------------------------------------------------------------------------

    def content(self, name: str) -> tuple[int, int]:
        (row,) = self.db.query(f"SELECT n, coalesce(total, 0) AS total FROM v_{name}").rows()
        return row["n"], row["total"]

    def is_right(self, name: str) -> bool:
        return self.content(name) == (len(self.rows[name]), sum(self.rows[name]))

    def is_a_prefix(self, name: str) -> bool:
        count, total = self.content(name)
        return total == sum(self.rows[name][:count])

    def check(self, failing: str | None) -> None:
        for name in STREAMS:
            assert self.is_right(name) if name != failing else self.is_a_prefix(name), (name, failing)
            found = self.db.query(f"SELECT raw FROM {name}__dead ORDER BY _offset").rows()
            assert [row["raw"] for row in found] == self.dead[name]
        sizes = [self.content(name)[0] for name in ("a", "json_")]
        assert self.db.query("SELECT n FROM over").rows() == [{"n": sum(sizes)}]
        for epoch in self.db.epochs().rows():
            streams, views = json.loads(epoch["streams"]), json.loads(epoch["views"])
            for name, counts in streams.items():
                assert counts["in"] == counts["decoded"] + counts["dead"]
                if f"v_{name}" in views and "late" not in views:
                    assert sum(views[f"v_{name}"].values()) == counts["decoded"]

    def states(self) -> dict[str, str]:
        return {each["name"]: each["state"] for each in self.db.status()["streams"]}


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


PLACES = {
    "end": (*LOGS, *FILES),
    "waiting": (*LOGS, *FILES),
    "cut": (*LOGS, *FILES),
    "read": (*LOGS, *PUSHED),
    "unreadable": FILES,
    "gone": FILES,
    "ended": PUSHED,
    "history": LOGS,
}


def drained(world: World) -> bool:
    """Drain; False if that raised what was planted."""
    try:
        world.db.drain()
    except ms.MillstreamError as error:
        if "planted" in str(error):
            return False
        raise
    return True


def run_drained(world: World, kind: str, name: str) -> None:
    for _ in range(world.random.randint(1, 2)):
        for stream in STREAMS:
            world.add(stream)
        assert drained(world)
        world.check(None)
    remove = world.plant(kind, name)
    if kind == "history":
        world.db.sql(f"CREATE MATERIALIZED VIEW late AS SELECT count(*) AS n FROM {name}")
    set_aside = kind in ("unreadable", "gone")
    for _ in range(world.random.randint(1, 3)):
        for stream in STREAMS:
            world.add(stream)
        assert drained(world) == set_aside
        world.check(None if set_aside or kind == "history" else name)
        failing = {stream for stream, state in world.states().items() if state == "failing"}
        assert failing == (set() if set_aside or kind == "history" else {name})
    remove()
    assert drained(world)
    world.check(None)
    assert set(world.states().values()) == {"live"}
    if kind == "history":
        assert world.db.query("SELECT n FROM late").rows() == [{"n": len(world.rows[name])}]


def run_in_background(world: World, kind: str, name: str) -> None:
    db = world.db
    db.start()
    for stream in STREAMS:
        world.add(stream)
    wait_until(lambda: all(world.is_right(stream) for stream in STREAMS))
    remove = world.plant(kind, name)
    if kind == "history":
        db.sql(f"CREATE MATERIALIZED VIEW late AS SELECT count(*) AS n FROM {name}")
    local = kind in ("unreadable", "gone", "history", "end")
    for _ in range(world.random.randint(1, 3)):
        for stream in STREAMS:
            if stream != name or name not in PUSHED:
                world.add(stream)
        others = [stream for stream in STREAMS if local or stream != name]
        wait_until(lambda others=others: all(world.is_right(stream) for stream in others))  # type: ignore[misc]
    assert db.status()["running"]
    if not local and not (kind == "read" and name in PUSHED):
        wait_until(lambda: world.states()[name] == "failing")
    if kind == "history":
        wait_until(lambda: "planted" in str(db.status()["failure"]))
    remove()
    parts_of(db).clock.advance(60)  # type: ignore[attr-defined]
    wait_until(lambda: all(world.is_right(stream) for stream in STREAMS))
    assert drained(world)
    world.check(None)
    assert db.status()["failure"] is None
    db.stop()


def run(directory: Path, seed: int) -> None:
    world = World(directory, random.Random(seed))
    kind = list(PLACES)[seed % len(PLACES)]
    name = world.random.choice(PLACES[kind])
    try:
        if (seed + seed // len(PLACES)) % 2:
            run_in_background(world, kind, name)
        else:
            run_drained(world, kind, name)
        assert world.compute.open == 0
    finally:
        world.db.close()


@pytest.mark.parametrize("seed", range(len(PLACES)))
def test_one_source_that_fails_stops_no_other(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(len(PLACES), 200))
def test_one_source_that_fails_stops_no_other_many_times(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed)
