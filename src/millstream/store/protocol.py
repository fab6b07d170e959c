"""What any store promises, by what the engine uses.

A store takes commands in order (`apply`) and answers readers. What always holds: a command is one transaction, all
there or nothing of it; a reader sees one epoch whole. What a command did is known before the next one is
applied. The contents of a store follow from the commands alone. Retention goes on concurrently with the commits that
follow it, and its effect is none the less what it would be if they waited. Readers may ask from any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from millstream.model.errors import MillstreamError
from millstream.model.progress import Completeness, Progress, Totals
from millstream.model.user_functions import UserFunction
from millstream.plan.nodes import View, ViewPlan
from millstream.store.commands import Command, Failure

Consumer = Callable[[Command], None]
"""Gets every command once it has been applied, in order, before the next is."""

EARLY_INCARNATION = "v4-"
"""How the incarnations begin of relations that were created before relations had one."""


class UnknownColumnError(MillstreamError):
    """A query names a column that no relation has."""

    def __init__(self, column: str) -> None:
        super().__init__(
            "UNKNOWN_COLUMN", f"there is no column {column!r} here", hint="see DESCRIBE for the columns of a view"
        )
        self.column = column


class ViewFailedError(MillstreamError):
    """One view cannot be maintained; nothing of the epoch was committed."""

    def __init__(self, view: str, error: MillstreamError) -> None:
        super().__init__(error.code, error.message, detail=error.detail, hint=error.hint, position=error.position)
        self.view = view
        """The part of a view that was being maintained."""


class Store(Protocol):
    """The transaction: merge, fire, changelog, epoch record. One implementation per backend."""

    consumer: Consumer | None
    """Who follows the sequence: nobody unless set."""

    def apply(self, command: Command) -> int:
        """Run a command, all or nothing; returns the last epoch, which is the one of a commit.

        Raises `ViewFailedError` if a view cannot be maintained.
        """

    def register_function(self, function: UserFunction) -> None:
        """Hand over the Python of a function. It belongs to the process, not to the sequence of commands."""

    def settle(self) -> None:
        """Wait until retention is done that goes on concurrently with commits."""

    def close(self) -> None: ...

    # -- what it has ---------------------------------------------------------------------------

    def statements(self) -> Sequence[tuple[str, str, str, str]]:
        """(name, kind, statement, incarnation) of every relation and function, in the order they were created."""

    def last_epoch(self) -> int: ...

    def progress(self, stream: str) -> Progress | None: ...

    def view_progress(self, view: str) -> Progress | None:
        """How far a part of a view that reads history has come; None once it has joined its stream."""

    def views_behind(self) -> Mapping[str, Progress]:
        """The parts of views that read history, and how far they have come."""

    def files(self, stream: str) -> list[str]:
        """The files of a stream that are done, in the order they were read."""

    def failures(self) -> Mapping[str, Failure]:
        """The views that stand still, by name."""

    def parts_of(self, view: str) -> list[str]:
        """The names of a view and its hidden parts."""

    def next_due_at(self, views: Sequence[View]) -> int | None:
        """When the next processing-time trigger of some views is due, if one is set."""

    def sink_position(self, sink: str) -> tuple[int, str]:
        """The epoch and the target's own mark that were noted last."""

    def kept_with(self, view: str) -> list[str]:
        """The views that are merged together with one."""

    # -- reading -------------------------------------------------------------------------------

    def read(self, query: exp.Query) -> tuple[pa.Table, int]:
        """The rows of a query, and the last epoch that they reflect.

        The query is StreamSQL that was checked already. Its relations have their names in the store; one with
        `FOR SYSTEM_TIME AS OF` is a versioned table. A column that no relation has is an `UnknownColumnError`.
        """

    def check(self, query: exp.Query) -> None:
        """Raise what `read` would raise before it looks at any row."""

    def columns(self, relation: str) -> pa.Schema:
        """The columns that readers see."""

    def preview(
        self, plan: ViewPlan, deltas: Mapping[str, pa.Schema], now: int, instead_of: Sequence[str]
    ) -> pa.Schema:
        """The columns that a view would have if it were created instead of some parts. Nothing is changed."""

    def changes(self, view: str, since: int, until: int | None = None, limit: int | None = None) -> pa.Table:
        """The changelog after epoch `since`, up to epoch `until`; -1 means all that is kept.

        With a limit, whole epochs are returned: as many as have together no more rows than that, but at least one.
        """

    def completeness(self, view: View) -> Completeness | None:
        """How complete the windows of a view were when they fired; None as long as none has."""

    def epochs(self, since: int = 0) -> pa.Table:
        """The records of the epochs after one, in order."""

    def totals(self) -> Totals: ...
