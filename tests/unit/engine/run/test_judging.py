"""The judgement of a delta: nothing runs, a delta goes in and a verdict comes out."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.engine.run.judging import judge, split_late
from millstream.engine.surface.database import Database
from millstream.model.errors import MillstreamError
from millstream.model.progress import BEGINNING
from millstream.plan.compute import ViewDelta
from millstream.plan.nodes import View
from tests.parts import parts_of

SECOND = 1_000_000
WIDTH = 10 * SECOND
STREAM = "CREATE STREAM s (k STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)"


@pytest.fixture
def windowed(db: Database) -> View:
    """Counts in windows of ten seconds, each a pane of its own."""
    query = "SELECT window_start, count(*) AS n FROM TUMBLE(s, ts, INTERVAL 10 SECONDS) GROUP BY window_start"
    db.sql(f"{STREAM}; CREATE MATERIALIZED VIEW v AS {query}")
    (part,) = parts_of(db).definitions.plan(parts_of(db).catalog.view("v")).on_spark
    return part


def delta(panes: dict[int, int], filtered: int = 0, failed: int = 0) -> ViewDelta:
    rows = pa.table({"__pane": pa.array(panes, pa.int64()), "__rows": pa.array(panes.values(), pa.int64())})
    return ViewDelta(rows, sum(panes.values()), filtered, failed)


def test_rows_of_closed_windows_are_late(windowed: View) -> None:
    given_ = delta({0: 3, WIDTH: 4, 2 * WIDTH: 5}, filtered=1)
    part = judge(windowed, given_, 13, 2 * WIDTH, 3 * WIDTH)
    assert (part.used, part.filtered, part.late, part.failed) == (5, 1, 7, 0)
    assert part.delta is not None
    assert part.delta.column("__pane").to_pylist() == [2 * WIDTH]
    assert part.late_rows is None, "rows are fetched by another step"
    assert part.arrived is not None
    assert part.arrived.column("rows").to_pylist() == [3, 4, 5], "late ones are counted as arrived, too"


def test_a_window_is_open_until_the_watermark_reaches_its_end(windowed: View) -> None:
    assert judge(windowed, delta({0: 3}), 3, WIDTH - 1, WIDTH).late == 0
    assert judge(windowed, delta({0: 3}), 3, WIDTH, WIDTH).late == 3


def test_before_the_first_event_nothing_is_late(windowed: View) -> None:
    assert judge(windowed, delta({0: 3}), 3, BEGINNING, 5 * WIDTH).late == 0


def test_groups_without_windows_are_never_late(db: Database) -> None:
    db.sql(f"{STREAM}; CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM s GROUP BY k")
    (part,) = parts_of(db).definitions.plan(parts_of(db).catalog.view("v")).on_spark
    rows = pa.table({"__k0": ["a"], "__rows": pa.array([7], pa.int64())})
    assert split_late(part, rows, 2**60) == (rows, 0)


def test_rows_that_do_not_add_up_are_refused(windowed: View) -> None:
    with pytest.raises(MillstreamError) as refused:
        judge(windowed, delta({0: 3}, filtered=1), 5, BEGINNING, 0)
    assert refused.value.code == "ACCOUNTING"


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    panes=st.dictionaries(st.integers(0, 8).map(lambda n: n * WIDTH), st.integers(1, 5)),
    before=st.integers(0, 9 * WIDTH),
    filtered=st.integers(0, 5),
    failed=st.integers(0, 5),
)
def test_every_row_has_one_outcome(
    windowed: View, panes: dict[int, int], before: int, filtered: int, failed: int
) -> None:
    decoded = sum(panes.values()) + filtered + failed
    part = judge(windowed, delta(panes, filtered, failed), decoded, before, before)
    assert part.used + part.filtered + part.late + part.failed == decoded
    assert part.late == sum(rows for pane, rows in panes.items() if pane + WIDTH <= before)
    assert part.delta is not None
    assert sum(part.delta.column("__rows").to_pylist()) == part.used
