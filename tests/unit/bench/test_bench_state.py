"""The input of the state workload: repeatable slices whose ids and buyers never come back."""

from __future__ import annotations

from collections import deque

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bench.data import START_US
from bench.peers.state_millstream import compare
from bench.state_data import BUYERS_LAST_US, PAID_WITHIN_US, SLICE_US, UNPAID, Slices

SLICES = Slices(events=12_000, slices=12)


def micros(table: pa.Table) -> pa.ChunkedArray:
    return pc.subtract(table.column("ts").cast("int64"), START_US)


def everything(kind: str) -> pa.Table:
    return pa.concat_tables([getattr(SLICES, kind)(number) for number in range(SLICES.slices)])


def test_a_slice_does_not_depend_on_what_was_made_before() -> None:
    assert Slices(12_000, 12).payments(7).equals(SLICES.payments(7))


@pytest.mark.parametrize("kind", ["orders", "payments"])
def test_the_rows_of_a_slice_lie_within_it(kind: str) -> None:
    for number in range(SLICES.slices):
        bounds = pc.min_max(micros(getattr(SLICES, kind)(number))).as_py()
        assert number * SLICE_US <= bounds["min"] <= bounds["max"] < (number + 1) * SLICE_US


def test_nine_in_ten_orders_are_paid_once_and_in_time() -> None:
    both = everything("orders").join(everything("payments"), "id", join_type="inner", right_suffix="_paid")
    waited = pc.subtract(both.column("ts_paid").cast("int64"), both.column("ts").cast("int64"))
    assert pc.max(waited).as_py() < PAID_WITHIN_US
    assert pc.min(waited).as_py() >= 0
    assert both.num_rows == everything("payments").num_rows
    # Those of the last slice may be paid after the end.
    settled = SLICES.orders_per_slice * (SLICES.slices - 1)
    paid = sorted(one for one in both.column("id").to_pylist() if one < settled)
    assert paid == [one for one in range(settled) if one % UNPAID]


def test_buyers_do_not_come_back() -> None:
    orders = everything("orders").append_column("era", pc.divide(micros(everything("orders")), BUYERS_LAST_US))
    eras = orders.group_by("buyer").aggregate([("era", "count_distinct")])
    assert pc.max(eras.column("era_count_distinct")).as_py() == 1
    assert eras.num_rows > 100


def test_the_comparison_counts_rows_that_are_missing_or_wrong() -> None:
    newest = {
        kind: deque(getattr(SLICES, kind)(number) for number in range(SLICES.slices)) for kind in ("orders", "payments")
    }
    until = START_US + SLICES.slices * SLICE_US
    right = everything("orders").rename_columns(["id", "buyer", "ordered_at"])
    right = right.join(everything("payments").rename_columns(["id", "amount", "paid_at"]), "id", join_type="inner")
    compared, wrong = compare("interval_join", right, newest, until)
    assert compared > 1_000
    assert wrong == 0
    newer = right.filter(pc.greater(right.column("id"), 11 * SLICES.orders_per_slice))
    assert compare("interval_join", newer, newest, until) == (compared, compared - newer.num_rows)
