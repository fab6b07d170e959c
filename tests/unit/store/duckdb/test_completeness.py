"""What was there when windows fired, counted in the store alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.model.progress import BEGINNING, Completeness
from millstream.plan.nodes import AppendView
from millstream.plan.windows import Window
from millstream.store.commands import ViewPart
from millstream.store.duckdb import completeness
from millstream.store.duckdb.completeness import count_arrivals, read_completeness
from millstream.store.duckdb.connection import open_database
from millstream.store.duckdb.moment import Moment
from millstream.store.duckdb.writing import Writing

Count = Callable[[list[ViewPart]], None]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    connection = open_database(tmp_path / "store.duckdb", "200MB")
    connection.execute("CREATE SCHEMA IF NOT EXISTS ms")
    connection.execute(completeness.COMPLETENESS)
    yield connection
    connection.close()


def view(size: int = 10, slide: int = 10, name: str = "v", lateness: int = 0) -> AppendView:
    return AppendView(name, "s", Window("ts", size, slide), True, None, (), lateness, None, None)


def part(of: AppendView, instants: list[int], before: int, after: int) -> ViewPart:
    assert of.window is not None
    panes = Counter(at - at % of.window.pane_size for at in instants)
    table = pa.table({"pane": pa.array(panes.keys(), pa.int64()), "rows": pa.array(panes.values(), pa.int64())})
    return ViewPart(of, None, before, after, arrived=table)


@pytest.fixture(params=[1, 64], ids=["gathered", "as-added"])
def count(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, store: duckdb.DuckDBPyConnection) -> Count:
    """Count the arrivals of an epoch, whose rows in the table are gathered at once or not at all."""
    monkeypatch.setattr(completeness, "_EPOCHS", request.param)
    writing = Writing(store)
    return lambda parts: count_arrivals(store, parts, Moment(1, 1), writing)


def test_rows_of_the_epoch_that_fires_are_on_time(store: duckdb.DuckDBPyConnection, count: Count) -> None:
    tumbling = view()
    count([part(tumbling, [1, 2, 12], BEGINNING, 12)])
    assert read_completeness(store, tumbling, 9) is None
    assert read_completeness(store, tumbling, 12) == Completeness(2, 0, 2, 0)
    count([part(tumbling, [3, 13, 25], 12, 25)])
    assert read_completeness(store, tumbling, 25) == Completeness(4, 1, 2, 0)
    count([part(tumbling, [14, 4], 25, 25)])
    assert read_completeness(store, tumbling, 25) == Completeness(4, 3, 2, 1)


def test_a_row_counts_for_each_of_its_windows(store: duckdb.DuckDBPyConnection, count: Count) -> None:
    hopping = view(size=10, slide=5)
    count([part(hopping, [7], BEGINNING, 12)])
    # 7 is in [0, 10) and [5, 15); the second row comes after the first of them fired.
    count([part(hopping, [8], 12, 20)])
    assert read_completeness(store, hopping, 20) == Completeness(3, 1, 2, 0)


def test_views_are_counted_apart(store: duckdb.DuckDBPyConnection, count: Count) -> None:
    one, other = view(), view(size=20, slide=20, name="o")
    count([part(one, [1, 11], BEGINNING, 20), part(other, [1, 11], BEGINNING, 20)])
    count([part(one, [2], 20, 20), part(other, [30], 20, 40)])
    assert read_completeness(store, one, 20) == Completeness(2, 1, 1, 0)
    assert read_completeness(store, other, 40) == Completeness(3, 0, 1, 0)
    completeness.forget_completeness(store, "v")
    assert read_completeness(store, one, 20) is None
    assert read_completeness(store, other, 40) == Completeness(3, 0, 1, 0)


steps = st.lists(
    st.tuples(st.lists(st.integers(0, 400), min_size=1, max_size=30), st.integers(0, 60)), min_size=1, max_size=12
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps, slide=st.sampled_from([1, 2, 5, 10]), recent=st.sampled_from([2, 5, 100]), every=st.integers(1, 4))
def test_sums_are_exact_also_when_old_windows_are_added_up(
    store: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
    steps: list[tuple[list[int], int]],
    slide: int,
    recent: int,
    every: int,
) -> None:
    monkeypatch.setattr(completeness, "_RECENT", recent)
    monkeypatch.setattr(completeness, "_EPOCHS", every)
    completeness.forget_completeness(store, "v")
    hopping = view(size=10, slide=slide)
    assert hopping.window is not None
    on_time: Counter[int] = Counter()
    later: Counter[int] = Counter()
    before, after = BEGINNING, BEGINNING
    writing = Writing(store)
    for epoch, (instants, progress) in enumerate(steps):
        after = max(before, 0) + progress
        count_arrivals(store, [part(hopping, instants, before, after)], Moment(epoch, epoch), writing)
        for at in instants:
            for start in range(at // slide * slide, at - 10, -slide):
                (on_time if start + 10 > before else later)[start] += 1
        before = after
    fired = {start for start in (*on_time, *later) if start + 10 <= after}
    found = read_completeness(store, hopping, after)
    if not fired:
        assert found is None
        return
    last = max(fired)
    assert found == Completeness(
        sum(on_time[start] for start in fired),
        sum(later[start] for start in fired),
        on_time[last],
        later[last],
    )
