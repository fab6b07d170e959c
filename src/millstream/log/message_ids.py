"""Message ids a topic has accepted, so that a producer may send again without fear.

Owns the window of accepted ids in memory and the `ids/` directory, which keeps the ids of segments
that retention or compaction removed.

Always: an id is accepted exactly when its row is durable, because its digest lies in the same
frame as the row. An id that another append is still writing is neither new nor a duplicate:
whoever brings it again waits for the outcome, else it could be acknowledged and then lost. It is
remembered for at least the window and at most until the next append after it.

Ids are kept as 16-byte BLAKE2b digests: by accident two ids would not collide in the lifetime of
a log. It must not decide where rows go.
"""

from __future__ import annotations

import contextlib
import struct
import threading
import zlib
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from millstream.log import disk
from millstream.log.frames import DIGEST_BYTES, HEADER_BYTES, unpack_header
from millstream.log.segments import Segment

NO_ID = bytes(DIGEST_BYTES)

_MAGIC = b"MSI1"
_HEAD = struct.Struct("<4sIqq")  # magic, checksum of the rest, ids, newest landed at


@dataclass(slots=True, eq=False)
class Claim:
    """The rows of one append that are new: their numbers, and their digests (`NO_ID` where none)."""

    rows: list[int]
    digests: list[bytes]
    reserved: set[bytes]
    duplicates: int = 0
    settled: threading.Event = field(default_factory=threading.Event)


class MessageIds:
    def __init__(self, directory: Path, window_micros: int) -> None:
        self._directory = directory
        self.window_micros = window_micros
        self._lock = threading.Lock()
        self._accepted: dict[bytes, int] = {}
        self._pending: list[Claim] = []
        self._by_age: deque[tuple[int, list[bytes]]] = deque()

    def load(self, segments: Iterable[Segment], now: int) -> None:
        """Fill the window from the disk: from saved files, then from the frames themselves."""
        groups = [*self._load_saved(now)]
        for segment in segments:
            groups += read_ids(segment, now - self.window_micros)
        # Expiry takes the oldest first, so that is how they are entered.
        for landed_at, digests in sorted(groups, key=lambda group: group[0]):
            self._enter(landed_at, digests)

    def claim(self, ids: Sequence[str | None], now: int) -> Claim:
        """Reserve the new ids among these until `settle`; waits for ids that others have reserved."""
        digests = [_digest(id_) if id_ is not None else NO_ID for id_ in ids]
        unique = set(digests)
        unique.discard(NO_ID)
        while True:
            with self._lock:
                self._expire(now)
                rival = next((c for c in self._pending if not unique.isdisjoint(c.reserved)), None)
                if rival is None:
                    return self._reserve(digests, unique)
            # Nothing is held while waiting, so two appends with each other's ids cannot lock up.
            rival.settled.wait()

    def settle(self, claim: Claim, durable: Sequence[bytes], landed_at: int) -> None:
        """End a reservation: the durable ids are accepted, the others free again."""
        with self._lock:
            self._pending.remove(claim)
            self._enter(landed_at, [digest for digest in durable if digest != NO_ID])
        claim.settled.set()

    def preserve(self, segments: Sequence[Segment], name: str, now: int) -> None:
        """Save the ids of segments that are about to be removed, while they still count."""
        groups = [group for segment in segments for group in read_ids(segment, now - self.window_micros)]
        self._drop_expired_files(now)
        if not groups:
            return
        self._directory.mkdir(exist_ok=True)
        landed = array("q", (at for at, digests in groups for _ in digests))
        digests = b"".join(digest for _, group in groups for digest in group)
        head = struct.pack("<qq", len(landed), max(landed))
        body = head + landed.tobytes() + digests
        disk.replace_file(self._directory / f"{name}.ids", struct.pack("<4sI", _MAGIC, zlib.crc32(body)), body)
        disk.sync_directory(self._directory.parent)

    def __len__(self) -> int:
        return len(self._accepted)

    def _reserve(self, digests: list[bytes], unique: set[bytes]) -> Claim:
        if len(unique) == len(digests) and self._accepted.keys().isdisjoint(unique):
            claim = Claim(list(range(len(digests))), digests, unique)
        else:
            claim = Claim([], [], set())
            for row, digest in enumerate(digests):
                if digest != NO_ID:
                    if digest in self._accepted or digest in claim.reserved:
                        continue
                    claim.reserved.add(digest)
                claim.rows.append(row)
                claim.digests.append(digest)
        claim.duplicates = len(digests) - len(claim.rows)
        self._pending.append(claim)
        return claim

    def _enter(self, landed_at: int, digests: list[bytes]) -> None:
        if digests:
            self._accepted.update(dict.fromkeys(digests, landed_at))
            self._by_age.append((landed_at, digests))

    def _expire(self, now: int) -> None:
        while self._by_age and self._by_age[0][0] <= now - self.window_micros:
            landed_at, digests = self._by_age.popleft()
            for digest in digests:
                if self._accepted.get(digest) == landed_at:
                    del self._accepted[digest]

    def _load_saved(self, now: int) -> Iterable[tuple[int, list[bytes]]]:
        self._drop_expired_files(now)
        for path in sorted(self._directory.glob("*.ids")):
            saved = path.read_bytes()
            magic, checksum, count, _ = _HEAD.unpack_from(saved)
            if magic != _MAGIC or zlib.crc32(memoryview(saved)[8:]) != checksum:
                continue
            landed = array("q", saved[_HEAD.size : _HEAD.size + 8 * count])
            digests = _split(saved[_HEAD.size + 8 * count :])
            groups: dict[int, list[bytes]] = {}
            for landed_at, digest in zip(landed, digests, strict=True):
                groups.setdefault(landed_at, []).append(digest)
            yield from ((at, group) for at, group in groups.items() if at > now - self.window_micros)

    def _drop_expired_files(self, now: int) -> None:
        for path in self._directory.glob("*.ids"):
            with path.open("rb") as file:
                head = file.read(_HEAD.size)
            if len(head) == _HEAD.size and _HEAD.unpack(head)[3] > now - self.window_micros:
                continue
            with contextlib.suppress(FileNotFoundError):
                path.unlink()


def read_ids(segment: Segment, landed_after: int) -> list[tuple[int, list[bytes]]]:
    """(landed at, digests) of every frame of a segment that has ids and is newer than an instant."""
    wanted = list(segment.index.with_ids_since(landed_after))
    if not wanted:
        return []
    found = []
    with segment.path.open("rb", buffering=0) as file:
        for position, length, landed_at in wanted:
            file.seek(position)
            head = file.read(HEADER_BYTES + length)
            header = unpack_header(head)
            ids = head[HEADER_BYTES:]
            # A damaged frame is reported when its rows are read; its ids are unknown.
            if header is not None and zlib.crc32(ids) == header.ids_checksum:
                found.append((landed_at, [digest for digest in _split(ids) if digest != NO_ID]))
    return found


def _digest(message_id: str) -> bytes:
    return blake2b(message_id.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


def _split(digests: bytes) -> list[bytes]:
    return [digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)]
