"""Consumer groups: how far readers have come, and who reads what.

Owns the file of committed offsets of a group (`groups/<group>.json`) and the members of the group
in this process.

Always: a commit is durable and all of it or none of it is seen. Offsets belong to one topic by its
id, not by its name: a topic that is dropped and created again starts without any. Every partition
of a topic has exactly one member while there are members, and their shares differ by at most
one. It must not read rows.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from millstream.log import disk
from millstream.log.frames import corrupt
from millstream.log.topics import Topic
from millstream.model.errors import MillstreamError


class ConsumerGroup:
    """Made by `Log.group`; the same object for the same name."""

    def __init__(self, name: str, path: Path, find_topic: Callable[[str], Topic]) -> None:
        self.name = name
        self._path = path
        self._find_topic = find_topic
        self._lock = threading.RLock()
        self._topics: dict[str, dict[str, Any]] = {}
        self._members: dict[str, Member] = {}
        self._joined = 0
        if path.exists():
            try:
                self._topics = json.loads(path.read_bytes())["topics"]
            except (ValueError, KeyError, TypeError) as error:
                raise corrupt(path, 0, f"not the offsets of a consumer group: {error}") from error

    def commit(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Record the next offset to read per partition; partitions not named keep theirs."""
        found = self._find_topic(topic)
        ends = found.end_offsets()
        for partition, offset in offsets.items():
            if partition not in ends:
                raise MillstreamError("UNKNOWN_PARTITION", f"topic {topic!r} has no partition {partition}")
            if not 0 <= offset <= ends[partition]:
                raise MillstreamError(
                    "OFFSET_AHEAD",
                    f"offset {offset} of {topic!r} partition {partition} cannot be committed",
                    detail=f"the log ends at {ends[partition]}",
                )
        with self._lock:
            merged = {**self.committed(topic), **offsets}
            saved = {"id": found.id, "offsets": {str(p): merged[p] for p in sorted(merged)}}
            topics = {**self._topics, topic: saved}
            try:
                disk.replace_file(self._path, json.dumps({"version": 1, "topics": topics}).encode())
            except OSError as error:
                raise disk.write_error(error, self._path) from error
            self._topics = topics

    def committed(self, topic: str) -> dict[int, int]:
        """The committed offsets; a partition without a commit is missing."""
        found = self._find_topic(topic)
        with self._lock:
            saved = self._topics.get(topic)
            if saved is None or saved["id"] != found.id:
                return {}
            return {int(partition): offset for partition, offset in saved["offsets"].items()}

    def lag(self, topic: str) -> dict[int, int]:
        """Offsets per partition between what is committed, or the oldest kept, and the end."""
        found = self._find_topic(topic)
        committed, starts = self.committed(topic), found.start_offsets()
        return {
            partition: end - max(committed.get(partition, 0), starts[partition])
            for partition, end in found.end_offsets().items()
        }

    def join(self, topics: Iterable[str], member: str | None = None) -> Member:
        """Become a member that reads these topics; the partitions are shared out anew."""
        wanted = tuple(topics)
        for topic in wanted:
            self._find_topic(topic)
        with self._lock:
            self._joined += 1
            name = member if member is not None else f"member-{self._joined}"
            if name in self._members:
                raise MillstreamError("MEMBER_EXISTS", f"group {self.name!r} already has a member {name!r}")
            joined = Member(self, name, wanted)
            self._members[name] = joined
            self._share_out()
            return joined

    def members(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(sorted(self._members))

    def _leave(self, member: Member) -> None:
        with self._lock:
            if self._members.get(member.name) is member:
                del self._members[member.name]
                member._assigned = {}
                self._share_out()

    def _share_out(self) -> None:
        for topic in sorted({topic for member in self._members.values() for topic in member.topics}):
            readers = [self._members[n] for n in sorted(self._members) if topic in self._members[n].topics]
            held = {reader.name: reader._assigned.get(topic, ()) for reader in readers}
            shares = share_out(self._find_topic(topic).partitions, held)
            for reader in readers:
                reader._assigned = {**reader._assigned, topic: shares[reader.name]}


class Member:
    """One reader of a group. `partitions` may change whenever another member joins or leaves."""

    def __init__(self, group: ConsumerGroup, name: str, topics: tuple[str, ...]) -> None:
        self.group = group
        self.name = name
        self.topics = topics
        self._assigned: dict[str, tuple[int, ...]] = {}

    def partitions(self, topic: str) -> tuple[int, ...]:
        return self._assigned.get(topic, ())

    def commit(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit for partitions that are still this member's; else the new owner's work is undone."""
        with self.group._lock:
            foreign = sorted(set(offsets) - set(self.partitions(topic)))
            if foreign:
                raise MillstreamError(
                    "NOT_ASSIGNED",
                    f"partition {foreign[0]} of {topic!r} is not read by {self.name!r} any more",
                    hint="look at the member's partitions again; another member goes on from the last commit",
                )
            self.group.commit(topic, offsets)

    def leave(self) -> None:
        self.group._leave(self)

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


def share_out(partitions: int, held: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Even shares that move as few partitions as possible.

    >>> share_out(4, {"a": (0, 1, 2, 3), "b": ()})
    {'a': (0, 1), 'b': (2, 3)}
    """
    least, extra = divmod(partitions, len(held))
    # Those who hold most keep the larger shares.
    order = sorted(held, key=lambda name: (-len(held[name]), name))
    quotas = {name: least + (position < extra) for position, name in enumerate(order)}
    kept = {name: [p for p in held[name] if p < partitions][: quotas[name]] for name in held}
    owned = {partition for mine in kept.values() for partition in mine}
    free = [partition for partition in range(partitions) if partition not in owned]
    for name in order:
        while len(kept[name]) < quotas[name]:
            kept[name].append(free.pop(0))
    return {name: tuple(sorted(kept[name])) for name in held}
