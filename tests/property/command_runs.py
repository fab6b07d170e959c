"""Random runs of a database whose store tells a consumer its commands, and the store that those commands make again.

A run has definitions of every kind, rows (late and broken ones too), drops, replacements, rebuilds, sinks, retention,
functions, failing views and restarts; deltas are computed in process. `python -m tests.property.command_runs 1000` runs
as many and says which differ; a second argument is the seed to begin with.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

import millstream as ms
from millstream.engine.surface.database import Database
from millstream.model.errors import MillstreamError
from millstream.model.user_functions import UserFunction
from millstream.store.codec import Decoder, encode
from millstream.store.commands import Command
from millstream.store.duckdb import commits, shelves
from millstream.store.duckdb.maintainers import merge_delta
from millstream.store.duckdb.query import QueryMaintainer
from millstream.store.duckdb.store import DuckDBStore
from tests.inprocess_compute import InProcessCompute
from tests.parts import parts_of

STEPS = 24
_BEGIN = datetime(2024, 1, 1)
_STREAM = "(id BIGINT, k INT, v INT, d DOUBLE, x STRING, ts TIMESTAMP{watermark})"
_WATERMARK = ", WATERMARK FOR ts AS ts - INTERVAL 4 SECONDS"
_GROUPED = "count(*) AS n, sum(v) AS total, sum(d) AS da, avg(d) AS mean"
_WINDOWED = "SELECT window_start, k, {what} FROM {window} GROUP BY window_start, window_end, k{emit}"
_OVER_STREAM = (
    "SELECT k, count(*) AS n, sum(d) AS da FROM {s} GROUP BY k",
    *["SELECT k, count(*) AS n, sum(d) AS da FROM {s} WHERE v > {c} GROUP BY k"] * 4,
    "SELECT k, max(v) AS n, stddev(d) AS da FROM {s} GROUP BY k HAVING count(*) > {c}",
    "SELECT count(*) AS n, sum(d) AS da, min(x) AS x FROM {s}",
    "SELECT k, count(DISTINCT v) AS n, collect_list(v) AS vs, max_by(x, v) AS x FROM {s} GROUP BY k",
    "SELECT id, k, v + {c} AS w, d FROM {s} WHERE v <> {c}",
    "SELECT k, id, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) AS r FROM {s}) q"
    " WHERE r <= 2",
    "SELECT k, count(*) AS n FROM (SELECT k, v FROM {s} WHERE v > {c}) q GROUP BY k",
    "SELECT k, v FROM {s} WHERE v > {c} UNION ALL SELECT k, id AS v FROM {s} WHERE id > 3",
    "SELECT a.k, a.n, b.m FROM (SELECT k, count(*) AS n FROM {s} GROUP BY k) a"
    " JOIN (SELECT k, sum(d) AS m FROM {s} GROUP BY k) b ON a.k = b.k",
    "SELECT a.id, b.v FROM {s} a JOIN {s} b ON a.id = b.id AND a.ts BETWEEN b.ts - INTERVAL 5 SECONDS AND b.ts",
    *(
        _WINDOWED.replace("{what}", _GROUPED).replace("{window}", window).replace("{emit}", emit)
        for window, emits in (
            (
                "TUMBLE({s}, ts, INTERVAL 10 SECONDS)",
                (
                    "",
                    " EMIT ON WATERMARK",
                    " EMIT ON EPOCH RETRACTING",
                    " EMIT EVERY 2 ROWS DISCARDING",
                    " EMIT EVERY INTERVAL 3 SECONDS",
                    " EMIT EARLY EVERY 3 ROWS ON WATERMARK RETRACTING ALLOWED LATENESS INTERVAL 10 SECONDS",
                ),
            ),
            ("HOP({s}, ts, INTERVAL 4 SECONDS, INTERVAL 10 SECONDS)", ("", " EMIT ON WATERMARK")),
            ("TUMBLE({s}, PROCTIME(), INTERVAL 10 SECONDS)", ("", " EMIT ON WATERMARK")),
            ("SESSION({s} PARTITION BY k, ts, INTERVAL 5 SECONDS)", ("",)),
            ("SLIDE({s} PARTITION BY k, ts, INTERVAL 6 SECONDS)", ("",)),
            ("COUNT_WINDOW({s} PARTITION BY k, 3)", ("",)),
        )
        for emit in emits
    ),
)
_OVER_BOTH = (
    "SELECT {s}.id, {t}.name FROM {s} JOIN {t} ON {s}.k = {t}.id",
    "SELECT {s}.id, {s}.d, {t}.w FROM {s} LEFT JOIN {t} ON {s}.k = {t}.id",
)
_OVER_TABLE = (
    "SELECT name, count(*) AS n, sum(w) AS da FROM {t} GROUP BY name",
    "SELECT id, name, w * {c} AS w FROM {t}",
    "SELECT id, twice(w) AS w FROM {t}",
)
_OVER_VIEW = (
    "SELECT count(*) AS n FROM {v}",
    "SELECT * FROM {v}",
    "SELECT a.n, count(*) AS m FROM {v} a GROUP BY a.n",
    "SELECT sum(da) AS da, max(n) AS n FROM {v}",
    "SELECT id, d FROM {v} WHERE id > {c}",
)
_OPTIONS = ("", "", "", "changelog_retain = '20 seconds'", "retain = '30 seconds'", "backfill = 'false'")
_STREAMS, _TABLES, _VIEWS, _SINKS = ("a", "b"), ("t", "u"), ("v0", "v1", "v2", "v3", "v4", "v5"), ("s0", "s1")
_TABLE_OPTIONS = ("", "versioned = 'true'", "sequence = 'seq'", "versioned = 'true', history = '10 seconds'")


def _twice(values: pa.Array) -> pa.Array:
    return pc.multiply(values, 2.0)


TWICE = UserFunction("twice", (pa.float64(),), pa.float64(), _twice)


class Run:
    """A database in a directory, and the bytes of the commands of its store so far."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.random = random.Random(seed)
        self.clock = ms.ManualClock(0)
        self.encoded: list[bytes] = []
        self.decoder = Decoder()
        self.said: list[str] = []
        self.count = 0
        self.at = 0
        self.db = self._open()

    def _open(self) -> Database:
        settings = ms.EngineSettings(eager_spark=False)
        compute = InProcessCompute()
        db = Database(self.directory, lambda _: compute, clock=self.clock, settings=settings)
        parts_of(db).store.consumer = self._consume
        return db

    def _consume(self, command: Command) -> None:
        data = encode(command)
        self.encoded.append(data)
        decoded = self.decoder.decode(data)
        assert same(decoded, command), f"{command}\nwas decoded as\n{decoded}"

    def close(self) -> None:
        self.db.close()

    # -- steps ---------------------------------------------------------------------------------

    def go(self, steps: int = STEPS) -> None:
        for name in _STREAMS:
            self.create_stream(name)
        for name in _TABLES:
            self.create_table(name)
        for _ in range(3):
            self.create_view()
        weighted: dict[Callable[[], None], int] = {
            self.create_view: 7,
            self.insert: 7,
            self.create_stream: 1,
            self.create_table: 1,
            self.drop: 1,
            self.rebuild: 2,
            self.fault: 2,
            self.sink: 2,
            self.function: 1,
            self.pass_time: 2,
            self.db_maintain: 1,
            self.restart: 1,
        }
        for _ in range(steps):
            (step,) = self.random.choices(list(weighted), list(weighted.values()))
            step()
            if self.random.random() < 0.7:
                self.db.drain()
        self.db.drain()

    def sql(self, text: str) -> None:
        """Run a statement; one that is refused has changed nothing."""
        self.said.append(text)
        with suppress(MillstreamError):
            self.db.execute(text)

    def _any(self, names: Sequence[str]) -> str:
        """One of some names, rarely one that nothing has."""
        there = [name for name in names if parts_of(self.db).catalog.find(name) is not None]
        return self.random.choice(there if there and self.random.random() < 0.9 else names)

    def _or_replace(self) -> str:
        return self.random.choice(["", "OR REPLACE ", "OR REPLACE "])

    def create_stream(self, name: str = "") -> None:
        watermark = self.random.choice(["", _WATERMARK, _WATERMARK])
        options = self.random.choice(["", " WITH (letters_retain = '15 seconds')"])
        name = name or self.random.choice(_STREAMS)
        self.sql(f"CREATE {self._or_replace()}STREAM {name} {_STREAM.format(watermark=watermark)}{options}")

    def create_table(self, name: str = "") -> None:
        options = self.random.choice(_TABLE_OPTIONS)
        clause = f" WITH ({options})" if options else ""
        columns = "id BIGINT PRIMARY KEY, name STRING, w DOUBLE, seq BIGINT"
        self.sql(f"CREATE {self._or_replace()}TABLE {name or self.random.choice(_TABLES)} ({columns}){clause}")

    def create_view(self) -> None:
        kinds = [*_OVER_STREAM, *_OVER_BOTH, *_OVER_TABLE, *_OVER_VIEW * 3]
        query = self.random.choice(kinds).format(
            s=self._any(_STREAMS),
            t=self._any(_TABLES),
            v=self._any(_VIEWS),
            c=self.random.randrange(4),
        )
        options = self.random.choice(_OPTIONS)
        clause = f" WITH ({options})" if options else ""
        name = self.random.choice(_VIEWS) if self.random.random() < 0.6 else self._any(_VIEWS)
        self.sql(f"CREATE {self._or_replace()}MATERIALIZED VIEW {name}{clause} AS {query}")

    def drop(self) -> None:
        kind, names = self.random.choice([("STREAM", _STREAMS), ("TABLE", _TABLES), *[("VIEW", _VIEWS)] * 4])
        self.sql(f"DROP {kind} {self._any(names)}")

    def rebuild(self) -> None:
        self.sql(f"ALTER MATERIALIZED VIEW {self._any(_VIEWS)} REBUILD")

    def sink(self) -> None:
        name = self.random.choice(_SINKS)
        if self.random.random() < 0.3:
            self.sql(f"DROP SINK {name}")
        else:
            self.sql(f"CREATE SINK {name} FROM {self._any(_VIEWS)} INTO TOPIC out_{name}")

    def function(self) -> None:
        if self.random.random() < 0.3:
            self.sql("DROP FUNCTION twice")
            return
        self.said.append("twice")
        with suppress(MillstreamError):
            self.db.create_function("twice", _twice, arguments=["DOUBLE"], returns="DOUBLE")

    def insert(self) -> None:
        for name in (*_STREAMS, *_TABLES):
            rows = [self._row() for _ in range(self.random.choice((0, 1, 3, 8, 30)))]
            with suppress(MillstreamError):
                if name in _STREAMS:
                    self.db.insert(name, rows)
                    self.db.insert_lines(name, ["no json"] * self.random.choice((0, 0, 1)))
                    continue
                self.db.insert(name, [self._table_row() for _ in rows])
                self.db.delete(name, [self._table_key()] * self.random.randrange(2))

    def _row(self) -> dict[str, Any]:
        self.count += 1
        self.at += self.random.choice((0, 1, 1, 3))
        late = self.random.choice((0, 0, 0, 2, 40))
        return {
            "id": self.count,
            "k": self.random.choice((None, 1, 2, 3)),
            "v": self.random.choice((None, 0, 1, 2, 3, 5)),
            "d": self.random.choice((None, 0.1, self.random.random(), 1e15, float("nan"))),
            "x": self.random.choice((None, "a", "bé", "c")),
            "ts": _BEGIN + timedelta(seconds=self.at - late),
        }

    def _table_key(self) -> dict[str, Any]:
        self.count += 1
        return {"id": self.random.randrange(5), "seq": self.count - self.random.choice((0, 0, 5))}

    def _table_row(self) -> dict[str, Any]:
        return self._table_key() | {"name": self.random.choice("pq"), "w": self.random.random()}

    def pass_time(self) -> None:
        self.clock.advance(self.random.choice((1, 5, 20, 8 * 86_400)) * 1_000_000)

    def db_maintain(self) -> None:
        self.db.maintain()

    def restart(self) -> None:
        self.db.close()
        self.db = self._open()
        self.function()

    def fault(self) -> None:
        """Let the maintenance of one view fail in the next epochs."""
        view = self._any(_VIEWS)
        self.said.append(f"-- {view} fails")
        with failing(view):
            self.insert()
            self.db.drain()


@contextmanager
def failing(view: str) -> Iterator[None]:
    """Let a view fail wherever it is maintained, together with others or alone."""
    merge, maintain = merge_delta, QueryMaintainer.maintain

    def merging(keeper: Any, statements: Any, *arguments: Any, **options: Any) -> None:
        if statements.name == view or statements.name.startswith("__shelf"):
            raise duckdb.ConversionException("Conversion Error: planted")
        merge(keeper, statements, *arguments, **options)

    def maintaining(self: QueryMaintainer, *arguments: Any) -> bool:
        if self.view.name == view:
            raise duckdb.OutOfRangeException("Out of Range Error: planted")
        return maintain(self, *arguments)

    with (
        patch.object(commits, "merge_delta", merging),
        patch.object(shelves, "merge_delta", merging),
        patch.object(QueryMaintainer, "maintain", maintaining),
    ):
        yield


# -- comparing -----------------------------------------------------------------------------------


def same(one: Any, other: Any) -> bool:
    """Whether two commands say the same; sequences may be of different kinds."""
    if is_dataclass(one) and not isinstance(one, type):
        if type(one) is not type(other):
            return False
        return all(same(getattr(one, each.name), getattr(other, each.name)) for each in fields(one) if each.compare)
    if isinstance(one, pa.Table):
        return (
            isinstance(other, pa.Table)
            and one.schema == other.schema
            and repr(one.to_pylist()) == repr(other.to_pylist())
        )
    if isinstance(one, Mapping):
        return (
            isinstance(other, Mapping)
            and list(one) == list(other)
            and all(same(value, other[key]) for key, value in one.items())
        )
    if isinstance(one, Sequence) and not isinstance(one, str):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def contents(store: DuckDBStore) -> dict[str, Any]:
    """All that a store has: tables with columns and rows, the texts of views, changelogs as readers see them."""
    store.settle()
    found: dict[str, Any] = {}
    cursor = store.cursor()
    for schema, name, text in cursor.execute(
        "SELECT schema_name, view_name, sql FROM duckdb_views() WHERE NOT internal"
    ).fetchall():
        found[f"view {schema}.{name}"] = text
    for schema, name in cursor.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal AND NOT temporary"
    ).fetchall():
        rows = cursor.execute(f'SELECT * FROM {schema}."{name}"')
        columns = [(column, str(type_)) for column, type_, *_ in rows.description or ()]
        # As text: NaN equals itself, and every digit counts.
        found[f"table {schema}.{name}"] = (columns, sorted(map(repr, rows.fetchall())))
    cursor.close()
    for name, kind, _, _ in store.statements():
        if kind == "view":
            changes = store.changes(name, -1)
            # As numbers: an instant may be before all that Python knows.
            instants = [
                pa.field(c.name, pa.int64() if pa.types.is_timestamp(c.type) else c.type) for c in changes.schema
            ]
            # Their order within an epoch is DuckDB's.
            found[f"changes of {name}"] = sorted(map(repr, changes.cast(pa.schema(instants)).to_pylist()))
    return found


def replayed(encoded: Sequence[bytes], directory: Path, seed: int) -> dict[str, Any]:
    """The contents of the store that commands make, which is closed and opened on the way."""
    chance = random.Random(seed)
    path, decoder = directory / "replayed.duckdb", Decoder()
    store = _opened(path)
    for data in encoded:
        store.apply(decoder.decode(data))
        if chance.random() < 0.02:
            store.close()
            store = _opened(path)
    found = contents(store)
    store.close()
    return found


def _opened(path: Path) -> DuckDBStore:
    store = DuckDBStore(path, "500MB")
    store.register_function(TWICE)
    return store


def check(seed: int, steps: int = STEPS) -> int:
    """One run and its replay; returns the number of commands."""
    directory = Path(tempfile.mkdtemp(prefix="commands-"))
    try:
        run = Run(directory / "db", seed)
        try:
            run.go(steps)
            store = parts_of(run.db).store
            assert isinstance(store, DuckDBStore)
            expected = contents(store)
        finally:
            run.close()
        found = replayed(run.encoded, directory, seed)
        differing = {
            name: (expected.get(name), found.get(name))
            for name in expected.keys() | found.keys()
            if expected.get(name) != found.get(name)
        }
        assert not differing, f"seed {seed}: {differing}\n" + ";\n".join(run.said)
        return len(run.encoded)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def main(count: int, first: int) -> None:
    failed, total = [], 0
    for seed in range(first, first + count):
        try:
            total += check(seed)
        except Exception as error:
            failed.append(seed)
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:2000]}", flush=True)
        if (seed - first + 1) % 50 == 0:
            print(f"{seed - first + 1} runs, {total} commands, {len(failed)} failed", flush=True)
    print(f"{count} runs, {total} commands, failed: {failed}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
