"""Window arithmetic: panes, the windows that hold them, when they are late."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.plan.windows import CountWindow, SessionWindow, SlideWindow, Window

sizes = st.integers(min_value=1, max_value=60)
instants = st.integers(min_value=-500, max_value=500)


@given(size=sizes, slide=sizes, offset=st.integers(0, 30), instant=instants)
def test_a_pane_is_held_by_exactly_the_windows_that_hold_its_instants(
    size: int, slide: int, offset: int, instant: int
) -> None:
    window = Window("ts", size, slide, offset)
    pane = instant - (instant - offset) % window.pane_size
    expected = [
        start
        for start in range(instant - size - slide, instant + 1)
        if (start - offset) % slide == 0 and start <= instant < start + size
    ]
    assert sorted(window.starts(pane)) == expected


@settings(deadline=None)
@given(size=sizes, slide=sizes, offset=st.integers(0, 30), pane=instants)
def test_the_stores_arithmetic_agrees(size: int, slide: int, offset: int, pane: int) -> None:
    window, instant = Window("ts", size, slide, offset), pane
    pane -= (pane - offset) % window.pane_size
    newest = pane - (pane - offset) % slide
    (row,) = duckdb.execute(
        f"SELECT {window.newest_start_sql(f'({pane})')}, {window.is_late_sql(f'({pane})', str(newest + size))}, "
        f"{window.is_late_sql(f'({pane})', str(newest + size - 1))}, {window.pane_in_store(f'({instant})')}"
    ).fetchall()
    assert row == (newest, True, False, pane)


@pytest.mark.parametrize(
    ("size", "slide", "pane", "tumbling", "gaps"),
    [(10, 10, 10, True, False), (10, 2, 2, False, False), (10, 4, 2, False, False), (10, 15, 5, False, True)],
)
def test_shapes(size: int, slide: int, pane: int, tumbling: bool, gaps: bool) -> None:
    window = Window("ts", size, slide)
    assert (window.pane_size, window.is_tumbling, window.has_gaps) == (pane, tumbling, gaps)


def test_a_row_of_the_delta_knows_when_its_newest_window_is_complete() -> None:
    delta = {"__pane": 12, "__last": 17}
    assert Window("ts", size=10, slide=4).complete_at(delta.__getitem__) == 22
    assert SessionWindow("ts", gap=10).complete_at(delta.__getitem__) == 27
    assert SlideWindow("ts", size=10).complete_at(delta.__getitem__) == 13


@settings(deadline=None)
@given(rows=st.integers(1, 7), slide=st.integers(1, 7), count=st.integers(0, 40))
def test_count_windows_end_where_they_should(rows: int, slide: int, count: int) -> None:
    """A window of `rows` ends with every `slide`-th event from the first full one on."""
    window = CountWindow(rows, slide)
    ends = list(range(rows, 100, slide))
    (row,) = duckdb.execute(
        f"SELECT {window.ends_at_sql(str(count))}, {window.next_end_sql(f'CAST({count} AS BIGINT)')}"
    ).fetchall()
    assert row == (count in ends, next(end for end in ends if end > count))
