"""The controller of epochs, on a simulated system: no clock, no Spark, the same every time."""

from __future__ import annotations

import itertools
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from millstream.engine.run.pace import LEAST_ROWS, Cost, Pace

MOST = 1_000_000
TEN_VIEWS = Cost(0.12, 2e-6)
MANY_VIEWS = Cost(0.2, 20e-6)

Rate = Callable[[float], float]


@dataclass
class Run:
    """What a simulated system did."""

    waits: list[tuple[float, float, float]] = field(default_factory=list)
    """(arrived, seconds to its commit, rows)."""
    epochs: list[tuple[float, float, float]] = field(default_factory=list)
    """(begun, rows that waited, rows that were taken)."""
    ended: float = 0.0
    busy: float = 0.0

    def longest_wait(self, since: float = 0.0, before: float = math.inf) -> float:
        return max(wait for arrived, wait, _ in self.waits if since <= arrived < before)

    def mean_wait(self, since: float = 0.0, before: float = math.inf) -> float:
        found = [(wait, rows) for arrived, wait, rows in self.waits if since <= arrived < before]
        return sum(wait * rows for wait, rows in found) / sum(rows for _, rows in found)


def simulate(
    pace: Pace,
    truth: Cost,
    rate: Rate,
    seconds: float,
    *,
    backlog: float = 0.0,
    noise: float = 0.0,
    take: Callable[[float], float] | None = None,
) -> Run:
    """Rows come every 10 ms, epochs one after the other; `take` stands in for the controller's sizes."""
    run, chance = Run(), random.Random(7)
    queue: deque[tuple[float, float]] = deque([(0.0, backlog)] if backlog else [])
    now, ticks = 0.0, itertools.count(1)
    next_tick = 0.01

    def arrive(until: float) -> None:
        nonlocal next_tick
        while next_tick <= until:
            if next_tick <= seconds and (rows := rate(next_tick) * 0.01):
                queue.append((next_tick, rows))
            next_tick = (next(ticks) + 1) * 0.01

    while now < seconds or queue:
        arrive(now)
        waiting = sum(rows for _, rows in queue)
        if waiting == 0 or (pause := pace.pause({"s": round(waiting)}, now)) > 1e-9:
            now = min(next_tick, now + pause) if waiting else next_tick
            continue
        offsets = {"s": round(waiting)}
        limit = pace.limits(offsets)["s"] if take is None else take(waiting)
        taken = min(waiting, limit)
        run.epochs.append((now, waiting, taken))
        pace.begin(offsets, {"s": round(taken)}, now)
        cost = truth.of(taken) * math.exp(chance.gauss(0, noise))
        now += cost
        run.busy += cost
        pace.learn({"s": round(taken)}, {"s": round(taken)}, cost)
        left = taken
        while left > 1e-6:
            arrived, rows = queue.popleft()
            done = min(rows, left)
            left -= done
            run.waits.append((arrived, now - arrived, done))
            if rows - done > 1e-6:
                queue.appendleft((arrived, rows - done))
    run.ended = now
    return run


def steady(rows_per_second: float) -> Rate:
    return lambda _: rows_per_second


def natural(truth: Cost, rate: float) -> float:
    """How long an epoch takes that has just what arrives meanwhile: the shortest that keeps up."""
    return truth.fixed / (1 - rate * truth.per_row)


# -- the estimate ----------------------------------------------------------------------------------


@pytest.mark.parametrize("truth", [Cost(0.05, 5e-7), TEN_VIEWS, MANY_VIEWS, Cost(0.5, 1e-4)])
def test_both_parts_are_learnt(truth: Cost) -> None:
    cost, chance = Cost(0.1, 1e-6), random.Random(3)
    for number in range(400):
        rows = (1_000, 30_000, 300_000)[number % 3]
        cost = cost.learn(rows, truth.of(rows) * math.exp(chance.gauss(0, 0.1)))
    assert cost.fixed == pytest.approx(truth.fixed, rel=0.2)
    assert cost.per_row == pytest.approx(truth.per_row, rel=0.2)


def test_epochs_that_are_all_alike_teach_what_such_an_epoch_costs() -> None:
    cost = Cost(0.1, 1e-6)
    for _ in range(30):
        cost = cost.learn(50_000, MANY_VIEWS.of(50_000))
    assert cost.of(50_000) == pytest.approx(MANY_VIEWS.of(50_000), rel=0.05)


def test_one_odd_epoch_changes_little() -> None:
    for seconds in (60.0, 0.0):
        cost = TEN_VIEWS.learn(20_000, seconds)
        assert 0.7 < cost.of(20_000) / TEN_VIEWS.of(20_000) < 1.45


def test_a_lasting_change_is_followed() -> None:
    cost = TEN_VIEWS
    for _ in range(15):
        cost = cost.learn(100_000, 10 * TEN_VIEWS.of(100_000))
    assert cost.of(100_000) == pytest.approx(10 * TEN_VIEWS.of(100_000), rel=0.2)


def test_the_rate_of_arrivals() -> None:
    pace = Pace(MOST)
    simulate(pace, TEN_VIEWS, steady(30_000), 60)
    assert pace.rate == pytest.approx(30_000, rel=0.1)


def test_what_was_there_at_the_start_has_not_arrived() -> None:
    pace = Pace(MOST)
    pace.begin({"s": 5_000_000}, {"s": 1_000_000}, 100.0)
    pace.begin({"s": 4_000_000}, {"s": 1_000_000}, 102.0)
    assert pace.rate == 0


# -- the size --------------------------------------------------------------------------------------


@pytest.mark.parametrize("truth", [TEN_VIEWS, MANY_VIEWS, Cost(0.001, 1e-6), Cost(5.0, 1e-9)])
@pytest.mark.parametrize("load", [0.0, 0.3, 0.9, 0.999, 1.0, 3.0])
@pytest.mark.parametrize("target", [None, 0.001, 0.5, 60.0])
def test_bounds_and_order(truth: Cost, load: float, target: float | None) -> None:
    pace = Pace(MOST, target, truth, rate=load / truth.per_row)
    sizes = [pace.size(waiting) for waiting in (0, 1, 10_000, 10**5, 10**6, 10**7, 10**8, 10**9)]
    assert all(LEAST_ROWS <= size <= MOST for size in sizes)
    assert sizes == sorted(sizes)
    assert Pace(LEAST_ROWS, target, truth).size(10**9) == LEAST_ROWS


def test_a_small_backlog_is_one_epoch() -> None:
    """As long as the rows cost less than twice what an epoch does, two epochs are no gain to anybody."""
    pace = Pace(MOST, cost=TEN_VIEWS)
    assert pace.size(120_000) >= 120_000


@pytest.mark.parametrize("truth", [TEN_VIEWS, MANY_VIEWS])
@pytest.mark.parametrize("load", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("backlog", [100_000, 1_000_000])
def test_no_fixed_size_makes_waits_much_shorter(truth: Cost, load: float, backlog: int) -> None:
    """The mean wait of a backlog and of what arrives while it is worked off, against any size that never changes."""
    rate, seconds = load / truth.per_row, 4 * truth.of(backlog)
    rows = [20_000, 50_000, 100_000, 200_000, 500_000, MOST]
    fixed = [
        simulate(Pace(MOST), truth, steady(rate), seconds, backlog=backlog, take=lambda _, n=n: n).mean_wait()  # type: ignore[misc]
        for n in rows
    ]
    ours = simulate(Pace(MOST, cost=truth, rate=rate), truth, steady(rate), seconds, backlog=backlog).mean_wait()
    assert ours <= 1.1 * min(fixed)


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("load", [0.05, 0.5, 0.8, 0.9])
def test_what_keeps_up_waits_for_two_epochs(load: float, noise: float) -> None:
    """Without a backlog there is nothing to cut: an epoch takes what came meanwhile."""
    rate = load / TEN_VIEWS.per_row
    run = simulate(Pace(MOST), TEN_VIEWS, steady(rate), 120, noise=noise)
    everything = simulate(Pace(MOST), TEN_VIEWS, steady(rate), 120, noise=noise, take=lambda _: MOST)
    assert run.mean_wait(since=10) <= 1.05 * everything.mean_wait(since=10)
    if noise == 0:
        assert run.longest_wait(since=60) <= 2.1 * natural(TEN_VIEWS, rate)
        sizes = [taken for begun, _, taken in run.epochs if begun > 90]
        assert max(sizes) < 1.2 * min(sizes[:-1]), "they do not swing"


@pytest.mark.parametrize("truth", [TEN_VIEWS, MANY_VIEWS])
@pytest.mark.parametrize("load", [0.5, 0.9, 0.95, 1.5])
def test_a_step_of_the_rate_does_no_harm(truth: Cost, load: float) -> None:
    """A rate that rises at once and stays: waits are those of taking everything, whatever that comes to."""

    def rate(at: float) -> float:
        return (load if 60 <= at < 120 else 0.1) / truth.per_row

    run = simulate(Pace(MOST), truth, rate, 300, noise=0.1)
    everything = simulate(Pace(MOST), truth, rate, 300, noise=0.1, take=lambda _: MOST)
    assert run.mean_wait(60, 120) <= 1.05 * everything.mean_wait(60, 120)


def test_a_burst_is_no_rate() -> None:
    """A million rows at once, on top of a steady load: others wait far less for the epochs that they are cut into."""

    def rate(at: float) -> float:
        return 100e6 if round(at * 100) == 6000 else 0.3 / MANY_VIEWS.per_row

    run = simulate(Pace(MOST), MANY_VIEWS, rate, 160, noise=0.1)
    everything = simulate(Pace(MOST), MANY_VIEWS, rate, 160, noise=0.1, take=lambda _: MOST)
    assert run.mean_wait(60, 120) <= 0.75 * everything.mean_wait(60, 120)
    assert run.longest_wait(60, 120) <= everything.longest_wait(60, 120)
    assert max(taken for _, _, taken in run.epochs) < 500_000


@pytest.mark.parametrize("truth", [TEN_VIEWS, MANY_VIEWS])
@pytest.mark.parametrize("target", [None, 1.0])
def test_catching_up_is_nearly_as_fast_as_can_be(truth: Cost, target: float | None) -> None:
    """A backlog of a hundred fixed costs and more, with rows arriving: at 85 % of the best rate, or better."""
    backlog = 200 * truth.fixed / truth.per_row
    rate = 0.3 / truth.per_row
    run = simulate(Pace(MOST, target), truth, steady(rate), 20 * truth.of(backlog), backlog=backlog)
    caught_up = next(begun for begun, waiting, taken in run.epochs if waiting == taken)
    best = backlog / (MOST / truth.of(MOST) - rate)
    assert caught_up <= best / 0.85
    assert run.longest_wait(since=2 * caught_up) <= max(target or 0, 2.5 * natural(truth, rate)) * 1.1


def test_a_backlog_is_worked_off_without_swinging() -> None:
    pace = Pace(MOST, cost=MANY_VIEWS)
    run = simulate(pace, MANY_VIEWS, steady(0), 0.0, backlog=3_000_000)
    sizes = [taken for _, _, taken in run.epochs]
    assert len(sizes) > 5
    assert all(after <= 1.05 * before for before, after in itertools.pairwise(sizes))
    assert sizes[-1] < sizes[0] / 2


def test_a_wave_of_too_many_rows() -> None:
    """Twice what can be done for 20 s: sizes rise while it lasts, all is done, and waits are short again."""
    most = 1 / MANY_VIEWS.per_row
    pace = Pace(MOST)
    run = simulate(pace, MANY_VIEWS, lambda at: 2 * most if 60 <= at < 80 else 0.2 * most, 300, noise=0.1)
    sizes = {begun: taken for begun, _, taken in run.epochs}
    calm = [size for begun, size in sizes.items() if 30 < begun < 60]
    wave = [size for begun, size in sizes.items() if 65 < begun < 100]
    after = [size for begun, size in sizes.items() if begun > 200]
    assert max(wave) > 10 * max(calm)
    assert max(after) < 1.5 * max(calm)
    assert run.longest_wait(since=200) < 1.5 * run.longest_wait(since=30, before=60)


def test_a_first_epoch_that_starts_everything() -> None:
    """Spark starts, classes are loaded: ten times the cost, of which little is remembered."""
    pace = Pace(MOST)
    pace.learn({"s": 5_000}, {"s": 5_000}, 4.0)
    run = simulate(pace, TEN_VIEWS, steady(20_000), 20)
    assert run.longest_wait(since=5) < 2.2 * natural(TEN_VIEWS, 20_000)


# -- a target --------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, 0.15])
@pytest.mark.parametrize("target", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("rate", [2_000, 50_000])
def test_a_target_that_can_be_kept_is_kept_and_used(target: float, rate: float, noise: float) -> None:
    """Rows are visible in time, and the time is used: fewer epochs, less work."""
    run = simulate(Pace(MOST, target), TEN_VIEWS, steady(rate), 100, noise=noise)
    eager = simulate(Pace(MOST), TEN_VIEWS, steady(rate), 100, noise=noise)
    waits = sorted(wait for arrived, wait, _ in run.waits if arrived > 20)
    assert waits[int(0.98 * len(waits))] <= 1.1 * target
    assert waits[-1] <= (1.05 if noise == 0 else 1.5) * target
    assert waits[-1] >= 0.8 * target
    assert run.busy < eager.busy * (0.75 if target < 1 else 0.5)


def test_a_row_that_comes_alone_is_not_kept_waiting() -> None:
    """Nothing ran for as long as the target: there is nothing to gather for."""
    run = simulate(Pace(MOST, 1.0), TEN_VIEWS, lambda at: 100.0 if round(at * 100) % 500 == 0 else 0.0, 60)
    assert run.longest_wait(since=20) < 1.5 * TEN_VIEWS.of(1) + 0.02


@pytest.mark.parametrize("target", [0.01, 0.25])
def test_a_target_that_cannot_be_kept_costs_nothing(target: float) -> None:
    """Where one epoch takes longer than allowed, rows wait as if there were no target."""
    run = simulate(Pace(MOST, target), MANY_VIEWS, steady(30_000), 60)
    without = simulate(Pace(MOST), MANY_VIEWS, steady(30_000), 60)
    assert run.longest_wait(since=20) <= 1.05 * without.longest_wait(since=20)


def test_a_burst_does_not_wait_for_the_pause_to_end() -> None:
    pace = Pace(MOST, 1.0, TEN_VIEWS)
    pace.begin({"s": 100}, {"s": 100}, 10.0)
    assert pace.pause({"s": 100}, 10.2) == pytest.approx(11.0 - TEN_VIEWS.of(100) - 10.2)
    assert pace.pause({"s": 400_000}, 10.2) == 0


def test_what_an_epoch_left_does_not_wait() -> None:
    pace = Pace(MOST, 10.0, TEN_VIEWS)
    pace.begin({"s": 100, "t": 100}, {"s": 100, "t": 60}, 10.0)
    assert pace.pause({"s": 0, "t": 40}, 10.1) == 0


# -- several streams -------------------------------------------------------------------------------


def test_streams_share_an_epoch_by_their_backlogs() -> None:
    pace = Pace(MOST, cost=MANY_VIEWS)
    limits = pace.limits({"large": 3_000_000, "half": 1_500_000, "small": 7})
    assert limits["large"] == pytest.approx(2 * limits["half"], abs=1)
    assert limits["large"] + limits["half"] < 1.01 * pace.size(4_500_007)
    assert limits["small"] == LEAST_ROWS


def test_files_are_counted_by_the_rows_they_had() -> None:
    pace = Pace(MOST, cost=MANY_VIEWS)
    assert pace.limits({"files": 100})["files"] == MOST, "nothing is known of them"
    pace.learn({"files": 2}, {"files": 60_000}, MANY_VIEWS.of(60_000))
    assert pace.rows({"files": 100}) == 3_000_000
    limit = pace.limits({"files": 100})["files"]
    assert limit == pace.size(3_000_000) // 30_000
    pace.learn({"files": 1}, {"files": 10_000_000}, 1.0)
    assert pace.limits({"files": 100})["files"] == 1, "a file is never cut"


def test_offsets_without_rows() -> None:
    """A compacted topic may have none at all in a range."""
    pace = Pace(MOST)
    pace.learn({"s": 1_000}, {"s": 0}, 0.1)
    assert pace.limits({"s": 50_000_000, "t": 50_000_000})["s"] == MOST


def test_epochs_overlap_when_rows_press() -> None:
    pace = Pace(1_000_000, cost=Cost(0.1, 1e-5))
    pressed: list[bool] = []
    pace.begin({"s": 5_000}, {"s": 5_000}, 0.0)
    pressed.append(pace.is_pressed)
    pace.begin({"s": 5_000}, {"s": 4_999}, 0.1)
    pressed.append(pace.is_pressed)
    # 20,000 rows a second are a load of 0.2, twice as many one of 0.4.
    for second in range(1, 60):
        pace.begin({"s": 20_000}, {"s": 20_000}, float(second))
    pressed.append(pace.is_pressed)
    for second in range(60, 120):
        pace.begin({"s": 40_000}, {"s": 40_000}, float(second))
    pressed.append(pace.is_pressed)
    assert pressed == [False, True, False, True]
