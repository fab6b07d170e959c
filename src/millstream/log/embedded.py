"""The embedded log: a directory of topics and consumer groups, owned by one process.

    <root>/LOCK   <root>/topics/<topic>/{topic.json, p00000/, ids/}   <root>/groups/<group>.json

Owns that layout and the lifetime of topics. Always: a topic's directory appears complete and
disappears whole, by a rename. Executors read segment files without this class; whoever writes
holds the lock. It must not know who produces or consumes the rows.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from millstream.log import disk
from millstream.log.groups import ConsumerGroup
from millstream.log.metadata import METADATA, TopicMetadata, partition_directory
from millstream.log.settings import TopicSettings
from millstream.log.topics import Topic
from millstream.model.errors import MillstreamError, did_you_mean
from millstream.model.time import Clock

_logger = logging.getLogger(__name__)

_UNFINISHED = "~"  # never begins the name of a topic: `directory_name` encodes it


class Log:
    def __init__(self, root: Path, clock: Clock) -> None:
        self.root = Path(root)
        self._clock = clock
        self._lock = threading.RLock()
        self._listeners: list[Callable[[str], None]] = []
        self._topics: dict[str, Topic] = {}
        self._groups: dict[str, ConsumerGroup] = {}
        self._closed = False
        self._topics_root = self.root / "topics"
        self._groups_root = self.root / "groups"
        try:
            for directory in (self._topics_root, self._groups_root):
                directory.mkdir(parents=True, exist_ok=True)
            for directory in (self.root, self.root.absolute().parent):
                disk.sync_directory(directory)
            self._lock_descriptor = _lock(self.root / "LOCK")
        except OSError as error:
            raise _cannot_open(self.root, error) from error
        self._syncers = ThreadPoolExecutor(max_workers=8, thread_name_prefix="log-sync")
        try:
            self._open_topics()
        except BaseException:
            self.close()
            raise

    def _open_topics(self) -> None:
        for directory in sorted(self._topics_root.iterdir()):
            if directory.name.startswith(_UNFINISHED):
                shutil.rmtree(directory)
            elif (directory / METADATA).exists():
                topic = self._open_topic(directory)
                self._topics[topic.name] = topic

    def _open_topic(self, directory: Path) -> Topic:
        try:
            return Topic(directory, self._clock, self._syncers, self._notify)
        except OSError as error:
            raise _cannot_open(directory, error) from error

    def create_topic(
        self, name: str, partitions: int = 1, settings: TopicSettings | None = None, *, owner: str | None = None
    ) -> Topic:
        """Make a topic, or find it; settings that are given replace those of an existing one, the owner does not."""
        if partitions < 1:
            raise MillstreamError("BAD_PARTITION_COUNT", f"a topic cannot have {partitions} partitions")
        with self._lock:
            self._check_open()
            existing = self._topics.get(name)
            if existing is None:
                topic = self._create_topic(name, partitions, settings or TopicSettings(), owner)
                self._topics[name] = topic
                return topic
            check_partitions(existing, partitions)
            if settings is not None and settings != existing.settings:
                existing.change_settings(settings)
            return existing

    def _create_topic(self, name: str, partitions: int, settings: TopicSettings, owner: str | None) -> Topic:
        final = self._topics_root / directory_name(name, "topic")
        unfinished = self._topics_root / f"{_UNFINISHED}{uuid.uuid4().hex}"
        metadata = TopicMetadata(name, uuid.uuid4().hex, partitions, settings, self._clock.now(), owner)
        try:
            unfinished.mkdir()
            for number in range(partitions):
                partition_directory(unfinished, number).mkdir()
            metadata.save(unfinished)
            os.rename(unfinished, final)
            disk.sync_directory(self._topics_root)
        except OSError as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise disk.write_error(error, final) from error
        return self._open_topic(final)

    def topic(self, name: str) -> Topic:
        with self._lock:
            self._check_open()
            found = self._topics.get(name)
            if found is None:
                hint = did_you_mean(name, self._topics)
                raise MillstreamError("UNKNOWN_TOPIC", f"there is no topic {name!r}", hint=hint)
            return found

    def topics(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(sorted(self._topics))

    def find_topic(self, name: str) -> Topic | None:
        with self._lock:
            return self._topics.get(name)

    def owned_topics(self) -> list[Topic]:
        """The topics that end with an owner."""
        with self._lock:
            return [topic for topic in self._topics.values() if topic.owner is not None]

    def rename_topic(self, name: str, new: str) -> None:
        """Give a topic a name that is free; its directory, to which executors may hold paths, stays."""
        with self._lock:
            topic = self.topic(name)
            if new in self._topics:
                raise MillstreamError("TOPIC_EXISTS", f"topic {new!r} exists")
            topic.change_name(new)
            self._topics[new] = self._topics.pop(name)

    def drop_topic(self, name: str) -> None:
        """Remove a topic and its rows; appends under way end with LOG_CLOSED or before the removal."""
        with self._lock:
            topic = self.topic(name)
            doomed = self._topics_root / f"{_UNFINISHED}{uuid.uuid4().hex}"
            try:
                os.rename(topic.directory, doomed)
                disk.sync_directory(self._topics_root)
            except OSError as error:
                raise disk.write_error(error, doomed) from error
            topic.close()
            del self._topics[name]
        shutil.rmtree(doomed, ignore_errors=True)

    def group(self, name: str) -> ConsumerGroup:
        with self._lock:
            self._check_open()
            if name not in self._groups:
                path = self._groups_root / f"{directory_name(name, 'group')}.json"
                self._groups[name] = ConsumerGroup(name, path, self.topic)
            return self._groups[name]

    def on_append(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call back with the topic's name after every durable append, in the appender's thread.

        Returns a function that ends it. The callback must be cheap; what it raises is logged,
        because the rows are durable and their producer must not be told otherwise.
        """
        with self._lock:
            self._listeners = [*self._listeners, callback]

        def remove() -> None:
            with self._lock:
                self._listeners = [listener for listener in self._listeners if listener is not callback]

        return remove

    def _notify(self, topic: str) -> None:
        for listener in self._listeners:
            try:
                listener(topic)
            except Exception:
                _logger.exception("a listener of topic %s failed", topic)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for topic in self._topics.values():
                topic.close()
        self._syncers.shutdown()
        os.close(self._lock_descriptor)

    def _check_open(self) -> None:
        if self._closed:
            raise MillstreamError("LOG_CLOSED", "the log is closed", detail=str(self.root))

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_partitions(topic: Topic, partitions: int) -> None:
    """Refuse to read or write a topic as if it had another number of partitions."""
    if topic.partitions != partitions:
        raise MillstreamError(
            "TOPIC_EXISTS",
            f"topic {topic.name!r} exists with {topic.partitions} partitions, not {partitions}",
            detail="another number would send the rows of a key to another partition",
            hint=f"ask for {topic.partitions} partitions, or drop the topic first",
        )


def directory_name(name: str, kind: str) -> str:
    """A name that is safe and distinct on every file system.

    Capitals are encoded too, since `Bids` and `bids` are one directory on some.

    >>> directory_name("Orders/eu", "topic")
    '%4Frders%2Feu'
    """
    encoded = "".join(_encode_character(character) for character in name)
    if encoded.startswith("."):
        encoded = "%2E" + encoded[1:]
    if not name or len(encoded) > 200:
        raise MillstreamError(
            f"BAD_{kind.upper()}_NAME",
            f"{name!r} cannot be the name of a {kind}",
            hint="use 1 to 200 letters, digits, dots, dashes and underscores",
        )
    return encoded


def _encode_character(character: str) -> str:
    if character.isascii() and (character.islower() or character.isdigit() or character in "._-"):
        return character
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def _cannot_open(path: Path, error: OSError) -> MillstreamError:
    return MillstreamError(
        "LOG_OPEN_FAILED",
        f"the log in {path} cannot be opened",
        detail=str(error),
        hint="check that its files are all there and that this user may write them",
    )


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise MillstreamError(
            "LOG_LOCKED",
            f"the log in {path.parent} is in use",
            detail="one process owns a log; this one or another has it open",
            hint="close it there, or connect to the server that runs it",
        ) from None
    return descriptor
