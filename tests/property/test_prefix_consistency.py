"""After every epoch, every view equals the batch query over the same prefix of its input."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .cases import CASES, DISCARDING
from .cases_keyed import KEYED_CASES
from .compare import difference
from .drive import Run
from .model import Case
from .rows import Feed, feeds

pytestmark = pytest.mark.spark

Directories = Callable[[], AbstractContextManager[Path]]
views = st.lists(st.sampled_from(CASES), min_size=4, max_size=6, unique_by=lambda case: case.name)
keyed_views = st.lists(st.sampled_from(KEYED_CASES), min_size=3, max_size=6, unique_by=lambda case: case.name)


@settings(max_examples=20)
@given(feed=feeds(), cases=views)
def test_every_view_equals_the_batch_query_after_every_epoch(
    fresh_directory: Directories, feed: Feed, cases: list[Case]
) -> None:
    follow(fresh_directory, feed, cases)


@settings(max_examples=8)
@given(feed=feeds(), cases=keyed_views)
def test_windows_of_keys_equal_the_batch_query_after_every_epoch(
    fresh_directory: Directories, feed: Feed, cases: list[Case]
) -> None:
    follow(fresh_directory, feed, cases)


def follow(fresh_directory: Directories, feed: Feed, cases: list[Case]) -> None:
    """Run a feed and check everything that must hold after every epoch."""
    with fresh_directory() as directory:
        run = Run(directory, feed, cases)
        try:
            for number, batch in enumerate(feed.batches):
                if number in feed.restarts:
                    run.restart()
                epoch = run.step(batch)
                run.check_views()
                run.check_changes(since=epoch - 1 if number else 0)
            run.restart()
            run.check_views()
            run.check_letters()
            run.check_epochs()
            run.check_partitioning()
            run.check_replay_from_zero()
        finally:
            run.close()


@settings(max_examples=8)
@given(
    feed=feeds(),
    cases=st.lists(st.sampled_from((*CASES, *KEYED_CASES)), min_size=2, max_size=3, unique_by=lambda case: case.name),
)
def test_a_view_created_later_reads_history_and_counts_nothing_twice(
    fresh_directory: Directories, feed: Feed, cases: list[Case]
) -> None:
    """What is history when the view is created is never late for it; from then on the rules are the same."""
    early, *younger = cases
    half = (len(feed.batches) + 1) // 2
    with fresh_directory() as directory:
        run = Run(directory, feed, [early])
        try:
            for batch in feed.batches[:half]:
                run.step(batch)
            run.create(younger)
            for case in younger:
                run.models[case.name].take(run.placed, None)
            run.db.drain()
            run.check_views()
            for batch in feed.batches[half:]:
                run.step(batch)
                run.check_views()
            run.check_replay_from_zero()
            run.check_letters()
            run.check_epochs()
        finally:
            run.close()


@settings(max_examples=6)
@given(feed=feeds())
def test_discarded_panes_add_up(fresh_directory: Directories, feed: Feed) -> None:
    """Every used row is in exactly one pane of a window once that is complete."""
    with fresh_directory() as directory:
        run = Run(directory, feed, [DISCARDING])
        try:
            for batch in feed.batches:
                run.step(batch)
                panes = run.db.changes("discarding").rows()
                assert {pane["op"] for pane in panes} <= {"insert"}
                summed: dict[tuple[object, object], dict[str, object]] = {}
                complete = {(p["window_start"], p["k"]) for p in panes if p["pane"] == "on_time"}
                for pane in panes:
                    key = (pane["window_start"], pane["k"])
                    if key not in complete:
                        continue
                    total = summed.setdefault(
                        key, {"window_start": pane["window_start"], "k": pane["k"], "n": 0, "sv": None}
                    )
                    total["n"] += pane["n"]
                    if pane["sv"] is not None:
                        total["sv"] = pane["sv"] + (total["sv"] or 0)
                expected = run.models["discarding"].expected(run.watermark.at)
                assert difference(list(summed.values()), expected, DISCARDING.keys) is None
            run.check_replay_from_zero()
        finally:
            run.close()
