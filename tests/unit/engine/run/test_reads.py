"""Reads ahead of the commits, over a lane that does what a test says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa
import pytest

from millstream.engine.run.reads import Job, Reader
from millstream.plan.compute import Computed, Portion, StreamStats


@dataclass
class Rows:
    closed: bool = False

    def dead_rows(self) -> pa.Table:
        raise AssertionError

    late_rows = failed_rows = cast("Any", dead_rows)

    def close(self) -> None:
        self.closed = True


@dataclass
class MadeUpLane:
    fails: BaseException | None = None
    begin: threading.Event = field(default_factory=threading.Event)
    opened: list[Rows] = field(default_factory=list)
    ahead: list[bool] = field(default_factory=list)
    costs: list[tuple[float, float]] = field(default_factory=list)

    def read(self, portions: Sequence[Portion], *, ahead: bool = False) -> list[Computed]:
        assert self.begin.wait(60)
        self.ahead.append(ahead)
        if self.fails is not None:
            raise self.fails
        rows = [Rows() for _ in portions]
        self.opened += rows
        return [Computed(each, StreamStats(1, 0, {}), {}, None, 0.5, work_seconds=0.25) for each in rows]

    def took(self, work_seconds: float, commit_seconds: float) -> None:
        self.costs.append((work_seconds, commit_seconds))


class MadeUpJob:
    def portion(self) -> None:
        return None


def jobs(count: int = 1) -> tuple[Job, ...]:
    return tuple(cast("Job", MadeUpJob()) for _ in range(count))


def following(what: tuple[Job, ...]) -> Callable[[Any], tuple[Job, ...]]:
    return lambda _: what


@pytest.fixture
def lane() -> MadeUpLane:
    made = MadeUpLane()
    made.begin.set()
    return made


@pytest.fixture
def reader(lane: MadeUpLane) -> Iterator[Reader]:
    made = Reader(lane)
    yield made
    lane.begin.set()
    made.close()


def test_what_was_begun_ahead_is_used(reader: Reader, lane: MadeUpLane) -> None:
    next_ = jobs(2)
    reader.go_ahead({}, following(next_))
    assert reader.is_ahead
    assert reader.ahead(lambda job: True) is next_
    reads = reader.read(next_)
    assert [read.job for read in reads] == list(next_)
    assert lane.ahead == [True]
    assert not reader.is_ahead


def test_what_is_no_longer_right_is_closed(reader: Reader, lane: MadeUpLane) -> None:
    reader.go_ahead({}, following(jobs(2)))
    assert reader.ahead(lambda job: False) is None
    assert not reader.is_ahead
    assert all(rows.closed for rows in lane.opened)


def test_one_set_of_jobs_is_ahead_at_a_time(reader: Reader, lane: MadeUpLane) -> None:
    lane.begin.clear()
    first = jobs()
    reader.go_ahead({}, following(first))
    reader.go_ahead({}, following(jobs()))
    lane.begin.set()
    assert reader.ahead(lambda job: True) is first


def test_a_failure_ahead_is_raised_to_whoever_asks_for_it(reader: Reader, lane: MadeUpLane) -> None:
    lane.fails = ZeroDivisionError()
    next_ = jobs()
    reader.go_ahead({}, following(next_))
    with pytest.raises(ZeroDivisionError):
        reader.read(next_)
    lane.fails = None
    assert len(reader.read(next_)) == 1
    assert lane.ahead == [True, False]


def test_a_failure_that_nobody_asks_for_is_dropped(reader: Reader, lane: MadeUpLane) -> None:
    lane.fails = ZeroDivisionError()
    reader.go_ahead({}, following(jobs()))
    reader.discard()
    assert not reader.is_ahead


def test_nothing_stays_open_after_close(lane: MadeUpLane) -> None:
    reader = Reader(lane)
    reader.go_ahead({}, following(jobs(3)))
    reader.close()
    assert all(rows.closed for rows in lane.opened)


def test_the_lane_learns_what_an_epoch_took(reader: Reader, lane: MadeUpLane) -> None:
    reads = reader.read(jobs(2))
    reader.took(reads, 0.75)
    assert lane.costs == [(0.5, 0.75)]
