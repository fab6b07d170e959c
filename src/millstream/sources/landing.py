"""Landing: the way into the log for sources that cannot replay.

Owns the append and its retries. What always holds: `acknowledge` is called once the rows are
durable, and never before; while the log cannot write, the caller is held back and `failure` says
why. A source subclasses `LandingSource`, reads in threads of its own and calls `land`; from there
on its rows are those of a stream of the log. Must not decode rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pyarrow as pa

from millstream.log import Topic
from millstream.model.errors import MillstreamError, as_ours
from millstream.model.schema import Schema
from millstream.model.time import Clock
from millstream.sources.log import LogOptions, LogSource

RETRY_SECONDS = 0.5
_JOIN_SECONDS = 10


class LandingSource(LogSource):
    """A source of the log that its own threads feed."""

    def __init__(self, topic: Topic, schema: Schema, options: LogOptions, clock: Clock) -> None:
        super().__init__(topic, schema, options, clock)
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._failure: MillstreamError | None = None

    @property
    def failure(self) -> MillstreamError | None:
        return self._failure

    def serve(self, name: str, work: Callable[[], None]) -> None:
        """Call `work` in a thread, again and again until `close`; it returns or raises when it cannot go on."""

        def run() -> None:
            while not self._stopping.is_set():
                try:
                    work()
                except Exception as error:
                    self._failure = as_ours(error)
                self._stopping.wait(RETRY_SECONDS)

        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def recovered(self) -> None:
        """Rows can arrive again."""
        self._failure = None

    def land(
        self,
        rows: pa.Table,
        acknowledge: Callable[[], None] = lambda: None,
        message_ids: Sequence[str | None] | None = None,
    ) -> bool:
        """Append rows, then acknowledge them to the sender. Returns False if the source was closed before.

        An append that fails is tried again until it succeeds: a full disk holds the sender back.
        """
        while not self._stopping.is_set():
            try:
                self.topic.append(rows, message_ids=message_ids)
            except MillstreamError as error:
                self._failure = error
                self._stopping.wait(RETRY_SECONDS)
                continue
            self._failure = None
            acknowledge()
            return True
        return False

    def land_lines(self, lines: Sequence[bytes], acknowledge: Callable[[], None] = lambda: None) -> bool:
        """Append lines that are decoded when they are processed."""
        return self.land(pa.table({"_raw": pa.array(lines, pa.binary())}), acknowledge)

    def close(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(timeout=_JOIN_SECONDS)
