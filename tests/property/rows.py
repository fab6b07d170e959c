"""Random streams: disorder, duplicates, NULLs, late rows, and where the epochs end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from millstream.model.settings import Kernel

Row = dict[str, Any]
START = datetime(2024, 3, 1, 12, 0, 0)

COLUMNS = "id BIGINT, k STRING, v BIGINT, x DOUBLE, b BOOLEAN, ts TIMESTAMP"


@dataclass(frozen=True)
class Feed:
    """A stream with its settings, cut into the rows of successive inserts."""

    partitions: int
    key: str | None
    slack: int
    """Seconds."""
    batches: tuple[tuple[Row, ...], ...]
    restarts: frozenset[int]
    """Before which batches the database is closed and opened again."""
    kernels: tuple[Kernel, ...] = ("auto",)
    """What computes deltas, before the first restart and after it; the last one from then on."""

    @property
    def rows(self) -> list[Row]:
        return [row for batch in self.batches for row in batch]

    def create_sql(self) -> str:
        key = f", key = '{self.key}'" if self.key else ""
        return (
            f"CREATE STREAM s ({COLUMNS}, WATERMARK FOR ts AS ts - INTERVAL {self.slack} SECONDS) "
            f"WITH (source = 'log', partitions = {self.partitions}{key})"
        )


_KERNEL: st.SearchStrategy[Kernel] = st.sampled_from(["native", "spark"])
KERNELS = st.lists(_KERNEL, min_size=1, max_size=2).map(tuple)
KEYS = st.sampled_from(["a", "b", "c", "", "ö", None])
NUMBERS = st.one_of(st.integers(-4, 6), st.none(), st.sampled_from([2**62, -(2**62), 2**63 - 1, -(2**63)]))
FRACTIONS = st.one_of(st.integers(-40, 40).map(lambda n: n / 4), st.none())
FLAGS = st.sampled_from([True, False, None])
# What sets a row apart from the one before it: mostly nothing.
FATES = st.sampled_from(["in order"] * 6 + ["disorder"] * 4 + ["late"] * 3 + ["very late", "no time", "again", "jump"])
# Mostly whole seconds, so that event times, watermarks and the ends of windows often coincide.
NOISE = st.sampled_from([0] * 8 + [1, 500_000, 999_999])


@st.composite
def disordered_rows(draw: st.DrawFn, slack: int, size: int) -> list[Row]:
    """Rows whose event times wander forward; some are late, some come twice, some have no time."""
    rows: list[Row] = []
    now = 0
    for number in range(size):
        fate = draw(FATES)
        if fate == "again" and rows:
            rows.append(dict(draw(st.sampled_from(rows))))
            continue
        now += draw(st.sampled_from([0, 0, 1, 1, 2, 5]))
        if fate == "jump":
            now += 12
        behind = {
            "disorder": draw(st.integers(0, slack)),
            "late": slack + draw(st.integers(1, 12)),
            "very late": 40,
        }.get(fate, 0)
        at = None if fate == "no time" else START + timedelta(seconds=now - behind, microseconds=draw(NOISE))
        rows.append(
            {
                "id": number,
                "k": draw(KEYS),
                "v": draw(NUMBERS),
                "x": draw(FRACTIONS),
                "b": draw(FLAGS),
                "ts": at,
            }
        )
    return rows


@st.composite
def orderly_rows(draw: st.DrawFn, slack: int, size: int) -> list[Row]:
    """Rows that are never further behind the newest one than the slack."""
    rows: list[Row] = []
    newest = 0
    for number in range(size):
        forward = draw(st.sampled_from([0, 500_000, 1_000_000, 3_000_000]))
        behind = 0 if number == 0 else draw(st.sampled_from([0, 0, 1_000_000, slack * 1_000_000]))
        at = max(newest + forward - behind, newest - slack * 1_000_000)
        newest = max(newest, at)
        rows.append(
            {
                "id": number,
                "k": draw(KEYS),
                "v": draw(NUMBERS),
                "x": draw(FRACTIONS),
                "b": draw(FLAGS),
                "ts": START + timedelta(microseconds=at),
            }
        )
    return rows


@st.composite
def boundaries(draw: st.DrawFn, size: int, most: int) -> list[int]:
    """Where a list of rows is cut into batches."""
    cuts = draw(st.sets(st.integers(1, max(1, size - 1)), max_size=most - 1))
    return [0, *sorted(cuts), size]


def cut(rows: list[Row], bounds: list[int]) -> tuple[tuple[Row, ...], ...]:
    return tuple(tuple(rows[low:high]) for low, high in pairwise(bounds) if high > low)


@st.composite
def feeds(draw: st.DrawFn) -> Feed:
    """A stream with late rows and restarts."""
    slack = draw(st.sampled_from([0, 2, 5]))
    size = draw(st.integers(15, 60))
    rows = draw(disordered_rows(slack, size))
    batches = cut(rows, draw(boundaries(size, most=5)))
    return Feed(
        partitions=draw(st.sampled_from([1, 1, 2, 3, 4])),
        key=draw(st.sampled_from([None, "k"])),
        slack=slack,
        batches=batches,
        restarts=draw(st.frozensets(st.integers(1, max(1, len(batches) - 1)), max_size=1)),
        kernels=draw(KERNELS),
    )
