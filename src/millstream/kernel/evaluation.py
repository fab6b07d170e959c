"""The kernel at work: a share of the rows in, what each view gains out. Runs in executors.

What always holds: a row is dead for the same reasons, and a view gains the same, as on Spark. A view on
whose rows DuckDB fails says so, and the others go on. Connections stay open with their process.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.duck.connection import ChangingRows, open_kernel
from millstream.kernel.handover import Parcel, send
from millstream.kernel.lines import RefusedError
from millstream.kernel.native import NUMBER, ROWS, count_sql
from millstream.kernel.program import Program
from millstream.kernel.shares import Readable
from millstream.model.errors import MillstreamError
from millstream.plan.dead import NEWEST, OLDEST, missing_time, time_ahead, time_out_of_range


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a share."""

    rows: int = 0
    dead: int = 0
    newest: tuple[tuple[int, int], ...] = ()
    landed: tuple[tuple[int, int], ...] = ()
    dead_rows: Parcel | None = None
    results: tuple[Parcel | None, ...] = ()
    """By query; None for one on whose rows DuckDB failed."""
    used: tuple[int | None, ...] = ()
    """By query: the rows its view used, where the result does not tell."""
    seconds: float = 0.0
    """The time of a processor that it took."""
    refused: str | None = None
    """Why the rows were not taken at all."""


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    # A task has one core: Spark has the others to give.
    return open_kernel(threads=1)


def warm_up(_: Iterable[object]) -> None:
    """What the first share would otherwise wait for."""
    _connection().execute("SELECT count(*) FROM range(10) GROUP BY range % 2").fetchall()


# The rows of a share are numbered from this times its own number on.
_MOST_ROWS = 1 << 40


def evaluate(program: Program, share: Readable, directory: str | None = None, number: int = 0) -> Outcome:
    """The outcome of a share, with tables sent through a directory if one is given. Never raises for what
    the rows are. `number` says which of the shares of an epoch it is."""
    began = time.thread_time()
    try:
        rows, dead = _read(program, share)
    except (RefusedError, MillstreamError, pa.ArrowException, OSError) as error:
        # Of what is wrong with the input, Spark's reader tells the user.
        return Outcome(refused=str(error))
    dead_count = 0 if dead is None else dead.num_rows
    if program.numbers_rows:
        rows = rows.append_column(NUMBER, pa.array(np.arange(rows.num_rows) + number * _MOST_ROWS))
    results, used = _results(program, rows, directory)
    return Outcome(
        rows=rows.num_rows + dead_count,
        dead=dead_count,
        newest=_by_partition(rows, "__et"),
        landed=_by_partition(rows, "__pt") if program.needs_landed else (),
        dead_rows=None if dead is None else send(dead, directory),
        results=tuple(results),
        used=tuple(used),
        seconds=time.thread_time() - began,
    )


def select(program: Program, share: Readable, directory: str | None, sql: str) -> Parcel:
    """Rows of a share that was evaluated before."""
    rows, _ = _read(program, share, raw=True)
    with _afresh(rows) as ask:
        return send(ask(sql), directory)


def _read(program: Program, share: Readable, *, raw: bool = False) -> tuple[pa.Table, pa.Table | None]:
    """The rows that are not dead, and the others as letters, if there are any."""
    rows = share.read(program.stream.schema.to_arrow(), raw=raw)
    times, reasons = _judged(program, rows)
    rows = rows.append_column("__et", times)
    if reasons is None:
        return rows, None
    if not raw:
        # Letters have their lines.
        return _read(program, share, raw=True)
    is_dead = pc.is_valid(reasons)
    return rows.filter(pc.invert(is_dead)), _letters(rows.filter(is_dead), reasons.filter(is_dead))


def _results(program: Program, rows: pa.Table, directory: str | None) -> tuple[list[Parcel | None], list[int | None]]:
    """The result of each query, and the rows it used where the result does not tell."""
    results: list[Parcel | None] = [None] * len(program.queries)
    used: list[int | None] = [None] * len(program.queries)
    with _over(program, rows) as ask:
        for number, query in enumerate(program.queries):
            # Whatever goes wrong here goes wrong for these views alone; Spark then says what it is.
            with suppress(duckdb.Error, pa.ArrowException):
                found = ask(query.sql)
                top = program.views[query.takes[0].view]
                if top.top is not None:
                    used[number] = ask(count_sql(top)).column(0)[0].as_py()
                results[number] = send(found, directory)
    return results, used


Ask = Callable[[str], pa.Table]
"""Answers a query over `ROWS`."""


# Of so many rows DuckDB makes an answer in about the time that it takes to plan a query.
_FEW = 20_000


def _over(program: Program, rows: pa.Table) -> AbstractContextManager[Ask]:
    """Asks queries of a program over some rows."""
    return _prepared(program, rows.schema).over(rows) if rows.num_rows <= _FEW else _afresh(rows)


@contextmanager
def _afresh(rows: pa.Table) -> Iterator[Ask]:
    """Asks queries that are planned each time."""
    connection = _connection()
    connection.register(ROWS, rows)
    try:
        yield lambda sql: connection.sql(sql).to_arrow_table()
    finally:
        connection.unregister(ROWS)


class _Prepared:
    """A connection on which each query is planned when it is asked first."""

    def __init__(self, schema: pa.Schema) -> None:
        self._rows = ChangingRows(schema)
        self._connection = _connection().cursor()
        self._connection.register(ROWS, self._rows)
        self._names: dict[str, str] = {}

    @contextmanager
    def over(self, rows: pa.Table) -> Iterator[Ask]:
        with self._rows.being(rows):
            yield self._ask

    def _ask(self, sql: str) -> pa.Table:
        if sql not in self._names:
            name = f"__query{len(self._names)}"
            self._connection.execute(f"PREPARE {name} AS {sql}")
            self._names[sql] = name
        with warnings.catch_warnings():
            # That rows are copied once more, which for few of them is nothing.
            warnings.simplefilter("ignore", UserWarning)
            return self._connection.execute(f"EXECUTE {self._names[sql]}").to_arrow_table()


@lru_cache(maxsize=16)
def _prepared(program: Program, schema: pa.Schema) -> _Prepared:
    """The prepared queries of a program; those that were not asked for longest are let go."""
    return _Prepared(schema)


# -- event time --------------------------------------------------------------------------------


def _judged(program: Program, rows: pa.Table) -> tuple[pa.Array, pa.Array | None]:
    """The event times, and why rows are dead, if any is."""
    stream, count = program.stream, rows.num_rows
    if stream.event_time is None:
        return pa.nulls(count, pa.int64()), None
    times = _micros(rows, stream.event_time)
    if stream.correction is not None:
        sent, received = (_micros(rows, name) for name in (stream.correction.sent_at, stream.correction.received_at))
        times = pc.add(times, pc.subtract(received, sent))
    times = times.combine_chunks() if isinstance(times, pa.ChunkedArray) else times
    # Mostly all is well, and two numbers say so.
    known = pc.min_max(times)
    oldest, newest = known["min"].as_py(), known["max"].as_py()
    landed = pc.min(rows.column("__landed")).as_py()
    bound = NEWEST if program.max_ahead is None else min(NEWEST, (landed or 0) + program.max_ahead)
    if times.null_count == 0 and (count == 0 or (oldest >= OLDEST and newest <= bound)):
        return times, None
    ahead = None
    if program.max_ahead is not None:
        ahead = pc.greater(times, pc.add(rows.column("__landed"), program.max_ahead)).combine_chunks()
    strange = pc.or_(pc.less(times, OLDEST), pc.greater(times, NEWEST))
    reasons: Any = pc.if_else(pc.fill_null(strange, False), time_out_of_range(stream), pa.scalar(None, pa.string()))
    if ahead is not None and program.max_ahead is not None:
        reasons = pc.if_else(pc.fill_null(ahead, False), time_ahead(stream, program.max_ahead), reasons)
    reasons = pc.if_else(pc.is_null(times), missing_time(stream), reasons)
    return times, reasons if reasons.null_count < count else None


def _micros(rows: pa.Table, name: str) -> pa.ChunkedArray:
    return rows.column(name).cast(pa.int64())


def _letters(rows: pa.Table, reasons: pa.Array) -> pa.Table:
    return rows.drop_columns(["__landed", "__pt", "__et"]).append_column("__reason", reasons)


def _by_partition(rows: pa.Table, name: str) -> tuple[tuple[int, int], ...]:
    """The greatest value of a column in each partition that has one."""
    if rows.num_rows == 0 or rows.column(name).null_count == rows.num_rows:
        return ()
    partitions = rows.column("__p").to_numpy()
    if partitions[0] == partitions[-1] and (partitions == partitions[0]).all():
        return ((int(partitions[0]), pc.max(rows.column(name)).as_py()),)
    found = []
    for partition in np.unique(partitions):
        greatest = pc.max(rows.column(name).filter(pa.array(partitions == partition))).as_py()
        if greatest is not None:
            found.append((int(partition), greatest))
    return tuple(found)
