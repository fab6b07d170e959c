"""Which view an error in a commit belongs to, and what is recorded of views that stand still."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from millstream.model.errors import MillstreamError, UnavailableError
from millstream.model.progress import BEGINNING
from millstream.store.commands import Commit, Failure, ViewPart
from millstream.store.duckdb.failures import Blame, SharedFailedError
from millstream.store.duckdb.store import DuckDBStore
from millstream.store.protocol import ViewFailedError

from .test_shelves import Views, delta_of
from .test_store import delta

FAILURE = Failure("failed", "INVALID_QUERY", "no number", None, 2, {"bids": {0: 7, 1: 0}}, 5)


def fail(error: BaseException, *named: tuple[str, ...]) -> None:
    """Raise an error after views were named."""
    with Blame() as blame:
        for views in named:
            blame.on(*views)
        raise error


@pytest.mark.parametrize(
    "error", [duckdb.ConversionException("no number"), KeyError("k"), MillstreamError("INTERNAL", "x")]
)
def test_what_one_view_raises_is_its_fault(error: Exception) -> None:
    with pytest.raises(ViewFailedError) as failed:
        fail(error, ("a",), ("b",))
    assert failed.value.view == "b"


@pytest.mark.parametrize(
    "error",
    [
        duckdb.OutOfMemoryException("out of memory"),
        duckdb.IOException("No space left on device"),
        duckdb.InterruptException("interrupted"),
        duckdb.FatalException("invalidated"),
        UnavailableError("DISK_FULL", "full"),
        OSError(28, "no space"),
        MemoryError(),
        KeyboardInterrupt(),
    ],
)
def test_what_everything_needs_is_no_views_fault(error: BaseException) -> None:
    with pytest.raises(type(error)):
        fail(error, ("a",))


def test_of_several_views_none_is_blamed_alone() -> None:
    with pytest.raises(SharedFailedError) as failed:
        fail(KeyError("k"), ("a", "b"))
    assert failed.value.views == ("a", "b")


def test_an_error_outside_of_any_view_stays_what_it_is() -> None:
    with pytest.raises(KeyError):
        fail(KeyError("k"), ("a",), ())


def test_the_others_of_a_shelf_go_on_and_are_together_again(tmp_path: Path) -> None:
    views = Views(tmp_path)
    for name in ("k0", "k1", "k2"):
        views.create(name)
    views.epoch({name: delta((1, 0, 2, 10)) for name in views.views})
    assert views.shelves() == [{"k0", "k1", "k2"}]
    before = views.seen()["k1"]
    parts = [ViewPart(view, delta_of(view, delta((2, 0, 1, 1))), BEGINNING, BEGINNING) for view in views.views.values()]
    parts[1] = ViewPart(parts[1].view, parts[1].delta.drop_columns(["__a1"]), BEGINNING, BEGINNING)  # type: ignore[union-attr]
    with pytest.raises(ViewFailedError) as failed:
        views.store.apply(Commit(0, [], parts))
    assert failed.value.view == "k1"
    views.store.apply(Commit(0, [], [parts[0], parts[2]], failed={"k1": FAILURE}))
    assert views.shelves() == [{"k0", "k2"}]
    assert views.store.failures() == {"k1": FAILURE}
    assert views.seen()["k1"] == before
    for name in ("k0", "k2"):
        assert views.store.query(f"SELECT n_{name} AS n FROM {name} ORDER BY n").column("n").to_pylist() == [1, 2]


def test_a_failure_outlives_a_restart_and_ends_with_its_view(tmp_path: Path) -> None:
    views = Views(tmp_path)
    views.create("k0")
    views.store.apply(Commit(0, [], [], failed={"k0": FAILURE}))
    views.reopen()
    assert views.store.failures() == {"k0": FAILURE}
    views.drop("k0")
    assert views.store.failures() == {}
    views.reopen()
    assert views.store.failures() == {}
    views.store.close()


def test_the_parts_of_a_view_are_found_by_its_name(tmp_path: Path) -> None:
    store = DuckDBStore(tmp_path / "store.duckdb", "500MB")
    with store._writer.transaction() as txn:
        for table in (
            "v.rows",
            "v$1.rows",
            "v$1.state",
            "v$12.rows",
            "v~$1.rows",
            "v$x.rows",
            "w$1.rows",
            "v$1$2.rows",
        ):
            txn.execute(f'CREATE TABLE ms."{table}" (a INTEGER)')
    assert store.parts_of("v") == ["v", "v$1", "v$12"]
    assert store.parts_of("v~") == ["v~", "v~$1"]
    store.close()
