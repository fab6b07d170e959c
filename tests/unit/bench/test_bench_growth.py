"""Clicks: as many groups as said, out of order by as much as said; what growth varies and asks for."""

from __future__ import annotations

from math import gcd

import numpy as np
import pyarrow as pa
import pytest

from bench.__main__ import arguments, make_plan
from bench.growth_data import IDS, STRIDE, Clicks, generate, groups_of
from bench.peers.growth import DEFAULTS, stream, view
from bench.plan import FULL_GROUPS, FULL_STATES
from bench.workloads import growth


def test_the_same_clicks_are_the_same_rows_however_they_are_cut() -> None:
    whole = generate(0, 3_000, disorder_us=5_000)
    assert pa.concat_tables(Clicks(3, 1_000, 5_000).tables()).combine_chunks().equals(whole)


def test_the_stride_reaches_every_id() -> None:
    assert gcd(STRIDE, IDS) == 1


@pytest.mark.parametrize("groups", [1_000, 10_000, 100_000])
def test_there_are_as_many_groups_as_said(groups: int) -> None:
    clicks = Clicks(2, 20_000)
    ids = np.concatenate([table.column("id").to_numpy() for table in clicks.tables()])
    assert len(np.unique(ids % groups)) == groups_of(clicks, groups)


@pytest.mark.parametrize("groups", [10_000, 1_000_000, IDS])
def test_few_groups_are_hot_in_a_file_and_others_in_the_next(groups: int) -> None:
    seen = [set((table.column("id").to_numpy() % groups).tolist()) for table in Clicks(3, 20_000, hot=10_000).tables()]
    assert [len(ids) for ids in seen] == [10_000] * 3
    assert groups == 10_000 or not any(seen[0] & other for other in seen[1:])


def test_a_size_of_groups_divides_the_ids() -> None:
    assert all(IDS % groups == 0 for groups in (*FULL_GROUPS, *FULL_STATES))


@pytest.mark.parametrize("disorder_us", [1, 10_000_000])
def test_no_click_is_further_behind_than_said(disorder_us: int) -> None:
    micros = generate(0, 300_000, disorder_us).column("ts").cast("int64").to_numpy()
    behind = np.maximum.accumulate(micros) - micros
    assert behind.max() < disorder_us
    assert disorder_us == 1 or behind.max() > 0.9 * disorder_us


def test_a_full_run_varies_everything_and_a_quick_one_the_ends() -> None:
    full = growth.points(make_plan(arguments([]), print))
    assert [point.label for point in full["groups"]][-1] == "10,000,000 groups"
    assert set(full) == {"groups", "groups kept", "disorder", "log partitions", "epoch size", "window size"}
    quick = growth.points(make_plan(arguments(["--quick"]), print))
    assert all(len(values) == 2 for values in quick.values())


def test_points_vary_only_what_the_peer_knows() -> None:
    points = growth.points(make_plan(arguments([]), print))
    assert {name for values in points.values() for point in values for name, _ in point.settings} <= set(DEFAULTS)


def test_the_slack_covers_the_disorder() -> None:
    for point in growth.points(make_plan(arguments([]), print))["disorder"]:
        assert dict(point.settings)["slack_seconds"] * 1_000_000 >= point.clicks.disorder_us


def test_a_target_needs_both_ends() -> None:
    for what in growth.JUDGED:
        assert growth.targets(what, {"10,000 groups": 4.0, "1,000,000 groups": 2.0}) == []


def test_a_larger_view_may_cost_half() -> None:
    (target,) = growth.targets(growth.KEPT, {"10,000 groups": 4.0, "10,000,000 groups": 2.0})
    assert (target.met, target.aim) == (True, False)
    (target,) = growth.targets(growth.KEPT, {"10,000 groups": 4.0, "10,000,000 groups": 1.9})
    assert target.missed


def test_of_as_many_groups_as_rows_a_share_of_the_limit_is_asked() -> None:
    speeds = {"10,000 groups": 8.0, "10,000,000 groups": 2.0}
    limits = {"one-shot DuckDB: 10,000 groups": 40.0, "one-shot DuckDB: 10,000,000 groups": 5.0}
    share, falls = growth.targets(growth.WORST, speeds | limits)
    assert (share.value, share.bound, share.aim) == (0.4, 0.12, False)
    assert (falls.value, falls.aim) == (0.25, True)
    assert "0.12 x" in falls.what, "what the limit keeps is said beside it"
    assert growth.targets(growth.WORST, speeds)[0].value is None


def test_a_window_and_partitions_are_said_in_the_statements() -> None:
    settings = {**DEFAULTS, "window_seconds": 60, "partitions": 4}
    assert "partitions = '4'" in stream(settings, "/x")
    assert "TUMBLE(clicks, ts, INTERVAL 60 SECONDS)" in view(settings)
    assert "files_per_epoch = '1'" in stream(DEFAULTS, "/x")


def test_the_state_that_is_killed_is_complete_by_then() -> None:
    plan = make_plan(arguments([]), print)
    assert plan.states == FULL_STATES
    assert groups_of(Clicks(5, plan.recovery_clicks.rows_per_file), FULL_STATES[-1]) == FULL_STATES[-1]
