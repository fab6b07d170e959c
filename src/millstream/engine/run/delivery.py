"""Delivery: brings the changelogs of views to their sinks.

Owns the threads, one per sink while the database runs, and the back-off of a sink that fails. What
always holds: whole epochs, in order, after they are committed; a position is acknowledged in the store
after the target has the changes. Delivery holds no lock that an epoch waits for, except for the short
transaction of an acknowledgement. A failing sink is retried and stops nothing else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from millstream.engine.define.catalog import SinkEntry
from millstream.engine.define.sinks import Sinks
from millstream.model.errors import MillstreamError, as_ours
from millstream.sinks import Position
from millstream.store.commands import Acknowledge
from millstream.store.protocol import Store

# The target is asked at the next start, so an acknowledgement may wait; each one is a transaction.
_ACKNOWLEDGE_SECONDS = 1.0
_FIRST_RETRY_SECONDS = 0.5
_LAST_RETRY_SECONDS = 30.0


@dataclass(slots=True)
class Delivery:
    sinks: Sinks
    store: Store
    committed: threading.Condition
    """Notified after each epoch."""
    _threads: dict[str, threading.Thread] = field(default_factory=dict)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _is_running: bool = False

    def drain(self) -> None:
        """Deliver and acknowledge what is due, once for each sink; failures are noted, not raised."""
        for entry in list(self.sinks.catalog.sinks.values()):
            self.deliver(entry)

    def deliver(self, entry: SinkEntry, acknowledge_seconds: float = 0.0, acknowledged_at: float = 0.0) -> float:
        """Deliver what is due; returns when the last acknowledgement was, in monotonic seconds."""
        with entry.lock:
            if entry.is_dropped:
                return acknowledged_at
            try:
                self._deliver(entry)
                now = time.monotonic()
                if now - acknowledged_at >= acknowledge_seconds:
                    self._acknowledge(entry)
                    acknowledged_at = now
                entry.failure = None
            except Exception as error:
                self._fail(entry, as_ours(error))
        return acknowledged_at

    def _deliver(self, entry: SinkEntry) -> None:
        if entry.sink is None:
            entry.sink = entry.connector.open(entry.options, self.sinks.opening(entry.statement))
            entry.delivered = entry.sink.position(entry.acknowledged)
            entry.reached = entry.delivered.epoch
        last = self.store.last_epoch()
        if last <= entry.reached:
            return
        for epoch, changes in by_epoch(self.store.changes(entry.view, entry.reached)):
            entry.delivered = entry.sink.deliver(epoch, changes)
            entry.reached = epoch
        entry.reached = max(entry.reached, last)

    def _acknowledge(self, entry: SinkEntry) -> None:
        position: Position = entry.delivered
        if position == entry.acknowledged or entry.sink is None:
            return
        self.store.apply(Acknowledge(entry.name, position.epoch, position.target))
        entry.acknowledged = position
        entry.sink.acknowledge(position)

    def _fail(self, entry: SinkEntry, error: MillstreamError) -> None:
        """Note a failure. What the target has is not known now: it is opened and asked again."""
        entry.failure = error
        self._close(entry)

    def _close(self, entry: SinkEntry) -> None:
        sink, entry.sink = entry.sink, None
        if sink is not None:
            # A target that fails may fail here too; delivery goes on all the same.
            with suppress(Exception):
                sink.close()

    # -- in the background ---------------------------------------------------------------------

    def start(self) -> None:
        """Deliver continuously until `stop`."""
        self._stopping.clear()
        self._is_running = True
        for entry in list(self.sinks.catalog.sinks.values()):
            self.add(entry)

    def add(self, entry: SinkEntry) -> None:
        """Begin to deliver to a new sink, if the database runs."""
        key = entry.name.lower()
        if self._is_running and key not in self._threads:
            thread = threading.Thread(target=self._run, args=(entry,), name=f"millstream-sink-{key}", daemon=True)
            self._threads[key] = thread
            thread.start()

    def remove(self, entry: SinkEntry) -> None:
        """End the delivery to a sink that is to be dropped."""
        with entry.lock:
            entry.is_dropped = True
            self._close(entry)
        self._wake()
        thread = self._threads.pop(entry.name.lower(), None)
        if thread is not None:
            thread.join()

    def stop(self) -> None:
        """Stop the threads; a delivery under way is finished and acknowledged first."""
        self._is_running = False
        self._stopping.set()
        self._wake()
        threads = list(self._threads.values())
        self._threads.clear()
        for thread in threads:
            thread.join()

    def close(self) -> None:
        for entry in list(self.sinks.catalog.sinks.values()):
            with entry.lock:
                self._close(entry)

    def _wake(self) -> None:
        with self.committed:
            self.committed.notify_all()

    def _run(self, entry: SinkEntry) -> None:
        acknowledged_at, retry = 0.0, _FIRST_RETRY_SECONDS
        while not self._stopping.is_set() and not entry.is_dropped:
            acknowledged_at = self.deliver(entry, _ACKNOWLEDGE_SECONDS, acknowledged_at)
            if entry.failure is not None:
                self._pause(entry, retry)
                retry = min(2 * retry, _LAST_RETRY_SECONDS)
                continue
            retry = _FIRST_RETRY_SECONDS
            with self.committed:
                self.committed.wait_for(
                    lambda: self._stopping.is_set() or entry.is_dropped or self.store.last_epoch() > entry.reached,
                    timeout=_ACKNOWLEDGE_SECONDS,
                )
        if entry.failure is None:
            self.deliver(entry)

    def _pause(self, entry: SinkEntry, seconds: float) -> None:
        with self.committed:
            self.committed.wait_for(lambda: self._stopping.is_set() or entry.is_dropped, timeout=seconds)


def by_epoch(changes: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The changes of each epoch, in order."""
    epochs, starts = np.unique(changes.column("epoch").to_numpy(), return_index=True)
    for number, epoch in enumerate(epochs):
        start = int(starts[number])
        end = int(starts[number + 1]) if number + 1 < len(starts) else changes.num_rows
        yield int(epoch), changes.slice(start, end - start)
