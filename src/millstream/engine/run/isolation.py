"""Isolation: a view that cannot be maintained stands still, and every other view goes on.

Owns which views stand still: those that the store has as failed or blocked, and those found since the last commit.
What always holds: a view stands still as a whole, with its hidden parts, and so does every view that reads it. An
epoch has no share of it; its contents stay those of its last epoch. Must not recover a view: `backfill` does that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from millstream.engine.define.catalog import SUCCESSOR, Catalog, StreamEntry, ViewEntry, read_names
from millstream.model.errors import MillstreamError, own_fault
from millstream.model.progress import Progress
from millstream.plan.nodes import VERSIONS, QueryView, ViewPlan
from millstream.sql.statements import CreateView
from millstream.store.commands import Commit, Failure
from millstream.store.protocol import Store

T = TypeVar("T")


def view_of(part: str) -> str:
    """The view that a part belongs to; one that is being built counts as a view.

    >>> view_of("v$2"), view_of("v~$1"), view_of("v")
    ('v', 'v~', 'v')
    """
    return re.sub(r"\$\d+$", "", part.removesuffix(VERSIONS))


@dataclass(frozen=True, slots=True)
class Found:
    """A view that failed since the last commit."""

    statement: CreateView
    """What failed: another definition of the same name may not."""
    error: MillstreamError
    state: Literal["failed", "blocked"] = "failed"


@dataclass(slots=True)
class Isolation:
    catalog: Catalog
    store: Store
    _found: dict[str, Found] = field(default_factory=dict)

    # -- who stands still ----------------------------------------------------------------------

    def stands_still(self, view: str) -> bool:
        return view in self.store.failures() or view in self._found

    def has_news(self) -> bool:
        """Whether views have failed that no commit has recorded."""
        for view, found in list(self._found.items()):
            if found.statement is not self._statement(view):
                del self._found[view]
        return bool(self._found)

    def failure(self, view: str) -> Failure | None:
        """Why a view stands still, if it does."""
        found = self._found.get(view)
        return self._failure(view, found, 0) if found is not None else self.store.failures().get(view)

    def blocking(self, view: str) -> str | None:
        """A view that stands still and is read by this one."""
        if not self._found and not self.store.failures():
            return None
        return next((name for name in sorted(self._reads(view)) if self.stands_still(name)), None)

    # -- finding out ---------------------------------------------------------------------------

    def attempt(self, view: str, make: Callable[[], T]) -> T | None:
        """What `make` returns for a view; None if the view stands still, or does from now on."""
        if self.stands_still(view):
            return None
        if (cause := self.blocking(view)) is not None:
            self._note(view, _blocked_by(cause), "blocked")
            return None
        try:
            return make()
        except Exception as error:
            self._confine(view, error)
            return None

    @contextmanager
    def confined(self, view: str) -> Iterator[None]:
        """If the block fails and the view is at fault, it stands still from now on."""
        try:
            yield
        except Exception as error:
            self._confine(view, error)

    def _confine(self, view: str, error: Exception) -> None:
        fault = own_fault(error)
        if fault is None:
            raise error
        self.fail(view, fault)

    def fail(self, view: str, error: MillstreamError) -> None:
        """Let a view stand still from now on; the next commit records it."""
        self._note(view, error, "failed")

    def _note(self, view: str, error: MillstreamError, state: Literal["failed", "blocked"]) -> None:
        statement = self._statement(view)
        if statement is None:
            # Nobody could be told of it.
            raise error
        self._found[view] = Found(statement, error, state)

    # -- committing ----------------------------------------------------------------------------

    def without(self, part: Commit) -> Commit:
        """An epoch without the views that were found to fail, and without those that read them."""
        if not self.has_news():
            return part
        queries = [query.view for query in part.queries if isinstance(query.view, QueryView)]
        while blocked := {
            view: cause
            for query in queries
            if (view := view_of(query.name)) not in self._found
            for cause in [view_of(input_.relation) for input_ in query.inputs]
            if cause in self._found
        }:
            for view, cause in blocked.items():
                self._note(view, _blocked_by(cause), "blocked")
        failed = {view: self._failure(view, found, part.now) for view, found in self._found.items()}
        return replace(
            part,
            views=[view for view in part.views if view_of(view.view.name) not in failed],
            queries=[query for query in part.queries if view_of(query.view.name) not in failed],
            kept=[rows for rows in part.kept if view_of(rows.view.name) not in failed],
            swaps=[swap for swap in part.swaps if view_of(swap.built[-1]) not in failed],
            failed=failed,
        )

    def committed(self, part: Commit) -> None:
        """Note that the store has recorded the failures of an epoch."""
        for view in part.failed:
            self._found.pop(view, None)

    def _failure(self, view: str, found: Found, now: int) -> Failure:
        error, epoch = found.error, self.store.last_epoch() + 1
        return Failure(found.state, error.code, error.message, error.detail, epoch, self._position(view), now)

    def _position(self, view: str) -> dict[str, dict[int, int]]:
        """How far a view has read its streams."""
        plan = self._plan(view)
        parts = {part.stream: part.name for part in plan.on_spark} if plan is not None else {}
        position = {}
        for name in self._reads(view):
            if isinstance(self.catalog.find(name), StreamEntry):
                behind = self.store.view_progress(parts.get(name, ""))
                position[name] = dict((behind or self.store.progress(name) or Progress()).offsets)
        return position

    # -- the catalog ---------------------------------------------------------------------------

    def _entry(self, view: str) -> ViewEntry | None:
        entry = self.catalog.find(view.removesuffix(SUCCESSOR))
        return entry if isinstance(entry, ViewEntry) else None

    def _statement(self, view: str) -> CreateView | None:
        entry = self._entry(view)
        if entry is None or not view.endswith(SUCCESSOR):
            return entry.statement if entry is not None else None
        return entry.successor.statement if entry.successor is not None else None

    def _plan(self, view: str) -> ViewPlan | None:
        """The plan of a view, if it was made."""
        entry = self._entry(view)
        if entry is None or not view.endswith(SUCCESSOR):
            return entry.plan if entry is not None else None
        return entry.successor.made if entry.successor is not None else None

    def _reads(self, view: str) -> set[str]:
        """The relations that a view reads. Asks nothing of Spark."""
        if (plan := self._plan(view)) is not None:
            return plan.reads()
        statement = self._statement(view)
        entries = [self.catalog.find(name) for name in read_names(statement.query)] if statement is not None else []
        return {entry.name for entry in entries if entry is not None}


def _blocked_by(view: str) -> MillstreamError:
    return MillstreamError("VIEW_BLOCKED", f"it reads {view}, which stands still")
