"""The connection: a program's way into a database."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from millstream.api.outcomes import Outcome
from millstream.api.result import Result
from millstream.api.rows import Lines, MessageIds, Parameters, Rows
from millstream.api.starts import Starts
from millstream.api.status import Status
from millstream.api.subscription import Subscription
from millstream.api.topics import Topics


class Running(Protocol):
    """Processing: on demand, or continuously in the background of the engine."""

    def warm_up(self) -> None:
        """Start whatever processing needs and wait for it. Statements that need it do so themselves."""

    def drain(self) -> int:
        """Process everything that has arrived and what the clock has made due; returns the last epoch."""

    def is_caught_up(self) -> bool:
        """Whether `drain` would find no row to read, as far as sources can tell. Starts no Spark job."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def wait_for_epoch(self, after: int, timeout_seconds: float) -> int:
        """Wait until an epoch later than `after` is committed, or the time is over; returns the last epoch."""


class Connection(Running, Protocol):
    """One client of a database. Every method raises `MillstreamError` and nothing else."""

    # -- statements ----------------------------------------------------------------------------

    def execute(self, text: str, parameters: Parameters = (), *, source: str = "<sql>") -> list[Outcome]:
        """Run statements in order, up to the first error; one outcome per statement.

        `source` names the text in the positions of errors. `parameters` are the values of the `?` in it.
        """

    def apply(self, script: str, *, source: str = "<sql>", starts: Starts = ...) -> list[Outcome]:
        """Run a script that may have run before: a CREATE whose object is there unchanged is skipped.

        A CREATE that differs from its object is refused, unless it says OR REPLACE or IF NOT EXISTS. `starts` says
        where streams begin that were not read yet.
        """

    def sql(self, text: str, parameters: Parameters = (), *, source: str = "<sql>") -> Result | Subscription | None:
        """Like `execute`, but returns only the rows or changes of the last statement, if it has any."""

    def query(self, text: str, parameters: Parameters = ()) -> Result:
        """The rows of one SELECT, as of the last committed epoch."""

    # -- rows ----------------------------------------------------------------------------------

    def insert(self, name: str, rows: Rows, *, message_ids: MessageIds | None = None) -> int:
        """Append rows to a stream or upsert them into a table; returns the accepted rows, once durable."""

    def delete(self, name: str, keys: Rows, *, message_ids: MessageIds | None = None) -> int:
        """Delete rows of a table by primary key; returns the accepted keys, once durable."""

    def insert_lines(self, name: str, lines: Lines, *, message_ids: MessageIds | None = None) -> int:
        """Append undecoded lines, in the stream's format."""

    @property
    def topics(self) -> Topics: ...

    # -- changes and state ---------------------------------------------------------------------

    def changes(
        self, view: str, since_epoch: int = 0, *, until_epoch: int | None = None, limit: int | None = None
    ) -> Result:
        """The changelog of a view after an epoch, up to and with another; 0 means from its beginning.

        With `limit`, whole epochs from the oldest on while they fit, and always at least one.
        """

    def subscribe(self, view: str, from_epoch: int = 0) -> Subscription:
        """The changes of a view from an epoch on, as they are committed, without loss or repeats."""

    def epochs(self, since_epoch: int = 0) -> Result:
        """The records of the epochs after one, oldest first, with the columns of SHOW EPOCHS."""

    def status(self) -> Status: ...

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
