"""The sketch of lateness and the slack that follows from it need no engine."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.model.lateness import Lateness, bucket, enough_rows, generation_rows, highest
from millstream.plan.watermarks import slack_of
from millstream.sql.statements import Watermark

micros = st.one_of(st.integers(0, 1_000), st.integers(0, 2**58), st.integers(1, 58).map(lambda n: 2**n - 1))
samples = st.lists(micros, min_size=1, max_size=60)
percentiles = st.sampled_from([0.1, 0.5, 0.75, 0.9])


def counts(values: list[int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for value in values:
        found[bucket(value)] = found.get(bucket(value), 0) + 1
    return found


@given(value=micros)
def test_a_bucket_holds_its_values_closely(value: int) -> None:
    top = highest(bucket(value))
    assert value <= top <= value + value // 128
    assert bucket(top) == bucket(value)
    assert bucket(top + 1) == bucket(value) + 1


@given(values=samples, percentile=percentiles)
def test_slack_is_the_quantile_rounded_up_to_its_bucket(values: list[int], percentile: float) -> None:
    values = values * enough_rows(percentile)
    lateness = Lateness(counts(values), {})
    rank = math.ceil(round(percentile * len(values), 6))
    exact = sorted(values)[rank - 1]
    slack = lateness.slack(percentile)
    assert slack is not None
    assert exact <= slack <= exact + exact // 128


@given(epochs=st.lists(samples, max_size=12), percentile=percentiles)
def test_what_counts_is_the_last_generation_or_two(epochs: list[list[int]], percentile: float) -> None:
    lateness = Lateness()
    for epoch in epochs:
        lateness = lateness.add(counts(epoch), percentile)
    kept: list[int] = []
    for epoch in reversed(epochs):
        if sum(lateness.recent.values()) + sum(lateness.earlier.values()) == len(kept):
            break
        kept += epoch
    assert counts(kept) == counts_of(lateness)
    total = sum(map(len, epochs))
    assert lateness.rows >= min(total, generation_rows(percentile))
    assert lateness.rows < 2 * generation_rows(percentile) + 60


def counts_of(lateness: Lateness) -> dict[int, int]:
    merged = dict(lateness.earlier)
    for number, rows in lateness.recent.items():
        merged[number] = merged.get(number, 0) + rows
    return merged


@given(epochs=st.lists(samples, max_size=8), order=st.randoms())
def test_within_a_generation_the_order_of_epochs_does_not_matter(epochs: list[list[int]], order: object) -> None:
    shuffled = list(epochs)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = Lateness(), Lateness()
    for ours, theirs in zip(epochs, shuffled, strict=True):
        one, other = one.add(counts(ours), 0.99), other.add(counts(theirs), 0.99)
    assert one == other


def test_it_adapts_within_two_generations() -> None:
    lateness = Lateness()
    rows = generation_rows(0.9)
    for _ in range(20):
        lateness = lateness.add({bucket(50): rows // 10}, 0.9)
    assert lateness.slack(0.9) == 50
    slacks = []
    for _ in range(20):
        lateness = lateness.add({bucket(20): rows // 10}, 0.9)
        slacks.append(lateness.slack(0.9))
    assert slacks[0] == 50
    assert slacks[-1] == 20
    # A slack that must grow does so much sooner: a tenth of the rows is enough.
    for _ in range(2):
        lateness = lateness.add({bucket(90): rows // 10}, 0.9)
    assert lateness.slack(0.9) == 90


@pytest.mark.parametrize(
    ("percentile", "enough", "generation"),
    [(0.5, 20, 200), (0.9, 100, 1_000), (0.99, 1_000, 10_000), (0.999, 10_000, 100_000), (1.0, 10_000, 100_000)],
)
def test_how_many_rows_it_takes(percentile: float, enough: int, generation: int) -> None:
    assert (enough_rows(percentile), generation_rows(percentile)) == (enough, generation)
    assert Lateness({7: enough - 1}).slack(percentile) is None
    assert Lateness({7: enough}).slack(percentile) == 7


def test_at_percentile_1_the_slack_is_the_greatest_lateness() -> None:
    assert Lateness({0: 50_000, 200: 1}).slack(1.0) == 200
    assert Lateness({0: 50_000, 200: 1}).slack(0.999) == 0


def test_slack_of_a_watermark() -> None:
    assert slack_of(Watermark("ts", slack=5), None) == 5
    assert slack_of(Watermark("ts", percentile=0.5), None) is None
    assert slack_of(Watermark("ts", percentile=0.5), Lateness({9: 20})) == 9
