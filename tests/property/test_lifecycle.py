"""Random statements, many of them refused or cut short, against a model that knows only whole ones.

A statement can be refused by itself, by the log (a full disk), by Spark (a type) or by the store (its commit fails).
The process can die before and after the store's commit. After each step catalog, rows, views, letters and topics on
disk are those of the model. There a statement has happened or not, and a new relation begins with nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest

import millstream as ms
from millstream.engine.define.holdings import Holdings
from millstream.log import disk
from tests.conftest import Connect
from tests.parts import parts_of, store_of

STEPS = 30
STREAMS, VIEWS = ("a", "b"), ("v", "w")


class Killed(BaseException):
    """Stands for the end of the process: nothing after it runs."""


class FailingCommit:
    """A connection that fails when something is committed."""

    def __init__(self, connection: Any, error: BaseException) -> None:
        self._connection, self._error = connection, error

    def execute(self, sql: str, *rest: Any) -> Any:
        if sql == "COMMIT":
            raise self._error
        return self._connection.execute(sql, *rest)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@dataclass
class Stream:
    """One incarnation."""

    number: int
    """Names its column, so that no two incarnations have the same."""
    topic: str | None = None
    rows: list[int] = field(default_factory=list)
    dead: int = 0


@dataclass
class Model:
    streams: dict[str, Stream] = field(default_factory=dict)
    views: dict[str, tuple[str, int]] = field(default_factory=dict)
    """The stream that a view reads, and the number that it adds to each value."""

    def readers(self, stream: str) -> list[str]:
        return [view for view, (read, _) in self.views.items() if read == stream]

    def topics(self) -> set[str]:
        return {stream.topic or name for name, stream in self.streams.items()}


@dataclass
class Run:
    connect: Connect
    directory: Path
    random: random.Random
    monkeypatch: pytest.MonkeyPatch
    model: Model = field(default_factory=Model)
    count: int = 0

    def __post_init__(self) -> None:
        self.db = self.connect()

    # -- faults --------------------------------------------------------------------------------

    @contextmanager
    def fault(self, kind: str) -> Iterator[None]:
        """Let a statement fail in one place; what stands for a death is followed by a restart."""
        with self.monkeypatch.context() as patch:
            store = store_of(self.db)
            match kind:
                case "store":
                    full = duckdb.IOException("no space left on device")
                    patch.setattr(store._writer, "connection", FailingCommit(store._writer.connection, full))
                case "log":
                    patch.setattr(disk, "replace_file", _raising(OSError(28, "No space left on device")))
                case "spark":
                    error = ms.MillstreamError("INVALID_EXPRESSION", "made to fail")
                    patch.setattr(type(parts_of(self.db).definitions.compute), "schema", _raising(error))
                case "killed before the commit":
                    patch.setattr(store._writer, "connection", FailingCommit(store._writer.connection, Killed()))
                    patch.setattr(Holdings, "sweep", lambda self: None)
                case "killed after the commit":
                    patch.setattr(Holdings, "sweep", lambda self: None)
            yield

    def statement(self, sql: str) -> str:
        """Run a statement, perhaps with a fault: `done`, `refused`, or after a death what the catalog says."""
        kinds = ["", "", "", "store", "log", "spark", "killed before the commit", "killed after the commit"]
        kind = self.random.choice(kinds)
        try:
            with self.fault(kind):
                self.db.sql(sql)
            outcome = "done"
        except ms.MillstreamError:
            outcome = "refused"
        except Killed:
            outcome = "refused"
        if kind.startswith("killed"):
            self.restart()
        return outcome

    def restart(self) -> None:
        self.db.close()
        self.db = self.connect()

    # -- steps ---------------------------------------------------------------------------------

    def create_stream(self) -> None:
        self.count += 1
        name, number = self.random.choice(STREAMS), self.count
        topic = self.random.choice([None, None, "shared"])
        replace, bad = self.random.random() < 0.6, self.random.random() < 0.2
        options = [f"topic = '{topic}'"] * (topic is not None) + ["partitons = 2"] * bad
        clause = f" WITH ({', '.join(options)})" if options else ""
        outcome = self.statement(f"CREATE {'OR REPLACE ' if replace else ''}STREAM {name} (x{number} BIGINT){clause}")
        old = self.model.streams.get(name)
        if bad or (old is not None and (not replace or self.model.readers(name))):
            assert outcome == "refused"
        if outcome == "done":
            # Rows of a shared topic are of other columns: they stay, and are NULLs here.
            shared = [s for n, s in self.model.streams.items() if topic is not None and s.topic == topic]
            kept = shared[0] if shared else None
            self.model.streams[name] = Stream(number, topic)
            if kept is not None:
                self.model.streams[name].rows = [0] * len(kept.rows)
                self.model.streams[name].dead = kept.dead

    def drop_stream(self) -> None:
        name = self.random.choice(STREAMS)
        if self.statement(f"DROP STREAM {name}") == "done":
            assert not self.model.readers(name)
            del self.model.streams[name]

    def create_view(self) -> None:
        name, stream = self.random.choice(VIEWS), self.random.choice(STREAMS)
        add, replace = self.random.randrange(100), self.random.random() < 0.5
        column = f"x{self.model.streams[stream].number}" if stream in self.model.streams else "x"
        outcome = self.statement(
            f"CREATE {'OR REPLACE ' if replace else ''}MATERIALIZED VIEW {name} AS "
            f"SELECT count(*) AS n, sum(coalesce({column}, 0) + {add}) AS total FROM {stream}"
        )
        if outcome == "done":
            assert stream in self.model.streams
            self.model.views[name] = (stream, add)

    def drop_view(self) -> None:
        name = self.random.choice(VIEWS)
        if self.statement(f"DROP VIEW {name}") == "done":
            del self.model.views[name]

    def rebuild(self) -> None:
        self.statement(f"ALTER MATERIALIZED VIEW {self.random.choice(VIEWS)} REBUILD")

    def insert(self) -> None:
        for name, stream in self.model.streams.items():
            values = [self.random.randrange(100) for _ in range(self.random.randrange(3))]
            self.db.insert(name, [{f"x{stream.number}": value} for value in values])
            bad = self.random.randrange(2)
            self.db.insert_lines(name, ["no json"] * bad)
            for other in self.model.streams.values():
                if other is stream or (stream.topic is not None and other.topic == stream.topic):
                    same = other.number == stream.number
                    other.rows += values if same else [0] * len(values)
                    other.dead += bad

    def step(self) -> None:
        steps: list[Callable[[], None]] = [
            *(self.create_stream, self.create_stream, self.drop_stream),
            *(self.create_view, self.create_view, self.drop_view, self.rebuild),
            *(self.insert, self.insert, self.restart),
        ]
        self.random.choice(steps)()
        self.check()

    # -- what must hold ------------------------------------------------------------------------

    def check(self) -> None:
        db, model = self.db, self.model
        db.drain()
        assert {row["name"] for row in db.sql("SHOW STREAMS").rows()} == model.streams.keys()
        assert {row["name"] for row in db.sql("SHOW VIEWS").rows()} == model.views.keys()
        for name, (read, add) in model.views.items():
            rows = model.streams[read].rows
            (found,) = db.query(f"SELECT n, coalesce(total, 0) AS total FROM {name}").rows()
            assert found == {"n": len(rows), "total": sum(rows) + add * len(rows)}, name
        for name, stream in model.streams.items():
            (found,) = db.query(f"SELECT count(*) AS n FROM {name}__dead").rows()
            assert found["n"] == stream.dead, name
        assert set(parts_of(db).log.topics()) == model.topics()
        assert len(list((self.directory / "log" / "topics").iterdir())) == len(model.topics())


def _raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize("seed", range(4))
def test_statements_happen_whole_or_not_at_all(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    run = Run(connect, tmp_path / "db", random.Random(seed), monkeypatch)
    for _ in range(STEPS):
        run.step()
