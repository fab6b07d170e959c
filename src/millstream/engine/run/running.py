"""Running: epochs one after the other, for a caller who waits or in the background.

Owns the two threads (live epochs, and the past of new views), the streaming queries of `source =
'spark'`, how long to sleep when there is nothing to do, and the failure that ended it. What always
holds: a failure is raised once, to whoever calls next; and an epoch that has begun is finished or
fails before `stop` returns. What an epoch does is for `epochs` and `history` to say.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from millstream.engine.define.catalog import StreamEntry, ViewEntry, read_names
from millstream.engine.run.parts import Parts
from millstream.engine.run.upkeep import Upkeep
from millstream.model.errors import MillstreamError
from millstream.plan.compute import Streaming
from millstream.sql.statements import CreateView

# The past is looked at so often when no rows announce themselves.
_LOOK_SECONDS = 0.2
# However long nothing is due, what runs looks up now and then.
_MOST_SECONDS = 1.0


class Running:
    def __init__(self, parts: Parts, upkeep: Upkeep) -> None:
        self._parts = parts
        self._upkeep = upkeep
        self._wake = threading.Condition()
        self._is_woken = False
        self._live: threading.Thread | None = None
        self._past: threading.Thread | None = None
        self._streaming: list[Streaming] = []
        self._failure: MillstreamError | None = None

    @property
    def is_running(self) -> bool:
        """Whether it was started and not stopped since; a failure may have ended it meanwhile."""
        return self._live is not None

    @property
    def failure(self) -> MillstreamError | None:
        """What ended the background, if nobody was told yet."""
        return self._failure

    def wake(self) -> None:
        """There may be something to do."""
        with self._wake:
            self._is_woken = True
            self._wake.notify_all()

    # -- for a caller who waits ----------------------------------------------------------------

    def drain(self) -> int:
        """Process everything that has arrived and what the clock has made due; the last epoch."""
        self._raise_failure()
        loop, store = self._parts.loop, self._parts.store
        if not self._streaming:
            for entry in self._pushed():
                source = self._parts.definitions.streaming_source(entry)
                source.run_available(partial(loop.run_batch, entry))
        if self._past is None or not self._past.is_alive():
            while self._parts.history.step():
                pass
        else:
            self._await_history(self._past)
        # Rows that arrive meanwhile are for the next call, or this one might never end.
        until = loop.ends()
        while loop.run(until) is not None:
            pass
        self._parts.delivery.drain()
        self._upkeep.run_if_due()
        store.settle()
        return store.last_epoch()

    def _await_history(self, thread: threading.Thread) -> None:
        """Wait until the background has read the past for all views."""
        committed = self._parts.loop.committed
        while not self._parts.history.is_done() and thread.is_alive():
            with committed:
                committed.wait(_LOOK_SECONDS)
        self._raise_failure()

    def settle(self, create: CreateView) -> None:
        """Put views in place first that are about to have other columns, if a new view reads them and nothing runs."""
        if self._past is not None:
            return
        for name in read_names(create.query):
            entry = self._parts.catalog.find(name)
            while isinstance(entry, ViewEntry) and entry.successor is not None and self._parts.history.step():
                pass

    # -- in the background ---------------------------------------------------------------------

    def start(self) -> None:
        """Process continuously until `stop`."""
        if self._live is not None and self._live.is_alive():
            return
        self._failure = None
        self._live = self._thread("millstream-epochs", self._run_epochs)
        self._live.start()
        self._past = self._thread("millstream-history", self._catch_up)
        self._past.start()
        self._parts.delivery.start()
        for entry in self._pushed():
            source = self._parts.definitions.streaming_source(entry)
            source.start(partial(self._parts.loop.run_batch, entry))
            self._streaming.append(source)

    def stop(self) -> None:
        """Stop processing; the epoch under way is finished first."""
        live, self._live = self._live, None
        past, self._past = self._past, None
        for source in self._streaming:
            source.stop()
        self._streaming.clear()
        if live is not None:
            self.wake()
            live.join()
        if past is not None:
            past.join()
        self._parts.delivery.stop()
        self._raise_failure()

    def _thread(self, name: str, work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except MillstreamError as error:
                self._failure = error
            except Exception as error:
                self._failure = MillstreamError("INTERNAL", f"{type(error).__name__}: {error}")

        return threading.Thread(target=run, name=name, daemon=True)

    def _run_epochs(self) -> None:
        me = threading.current_thread()
        loop = self._parts.loop
        while self._live is me:
            self._is_woken = False
            worked = loop.pause() == 0 and loop.run() is not None
            self._upkeep.run_if_due()
            for source in self._streaming:
                if (failure := source.failure()) is not None:
                    raise failure
            if worked:
                continue
            patience = self._patience()
            with self._wake:
                if not self._is_woken and self._live is me:
                    self._parts.clock.wait(self._wake, patience)

    def _catch_up(self) -> None:
        """Read the past for new views, beside the epochs of the others."""
        me = threading.current_thread()
        while self._past is me:
            if self._parts.history.step(beside=True):
                continue
            with self._wake:
                if self._past is me:
                    self._wake.wait(_LOOK_SECONDS)

    def _patience(self) -> float:
        """How long to sleep without a call: until a timer, or until rows or a source must be looked at."""
        loop = self._parts.loop
        limits = [_MOST_SECONDS]
        if (pause := loop.pause()) > 0:
            limits.append(pause)
        due = loop.seconds_until_due()
        if due is not None:
            limits.append(due + 0.001)
        if any(not entry.connector.announces for entry in self._parts.catalog.streams()):
            limits.append(self._parts.settings.poll_interval)
        return min(limits)

    def _pushed(self) -> list[StreamEntry]:
        """The streams whose rows Structured Streaming hands over."""
        return [entry for entry in self._parts.catalog.streams() if entry.options.pushed() is not None]

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
