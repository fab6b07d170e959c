"""The streaming queries of `source = 'spark'`: one for each such stream while the database runs.

Owns starting, stopping and restarting them. What always holds: at most one query uses a checkpoint, which stays
until that query has ended. A query that fails is started again, later each time. `reconcile` must not be
called by a holder of the loop's lock: a query ends after its batch, which waits for that lock.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from millstream.engine.define.catalog import StreamEntry
from millstream.engine.run.parts import Parts
from millstream.model.errors import LostPartError
from millstream.model.recovery import again
from millstream.plan.compute import Streaming

_HEALTHY_SECONDS = 5.0
"""A query that has run for so long has recovered, whether it brought rows or not."""


@dataclass(frozen=True, slots=True)
class Query:
    entry: StreamEntry
    source: Streaming
    started_at: float


@dataclass(slots=True)
class Queries:
    parts: Parts
    _mutex: threading.Lock = field(default_factory=threading.Lock)
    _running: dict[str, Query] = field(default_factory=dict)
    """By incarnation."""
    _is_wanted: bool = False

    def start(self) -> None:
        """Have queries run from now on."""
        self._is_wanted = True
        self.reconcile()

    def stop(self) -> None:
        """Stop all queries; their batches are finished first."""
        self._is_wanted = False
        self.reconcile()

    def reconcile(self) -> None:
        """Have a query for each stream that needs one, and no other; those that ended begin again."""
        with self._mutex:
            wanted = {entry.incarnation: entry for entry in self._pushed()} if self._is_wanted else {}
            for query in list(self._running.values()):
                self._look_after(query, is_wanted=query.entry.incarnation in wanted)
            health = self.parts.loop.health
            for entry in wanted.values():
                if entry.incarnation not in self._running and not health.rests(entry.incarnation):
                    self._begin(entry)

    def run_available(self) -> None:
        """Take what sources have now, for a caller who waits. Their failures are noted."""
        with self._mutex:
            for entry in self._pushed():
                if entry.incarnation in self._running:
                    continue
                source = self._opened(entry)
                try:
                    again(partial(source.run_available, partial(self.parts.loop.run_batch, entry)))
                    self.parts.loop.health.recovered(entry.incarnation)
                except Exception as error:
                    self.parts.loop.health.fail(entry.incarnation, error)
                finally:
                    self._ended(entry)

    def _look_after(self, query: Query, *, is_wanted: bool) -> None:
        """Stop a query that is no longer wanted, or that failed."""
        entry, health = query.entry, self.parts.loop.health
        failure = query.source.failure() if is_wanted else None
        if is_wanted and failure is None:
            if time.monotonic() - query.started_at >= _HEALTHY_SECONDS:
                health.recovered(entry.incarnation)
            return
        del self._running[entry.incarnation]
        try:
            query.source.stop()
        finally:
            self._ended(entry)
        # A query that was lost with Spark begins again at once.
        if failure is not None and not isinstance(failure, LostPartError):
            health.fail(entry.incarnation, failure)

    def _begin(self, entry: StreamEntry) -> None:
        source = self._opened(entry)
        # Before it starts, because it may deliver at once.
        self._running[entry.incarnation] = Query(entry, source, time.monotonic())
        try:
            again(partial(source.start, partial(self.parts.loop.run_batch, entry)))
        except Exception as error:
            del self._running[entry.incarnation]
            with suppress(Exception):
                source.stop()
            self._ended(entry)
            self.parts.loop.health.fail(entry.incarnation, error)

    def _opened(self, entry: StreamEntry) -> Streaming:
        definitions = self.parts.definitions
        definitions.holdings.in_use.add(entry.incarnation)
        return definitions.streaming_source(entry)

    def _ended(self, entry: StreamEntry) -> None:
        """Release the checkpoint of a query; that of a stream that is gone is removed."""
        holdings, loop = self.parts.definitions.holdings, self.parts.loop
        holdings.in_use.discard(entry.incarnation)
        if not self.parts.catalog.has(entry):
            with loop.lock:
                holdings.sweep()

    def _pushed(self) -> list[StreamEntry]:
        """The streams whose rows Structured Streaming hands over."""
        return [entry for entry in self.parts.catalog.streams() if entry.options.pushed() is not None]
