"""Ratios over many queries, and whether a trace has stopped growing."""

from __future__ import annotations

import pytest

from bench.grid import Grid, QueryTimes
from bench.outcome import Trace
from bench.workloads.state import flat


def grid(*rows: QueryTimes) -> Grid:
    return Grid(100, "ours", ("theirs",), {"ours": "Ours", "theirs": "Theirs"}, rows)


def test_the_best_runs_are_compared() -> None:
    row = QueryTimes("q0", {"ours": (4.0, 2.0), "theirs": (3.0, 5.0)})
    assert grid(row).ratio(row, "theirs") == 1.5


def test_the_median_and_the_worst_leave_out_what_one_of_both_lacks() -> None:
    rows = [QueryTimes(f"q{n}", {"ours": (1.0,), "theirs": (seconds,)}) for n, seconds in enumerate((4.0, 0.5, 2.0))]
    absent = QueryTimes("q9", {"ours": (1.0,), "theirs": ()}, {"theirs": "cannot express it"})
    summary = grid(*rows, absent).summary("theirs")
    assert summary is not None
    assert (summary.queries, summary.median, summary.worst, summary.worst_query) == (3, 2.0, 0.5, "q1")
    assert summary.mean == pytest.approx(4 ** (1 / 3))
    assert grid(*rows, absent).absences() == [("theirs", "q9", "cannot express it")]


def test_no_common_query_is_no_summary() -> None:
    assert grid(QueryTimes("q0", {"ours": (), "theirs": (1.0,)}, {"ours": "failed"})).summary("theirs") is None


@pytest.mark.parametrize(
    ("values", "ok"),
    [
        pytest.param((1.0, 50.0, 100.0, 100.0, 150.0, 150.0), False, id="still growing"),
        pytest.param((1.0, 100.0, 100.0, 100.0, 120.0, 120.0), True, id="on the bound"),
        pytest.param((1.0, 100.0, 100.0, 100.0, 121.0, 121.0), False, id="beyond the bound"),
        pytest.param((500.0, 500.0, 100.0, 100.0, 90.0, 90.0), True, id="the beginning does not count"),
    ],
)
def test_a_trace_is_flat_by_its_last_two_thirds(values: tuple[float, ...], ok: bool) -> None:
    assert flat("join", [Trace("store", "MiB", values)]).met is ok


def test_every_run_has_to_be_flat() -> None:
    level, growing = (Trace("store", "MiB", (1.0, 1.0, last)) for last in (1.0, 1.3))
    assert flat("join", [level, level]).met
    assert flat("join", [level, growing]).missed


def test_too_few_values_have_no_growth() -> None:
    with pytest.raises(ValueError, match="no thirds"):
        _ = Trace("store", "MiB", (1.0, 2.0)).growth
