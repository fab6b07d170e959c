"""Upkeep: retention in the store, retention and compaction of the log's topics.

Owns when it is done and how far it may go. What always holds: a row that a stream, or a view that
reads its past, has still to read is kept; retention is due by time alone, whether rows arrive or not; and it
takes turns with epochs and definitions, so that what it works on cannot be dropped meanwhile. A topic that
cannot be looked after stops no other: it is raised when all else is done.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from millstream.engine.define.catalog import StreamEntry
from millstream.engine.run.parts import Parts
from millstream.log import Topic
from millstream.model.progress import Progress
from millstream.store.commands import Retain

_EVERY_SECONDS = 60.0
# In processing time.
_RETAIN_EVERY = 60 * 1_000_000


@dataclass(slots=True)
class Upkeep:
    parts: Parts
    _done_at: float = field(init=False, default_factory=time.monotonic)
    _retained_at: int | None = field(init=False, default=None)

    def run_if_due(self) -> bool:
        """Do what `run` does, about once a minute. Returns True if something was due."""
        now = self.parts.clock.now()
        retains = self._retained_at is None or now - self._retained_at >= _RETAIN_EVERY
        if retains:
            self._retain(now)
        looks = time.monotonic() - self._done_at >= _EVERY_SECONDS
        if looks:
            self._look_after_topics()
        return retains or looks

    def run(self) -> None:
        """Apply all retention and compact the topics of tables."""
        self._retain(self.parts.clock.now())
        self._look_after_topics()

    def _retain(self, now: int) -> None:
        """Delete what has expired in the store: of every view and stream, busy or not."""
        self._retained_at = now
        with self.parts.loop.lock:
            views = [part for plan in self.parts.loop.plans() for part in plan.parts]
            self.parts.store.apply(Retain(now, views, [entry.stream for entry in self.parts.catalog.streams()]))

    def _look_after_topics(self) -> None:
        self._done_at = time.monotonic()
        read = dict.fromkeys(entry.topic for entry in self.parts.catalog.streams() if entry.topic is not None)
        tasks = [partial(self._look_after, topic) for topic in read]
        tasks += [partial(self._retain_written, name) for name in self.parts.catalog.written_topics()]
        errors: list[Exception] = []
        # One turn for each topic: epochs wait for one topic, never for all.
        for task in tasks:
            try:
                with self.parts.loop.lock:
                    task()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _look_after(self, topic: Topic) -> None:
        """Retention and compaction of a topic that streams read. Since it was found they may be gone, and it too."""
        entries = self.parts.definitions.holdings.readers(topic)
        if not entries:
            return
        needed = [self._unread_from(entry, topic.start_offsets()) for entry in entries]
        unread = {p: min(offsets[p] for offsets in needed) for p in topic.start_offsets()}
        topic.retain(keep_from=unread)
        tables = [entry for entry in entries if entry.is_table]
        if tables and self.parts.definitions.agree_on_compaction(tables):
            topic.compact(keep_from=unread)

    def _retain_written(self, name: str) -> None:
        """Apply the retention of a topic that sinks write, unless streams read it.

        A sink looks for its last rows when it opens: until then they stay.
        """
        sinks = [sink for sink in self.parts.catalog.sinks.values() if sink.options.written_topic == name]
        topic = self.parts.log.find_topic(name)
        if topic is None or not sinks or any(sink.sink is None for sink in sinks):
            return
        if not self.parts.definitions.holdings.readers(topic):
            topic.retain()

    def _unread_from(self, entry: StreamEntry, start: Mapping[int, int]) -> dict[int, int]:
        """From where on the rows of a stream are still needed, by the stream itself or a view that catches up."""
        store = self.parts.store
        readers = [store.progress(entry.name) or Progress(offsets=start)]
        for plan in self.parts.loop.plans():
            for part in plan.on_spark:
                behind = store.view_progress(part.name)
                if behind is not None and part.stream == entry.name:
                    readers.append(behind)
        return {p: min(reader.offsets.get(p, offset) for reader in readers) for p, offset in start.items()}
