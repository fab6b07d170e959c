"""What streams own outside of the store: topics of the log, and checkpoints of Structured Streaming.

Owns which topic a stream has, and the removal of what belongs to no incarnation. What always holds: a belonging is made
before the store commits its owner, and removed after the store has committed the owner's end. So a refused
statement or a crash leaves at most belongings without an owner, and `sweep` removes those: after a statement,
and when a database is opened. Must not decide what is created or dropped.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from millstream.engine.define.catalog import Catalog, StreamEntry
from millstream.log import Log, Topic
from millstream.log.embedded import check_partitions
from millstream.model.errors import MillstreamError
from millstream.sources import TopicSpec


@dataclass(frozen=True, slots=True)
class Holdings:
    catalog: Catalog
    log: Log
    checkpoints: Path
    in_use: set[str] = field(default_factory=set)
    """The incarnations whose checkpoints streaming queries use: those stay until the queries have ended."""

    # -- topics --------------------------------------------------------------------------------

    def new_topic(self, spec: TopicSpec, incarnation: str) -> Topic:
        """The topic of a stream that is about to be created.

        A topic that the stream names is shared, and found by its name. Otherwise the incarnation has one to itself,
        under the name of the stream. A topic that a user made under this name waits for its stream, and becomes that.
        """
        self.sweep()
        name = spec.name
        found = self.log.find_topic(name)
        if found is not None and (not spec.is_own or self._is_waiting(found)):
            check_partitions(found, spec.partitions)
            return found
        if found is not None:
            # Other streams still read the topic of a namesake, or this one is about to be replaced.
            name = f"{name[:20]}@{incarnation}"
        return self.log.create_topic(name, spec.partitions, spec.settings, owner=incarnation)

    def topic_again(self, spec: TopicSpec, incarnation: str) -> Topic:
        """The topic of a stream that exists. A stream that is older than incarnations has it under its name."""
        own = next((topic for topic in self.log.owned_topics() if topic.owner == incarnation), None)
        name = own.name if spec.is_own and own is not None else spec.name
        return self.log.create_topic(name, spec.partitions, spec.settings, owner=incarnation)

    def _is_waiting(self, topic: Topic) -> bool:
        return topic.owner is None and not self.readers(topic)

    def readers(self, topic: Topic) -> list[StreamEntry]:
        return [entry for entry in self.catalog.streams() if entry.topic is topic]

    def end_with(self, entry: StreamEntry, successor: StreamEntry | None = None) -> None:
        """Before the end of a stream is committed: note that its topic ends with it, unless others read that."""
        topic = entry.topic
        if topic is None or (successor is not None and successor.topic is topic):
            return
        if topic.owner is None and self.readers(topic) == [entry] and topic.name not in self.catalog.written_topics():
            topic.change_owner(entry.incarnation)

    # -- checkpoints ---------------------------------------------------------------------------

    def checkpoint(self, entry: StreamEntry) -> Path:
        return self.checkpoints / entry.incarnation

    def keep_early_checkpoint(self, entry: StreamEntry) -> None:
        """Checkpoints of streams that are older than incarnations were found by name."""
        early = self.checkpoints / entry.name
        if early.parent == self.checkpoints and early.is_dir() and not self.checkpoint(entry).exists():
            early.rename(self.checkpoint(entry))

    # -- the end of things ---------------------------------------------------------------------

    def sweep(self) -> None:
        """Remove what belongs to no incarnation; topics take the names of their streams where these have become free.

        What cannot be removed now is harmless, and waits for the next time.
        """
        live = {entry.incarnation for entry in self.catalog.streams()}
        written = self.catalog.written_topics()
        for topic in self.log.owned_topics():
            if topic.owner not in live and not self.readers(topic) and topic.name not in written:
                with suppress(MillstreamError):
                    self.log.drop_topic(topic.name)
        for entry in self.catalog.streams():
            if (own := entry.topic) is None or not self._has_other_name(entry, own):
                continue
            if self.log.find_topic(entry.name) is None:
                with suppress(MillstreamError):
                    self.log.rename_topic(own.name, entry.name)
        with suppress(FileNotFoundError):
            for checkpoint in self.checkpoints.iterdir():
                if checkpoint.name not in live and checkpoint.name not in self.in_use:
                    shutil.rmtree(checkpoint, ignore_errors=True)

    @staticmethod
    def _has_other_name(entry: StreamEntry, topic: Topic) -> bool:
        """Whether a topic is a stream's own, and not called like the stream."""
        spec = entry.options.topic_of(entry.stream)
        return spec is not None and spec.is_own and topic.owner == entry.incarnation and topic.name != entry.name
