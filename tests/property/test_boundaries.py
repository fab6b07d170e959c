"""While disorder stays within the slack, what is published on the watermark does not depend on the epochs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .cases import CASES
from .cases_keyed import KEYED_CASES
from .compare import difference
from .drive import Run
from .model import Windows
from .rows import KERNELS, Feed, Row, boundaries, cut, orderly_rows

pytestmark = pytest.mark.spark

Directories = Callable[[], AbstractContextManager[Path]]
ON_WATERMARK = [case for case in (*CASES, *KEYED_CASES) if "ON WATERMARK" in case.sql]


@st.composite
def recut_feeds(draw: st.DrawFn) -> tuple[Feed, Feed]:
    """The same rows cut into epochs in two ways."""
    slack = draw(st.sampled_from([1, 4]))
    size = draw(st.integers(20, 50))
    rows = draw(orderly_rows(slack, size))
    feed = Feed(
        partitions=draw(st.integers(1, 4)),
        key=draw(st.sampled_from([None, "k"])),
        slack=slack,
        batches=cut(rows, draw(boundaries(size, most=5))),
        restarts=frozenset(),
        kernels=draw(KERNELS),
    )
    return feed, replace(feed, batches=cut(rows, draw(boundaries(size, most=3))), kernels=draw(KERNELS))


@settings(max_examples=8)
@given(feeds=recut_feeds())
def test_on_time_results_do_not_depend_on_epoch_boundaries(
    fresh_directory: Directories, feeds: tuple[Feed, Feed]
) -> None:
    seen: list[dict[str, tuple[list[Row], list[Row]]]] = []
    for feed in feeds:
        with fresh_directory() as directory:
            run = Run(directory, feed, ON_WATERMARK)
            try:
                for batch in feed.batches:
                    run.step(batch)
                run.check_views()
                run.check_letters()
                assert all(judged.late == 0 for epoch in run.judged.values() for judged in epoch.values())
                seen.append(
                    {case.name: (run.on_time_panes(case.name), _complete(run, case.name)) for case in ON_WATERMARK}
                )
            finally:
                run.close()
    for case in ON_WATERMARK:
        for ours, theirs, what in zip(seen[0][case.name], seen[1][case.name], ("panes", "view"), strict=True):
            wrong = difference(ours, theirs, case.keys)
            assert wrong is None, f"{what} of {case.name}: {wrong}"


def _complete(run: Run, name: str) -> list[Row]:
    """The rows of a view whose windows the watermark has passed."""
    case = run.models[name].case
    newest = run.watermark.at
    if not isinstance(case.windows, Windows):
        # These show complete windows only.
        return run.db.query(f"SELECT * FROM {name}").rows()
    end = case.windows.size * 1_000_000
    rows = run.db.query(f"SELECT *, unix_micros(window_start) AS __at FROM {name}").rows()
    done = [row for row in rows if newest is not None and row["__at"] + end <= newest]
    return [{key: value for key, value in row.items() if key != "__at"} for row in done]
