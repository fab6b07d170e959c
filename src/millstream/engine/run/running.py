"""Running: epochs one after the other, for a caller who waits or in the background.

Owns the threads (live epochs, the past of new views, and the watch over streaming queries) and how long to sleep when
there is nothing to do. What always holds: a failure ends no thread. It is noted, and the work is tried again, later
each time; it is visible as long as it lasts, and raised at most once. An epoch that has begun is finished or
fails before `stop` returns. What an epoch does is for `epochs` and `history` to say.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from millstream.engine.define.catalog import ViewEntry, read_names
from millstream.engine.run.health import HistoryFailedError, SourceFailedError, in_our_words
from millstream.engine.run.parts import Parts
from millstream.engine.run.queries import Queries
from millstream.engine.run.upkeep import Upkeep
from millstream.model.errors import MillstreamError
from millstream.sources import Offsets
from millstream.sql.statements import CreateView

# The past is looked at so often when no rows announce themselves.
_LOOK_SECONDS = 0.2
# However long nothing is due, what runs looks up now and then.
_MOST_SECONDS = 1.0
# A failure of a thread is followed by a pause, twice as long each time.
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 30.0


@dataclass(slots=True)
class Work:
    """The repeated work of a thread, and its current run of failures."""

    name: str
    step: Callable[[], bool]
    """Returns False if there is nothing to do."""
    thread: threading.Thread | None = None
    failure: MillstreamError | None = None
    is_told: bool = False
    """Whether a caller was told of the failure."""
    pause_seconds: float = 0.0
    asked: int = 0
    """The number of callers who have waited until nothing is left to do."""
    answered: int = 0
    """The last of them whose wait is over."""

    def failed(self, error: Exception) -> None:
        if self.failure is None:
            self.is_told = False
        self.failure = in_our_words(error)
        self.pause_seconds = min(max(_FIRST_PAUSE_SECONDS, 2 * self.pause_seconds), _LONGEST_PAUSE_SECONDS)

    def succeeded(self) -> None:
        self.failure, self.pause_seconds = None, 0.0


class Running:
    def __init__(self, parts: Parts, upkeep: Upkeep) -> None:
        self._parts = parts
        self._upkeep = upkeep
        self._queries = Queries(parts)
        self._wake = threading.Condition()
        self._is_woken = False
        self._stopped = threading.Event()
        self._is_running = False
        self._live = Work("epochs", self._run_epoch)
        self._past = Work("history", partial(self._read_history, beside=True))
        self._pushed = Work("queries", self._look_after_queries)
        self._kept = Work("upkeep", self._upkeep.run_if_due)

    @property
    def is_running(self) -> bool:
        """Whether it was started and not stopped since."""
        return self._is_running

    @property
    def failure(self) -> MillstreamError | None:
        """What the background fails at; it is tried again."""
        failures = (work.failure for work in (self._live, self._past, self._pushed, self._kept))
        return next((error for error in failures if error is not None), None) or self._parts.history.failure()

    def wake(self) -> None:
        """There may be something to do."""
        with self._wake:
            self._is_woken = True
            self._wake.notify_all()

    def reconcile(self) -> None:
        """Start the queries of new streams and stop those of dropped ones, if the database runs."""
        self._queries.reconcile()

    # -- for a caller who waits ----------------------------------------------------------------

    def drain(self) -> int:
        """Process everything that has arrived and what the clock has made due; the last epoch.

        What cannot be read stops nothing else: it is raised when all else is done.
        """
        loop, store, history = self._parts.loop, self._parts.store, self._parts.history
        asked = loop.health.retry_all()
        history.health.retry_all()
        if self._is_running:
            self._queries.reconcile()
            self._await_history()
        else:
            self._queries.run_available()
            while self._read_history():
                pass
        # Rows that arrive meanwhile are for the next call, or this one might never end.
        self._run_until(loop.ends())
        self._live.succeeded()
        self._parts.delivery.drain()
        self._keep_up()
        store.settle()
        self._tell()
        errors = [loop.health.error_since(entry.incarnation, asked) for entry in self._parts.catalog.streams()]
        for error in (*errors, history.failure()):
            if error is not None:
                raise error
        return store.last_epoch()

    def _run_until(self, until: Mapping[str, Offsets]) -> None:
        """Run epochs up to some offsets, without streams that cannot be read."""
        loop = self._parts.loop
        while True:
            try:
                if loop.run(until) is None:
                    return
            except SourceFailedError:
                # It is noted, and left out below once it rests.
                pass
            resting = {entry.name for entry in self._parts.catalog.streams() if loop.health.rests(entry.incarnation)}
            until = {name: end for name, end in until.items() if name not in resting}

    def _read_history(self, *, beside: bool = False) -> bool:
        """Read a slice of the past for a new view. Returns False if there is nothing that can be read now."""
        try:
            return self._parts.history.step(beside=beside)
        except HistoryFailedError:
            # It rests at the latest after its second attempt.
            return True

    def _await_history(self) -> None:
        """Wait until the background has read the past for all views, as far as it can be read."""
        committed, past = self._parts.loop.committed, self._past
        past.asked += 1
        mine = past.asked
        self.wake()
        with committed:
            while self._is_running and past.answered < mine:
                committed.wait(_LOOK_SECONDS)

    def settle(self, create: CreateView) -> None:
        """Finish pending replacements of the views that `create` reads, unless running."""
        if self._is_running:
            return
        for name in read_names(create.query):
            entry = self._parts.catalog.find(name)
            while isinstance(entry, ViewEntry) and entry.successor is not None and self._read_history():
                pass

    # -- in the background ---------------------------------------------------------------------

    def start(self) -> None:
        """Process continuously until `stop`."""
        if self._is_running:
            return
        self._is_running = True
        self._stopped.clear()
        self._kept.succeeded()
        for work in (self._live, self._past):
            self._begin(work)
        self._parts.delivery.start()
        self._queries.start()
        self._begin(self._pushed)

    def stop(self) -> None:
        """Stop processing; the epoch under way is finished first. Raises a failure that nobody was told of."""
        self._is_running = False
        threads = [work.thread for work in (self._live, self._past, self._pushed) if work.thread is not None]
        for work in (self._live, self._past, self._pushed):
            work.thread = None
        self._stopped.set()
        self._queries.stop()
        self.wake()
        for thread in threads:
            thread.join()
        self._parts.delivery.stop()
        self._tell()

    def _tell(self) -> None:
        """Raise the failures that nobody was told of, as one."""
        untold = [each for each in (self._live, self._past, self._pushed, self._kept) if not each.is_told]
        failures = [work.failure for work in untold if work.failure is not None]
        for work in untold:
            work.is_told = True
        if failures:
            raise failures[0]

    def _begin(self, work: Work) -> None:
        work.succeeded()
        work.thread = threading.Thread(target=self._go_on, args=(work,), name=f"millstream-{work.name}", daemon=True)
        work.thread.start()

    def _go_on(self, work: Work) -> None:
        """Do the work of a thread until `stop`, whatever fails."""
        me = threading.current_thread()
        while work.thread is me:
            asked = work.asked
            try:
                if work.step():
                    work.succeeded()
                    continue
                work.succeeded()
            except Exception as error:
                work.failed(error)
            self._answer(work, asked)
            if work.failure is not None:
                self._rest(work, me, asked)
            elif work is self._pushed:
                self._stopped.wait(_MOST_SECONDS)
            else:
                self._sleep(work, me)

    def _answer(self, work: Work, asked: int) -> None:
        """Tell those who wait that there is nothing to do, or that it fails."""
        if work.answered < asked:
            with self._parts.loop.committed:
                work.answered = asked
                self._parts.loop.committed.notify_all()

    def _rest(self, work: Work, me: threading.Thread, asked: int) -> None:
        """Pause after a failure: until `stop`, until somebody waits, or until it is known to be over."""
        until = time.monotonic() + work.pause_seconds
        with self._wake:
            while work.thread is me and work.asked == asked and work.failure is not None:
                left = until - time.monotonic()
                if left <= 0:
                    return
                self._wake.wait(left)

    def _sleep(self, work: Work, me: threading.Thread) -> None:
        """Wait until there may be something to do."""
        patience = self._patience() if work is self._live else _LOOK_SECONDS
        with self._wake:
            if work.thread is not me:
                return
            if work is not self._live:
                self._wake.wait(patience)
            elif not self._is_woken:
                self._parts.clock.wait(self._wake, patience)

    def _run_epoch(self) -> bool:
        """One round of live processing."""
        self._is_woken = False
        loop = self._parts.loop
        try:
            worked = loop.pause() == 0 and loop.run() is not None
        except SourceFailedError:
            # It rests at the latest after its second attempt.
            worked = True
        self._keep_up()
        return worked

    def _look_after_queries(self) -> bool:
        self._queries.reconcile()
        return False

    def _keep_up(self) -> None:
        """Do upkeep if it is due; a failure of it stops nothing else."""
        try:
            if self._kept.step():
                self._kept.succeeded()
        except Exception as error:
            self._kept.failed(error)

    def _patience(self) -> float:
        """How long to sleep without a call: until a timer, or until rows or a source must be looked at."""
        loop = self._parts.loop
        limits = [_MOST_SECONDS]
        if (pause := loop.pause()) > 0:
            limits.append(pause)
        due = loop.seconds_until_due()
        if due is not None:
            # What is due and yet did not happen waits for something else.
            limits.append(due + 0.001 if due > 0 else _LOOK_SECONDS)
        if any(not entry.connector.announces for entry in self._parts.catalog.streams()):
            limits.append(self._parts.settings.poll_interval)
        return min(limits)
