"""An independent model of event time, and the batch query as the oracle.

The model is told where each row landed (partition and offset) and in which epoch it was read. It
decides, by the rules of the documentation alone, what the watermark is, which rows are late for
which view, and then asks an empty DuckDB for the batch query over the rows that count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import duckdb

from .keyed import Keyed, Placed, Tracker
from .rows import Row

EPOCH = datetime(1970, 1, 1)


def micros(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True)
class Windows:
    """Windows in whole seconds."""

    size: int
    slide: int

    def of(self, at: int) -> list[int]:
        """The starts of the windows that hold an instant (microseconds)."""
        size, slide = self.size * 1_000_000, self.slide * 1_000_000
        newest = at // slide * slide
        return [start for start in range(newest, newest - size, -slide) if start <= at < start + size]


@dataclass(frozen=True)
class Case:
    """A view to try: how it is written, and its batch query over the table `used`.

    `used` has the stream's columns, `p`, `o` and, for windows, `window_start` and `window_end`; for windows of
    keys also `w`, a number for each window.
    """

    name: str
    sql: str
    batch: str
    keys: tuple[str, ...]
    """The columns that identify a row of the view; none: rows are a multiset."""
    windows: Windows | Keyed | None = None
    where: str = "true"
    lateness: int = 0
    live: bool = True
    """Whether it shows every window; otherwise complete ones only."""
    early: bool = False
    """Whether it also shows values of incomplete windows, as of their last firing."""

    def create_sql(self) -> str:
        return f"CREATE MATERIALIZED VIEW {self.name} AS {self.sql}"


@dataclass
class Watermark:
    """Per partition newest minus slack; the least of them; never back."""

    slack: int
    newest: dict[int, int] = field(default_factory=dict)
    at: int | None = None

    def advance(self, rows: Iterable[Placed]) -> None:
        for placed in rows:
            ts = placed.row["ts"]
            if ts is not None:
                self.newest[placed.partition] = max(micros(ts), self.newest.get(placed.partition, micros(ts)))
        if self.newest:
            reached = min(self.newest.values()) - self.slack * 1_000_000
            self.at = reached if self.at is None else max(self.at, reached)


@dataclass(frozen=True)
class Judged:
    """What became of the rows of one epoch for one view."""

    used: int
    filtered: int
    late: int


@dataclass
class ViewModel:
    """The rows of one view that count, with their windows."""

    case: Case
    oracle: duckdb.DuckDBPyConnection
    late: Counter[tuple[int, int]] = field(default_factory=Counter)
    """(partition, offset) of the rows that came too late."""
    tracker: Tracker | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if isinstance(self.case.windows, Keyed):
            self.tracker = self.case.windows.start()
        self.oracle.execute(
            f"CREATE TABLE {self._table} (id BIGINT, k VARCHAR, v BIGINT, x DOUBLE, b BOOLEAN, ts TIMESTAMP, "
            "p INTEGER, o BIGINT, window_start TIMESTAMP, window_end TIMESTAMP, w INTEGER)"
        )

    @property
    def _table(self) -> str:
        return f"used_{self.case.name}"

    def take(self, rows: list[Placed], before: int | None) -> Judged:
        """Judge the rows of an epoch against the watermark before it."""
        decoded = [placed for placed in rows if placed.row["ts"] is not None]
        passing = self._passing(decoded)
        if self.tracker is not None:
            return self._track(self.tracker, decoded, passing, before)
        chosen: list[tuple[Any, ...]] = []
        used = late = filtered = 0
        for placed, passes in zip(decoded, passing, strict=True):
            starts = self._open_windows(placed, before)
            if not passes or starts is None:
                filtered += 1
            elif not starts:
                late += 1
                self.late[placed.partition, placed.offset] += 1
            else:
                used += 1
                chosen.extend(self._columns(placed, start) for start in starts)
        if chosen:
            self.oracle.executemany(f"INSERT INTO {self._table} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", chosen)
        return Judged(used, filtered, late)

    def _track(self, tracker: Tracker, rows: list[Placed], passing: list[bool], before: int | None) -> Judged:
        """Windows of keys change as rows come: they are written anew."""
        counting = [placed for placed, passes in zip(rows, passing, strict=True) if passes]
        late = tracker.take(counting, before, self.case.lateness)
        self.late.update((placed.partition, placed.offset) for placed in late)
        assigned = [
            (*self._columns(placed, None)[:-3], *(EPOCH + timedelta(microseconds=bound) for bound in bounds), number)
            for number, (held, *bounds) in enumerate(tracker.windows())
            for placed in held
        ]
        self.oracle.execute(f"DELETE FROM {self._table}")
        if assigned:
            self.oracle.executemany(f"INSERT INTO {self._table} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", assigned)
        return Judged(len(counting) - len(late), len(rows) - len(counting), len(late))

    def _passing(self, rows: list[Placed]) -> list[bool]:
        """Whether each row passes the view's WHERE, as DuckDB sees it."""
        if not rows or self.case.where == "true":
            return [True] * len(rows)
        self.oracle.execute(f"CREATE OR REPLACE TEMP TABLE one AS SELECT *, 0 AS n FROM {self._table} LIMIT 0")
        self.oracle.executemany(
            "INSERT INTO one VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(*self._columns(placed, None), n) for n, placed in enumerate(rows)],
        )
        found = self.oracle.execute(f"SELECT n FROM one WHERE {self.case.where}").fetchall()
        passing = {n for (n,) in found}
        return [n in passing for n in range(len(rows))]

    def _open_windows(self, placed: Placed, before: int | None) -> list[int | None] | None:
        """The windows that still take the row; None if it belongs to no window at all."""
        windows = self.case.windows
        if not isinstance(windows, Windows):
            return [None]
        starts = windows.of(micros(placed.row["ts"]))
        if not starts:
            return None
        if before is None:
            return list(starts)
        closed_after = (windows.size + self.case.lateness) * 1_000_000
        return [start for start in starts if start + closed_after > before]

    def _columns(self, placed: Placed, start: int | None) -> tuple[Any, ...]:
        row = placed.row
        bounds: tuple[Any, Any] = (None, None)
        if start is not None and isinstance(self.case.windows, Windows):
            begin = EPOCH + timedelta(microseconds=start)
            bounds = (begin, begin + timedelta(seconds=self.case.windows.size))
        own = (row["id"], row["k"], row["v"], row["x"], row["b"], row["ts"])
        return (*own, placed.partition, placed.offset, *bounds, None)

    def expected(self, watermark: int | None) -> list[Row]:
        """The batch query over what counts, without windows that the view does not show yet."""
        source = self._table
        if not self.case.live:
            complete = self.case.windows.complete if isinstance(self.case.windows, Keyed) else Keyed.complete
            passed = "false" if watermark is None else complete.format(watermark=watermark)
            source = f"(SELECT * FROM {source} WHERE {passed})"
        rows: list[Row] = self.oracle.sql(self.case.batch.replace("used", source)).to_arrow_table().to_pylist()
        return rows
