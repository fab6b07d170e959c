"""One partition: appending with group commit, rolling, retention, and planning reads.

Owns the active segment's descriptor and the order of writes. An append has two steps: `write` puts
its frames into the file and returns a `Ticket`; `sync` returns when the ticket's frames are on the
disk. Whoever enters `sync` first syncs for everyone who has written by then; the others find
their ticket settled.

Always: only synced frames are in an index, so a reader never sees a row that a crash could take
back. A failed write is undone to the last good byte. After a failed sync the kernel may have
dropped the pages and report success next time, so it is never repeated: all frames that were not
yet durable are given up, the file is cut back through a new descriptor, and writing goes on in a
new segment. Lock order: maintenance, sync turn, write, index; readers take only the last, which
is held for microseconds.

It must not know keys, message ids or topics.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from millstream.log import disk
from millstream.log.frames import Body, FrameRef, Header, corrupt, read_frame
from millstream.log.group_commit import SyncTurn
from millstream.log.segments import Segment, create_segment, open_segments
from millstream.log.settings import TopicSettings
from millstream.model.errors import MillstreamError


@dataclass(slots=True, eq=False)
class Entry:
    """A frame in the file that is not yet, or is now, durable."""

    body: Body
    header: Header
    position: int
    durable: bool = False


@dataclass(slots=True, eq=False)
class Ticket:
    """What one append has in one partition."""

    landed_at: int
    first_offset: int = -1
    entries: list[Entry] = field(default_factory=list)
    error: MillstreamError | None = None

    @property
    def settled(self) -> bool:
        return self.error is not None or all(entry.durable for entry in self.entries)

    @property
    def rows(self) -> int:
        return sum(entry.body.rows for entry in self.entries)


class Partition:
    def __init__(self, directory: Path, number: int, settings: TopicSettings) -> None:
        self.directory = directory
        self.number = number
        self.settings = settings
        self.maintenance_lock = threading.Lock()
        self._sync_turn = SyncTurn()
        self._write_lock = threading.Lock()
        self._index_lock = threading.Lock()
        segments, self.repairs = open_segments(directory)
        self._segments: tuple[Segment, ...] = tuple(segments)
        active = segments[-1]
        self._descriptor = disk.open_for_append(active.path)
        self._closed = False
        self._broken = False
        self._unsynced: list[tuple[Ticket, Entry]] = []
        self._written = active.size
        self._oldest_landed_at = active.index.oldest_landed_at()
        self._durable_end = active.index.ends[-1] if len(active.index) else active.base
        self._next_offset = self._durable_end

    # --- appending

    def write(self, bodies: Sequence[Body], landed_at: int) -> Ticket:
        """Put frames into the file, one after the other. An error is left in the ticket."""
        ticket = Ticket(landed_at)
        needed = sum(body.length for body in bodies)
        with self._write_lock:
            self._check_open()
            if not self._broken and not self._must_roll(needed, landed_at):
                self._write_bodies(bodies, ticket)
                return ticket
        # Rolling syncs what is written, so it needs the turn to sync, which is taken before the lock.
        with self._sync_turn, self._write_lock:
            self._check_open()
            try:
                if self._broken:
                    self._repair()
                for body in bodies:
                    if self._must_roll(body.length, landed_at):
                        self._roll()
                    self._write_bodies((body,), ticket)
                    if ticket.error is not None:
                        break
            except OSError as error:
                self._undo(ticket)
                ticket.error = disk.write_error(error, self._active.path)
            except MillstreamError as error:
                ticket.error = error
        return ticket

    def sync(self, ticket: Ticket) -> None:
        """Return when the ticket is durable or has an error."""
        if not self._sync_turn.take(lambda: ticket.settled):
            return
        try:
            with self._write_lock:
                pending = list(self._unsynced)
            try:
                disk.sync_file(self._descriptor)
            except OSError as error:
                with self._write_lock:
                    self._give_up(error)
                return
            with self._write_lock:
                self._publish(pending)
        finally:
            self._sync_turn.give_back()

    def _check_open(self) -> None:
        if self._closed:
            raise MillstreamError("LOG_CLOSED", "the log is closed", detail=str(self.directory))

    @property
    def _active(self) -> Segment:
        return self._segments[-1]

    def _must_roll(self, needed: int, now: int) -> bool:
        if self._written == 0 or self._oldest_landed_at is None:
            return False
        too_large = self._written + needed > self.settings.segment_bytes
        return too_large or now - self._oldest_landed_at >= self.settings.roll_micros

    def _write_bodies(self, bodies: Sequence[Body], ticket: Ticket) -> None:
        try:
            for body in bodies:
                first = self._next_offset
                header = body.header(first, first + body.rows, ticket.landed_at, self._durable_end)
                disk.write_all(self._descriptor, (header.pack(), body.ids, body.payload))
                entry = Entry(body, header, self._written)
                if not ticket.entries:
                    ticket.first_offset = first
                ticket.entries.append(entry)
                self._unsynced.append((ticket, entry))
                self._written += body.length
                self._next_offset = header.end_offset
                if self._oldest_landed_at is None:
                    self._oldest_landed_at = ticket.landed_at
        except OSError as error:
            self._undo(ticket)
            ticket.error = disk.write_error(error, self._active.path)
        except BaseException:  # an interrupt between two parts of a frame tears it as a full disk does
            self._undo(ticket)
            raise

    def _undo(self, ticket: Ticket) -> None:
        """Take back what the ticket has in the file and is not durable; it is the last to have written."""
        undone = [entry for entry in ticket.entries if not entry.durable]
        if undone:
            self._unsynced = [item for item in self._unsynced if item[0] is not ticket]
            ticket.entries = [entry for entry in ticket.entries if entry.durable]
            self._written = undone[0].position
            self._next_offset = undone[0].header.first_offset
        try:
            os.ftruncate(self._descriptor, self._written)
        except OSError:
            self._broken = True
        if self._written == 0:
            self._oldest_landed_at = None

    def _publish(self, pending: Sequence[tuple[Ticket, Entry]]) -> None:
        with self._index_lock:
            active = self._active
            for _, entry in pending:
                active.index.add(entry.header, entry.position)
                active.size = entry.position + entry.body.length
                self._durable_end = entry.header.end_offset
                entry.durable = True
            # Entries leave the list only here or with an error, so that an interrupt loses none.
            del self._unsynced[: len(pending)]

    # --- after a failure (sync turn and write lock held)

    def _give_up(self, error: OSError) -> None:
        """A sync failed: nothing written since the last one may be acknowledged, now or later."""
        for ticket, _ in self._unsynced:
            ticket.error = disk.write_error(error, self._active.path)
            ticket.entries = [entry for entry in ticket.entries if entry.durable]
        self._unsynced = []
        self._written = self._active.size
        self._next_offset = self._durable_end
        self._broken = True
        # What cannot be repaired now is tried again by the next write.
        with contextlib.suppress(OSError, MillstreamError):
            self._repair()

    def _repair(self) -> None:
        """Cut the file back to its good part, check that part, and go on in a new segment."""
        active = self._active
        descriptor = disk.open_for_append(active.path)
        try:
            os.ftruncate(descriptor, self._written)
            os.fsync(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        os.close(self._descriptor)
        self._descriptor = descriptor
        if len(active.index):
            last = active.ref(len(active.index) - 1)
            read_frame(last.path, last.position, last.length)
        self._roll()

    def _roll(self) -> None:
        """Seal the active segment and begin the next; everything written is durable before."""
        if self._unsynced:
            try:
                disk.sync_file(self._descriptor)
            except OSError as error:
                self._give_up(error)
                raise
            self._publish(list(self._unsynced))
        sealed = self._active
        empty = self._written == 0
        # An empty one has the name that its successor needs; the higher generation replaces it.
        generation = sealed.generation + 1 if empty else sealed.generation
        # From here until the successor is open nothing may be written: should its file exist and
        # the old one grow past its base, the next open would believe the file.
        self._broken = True
        fresh = create_segment(self.directory, self._next_offset, generation)
        descriptor = disk.open_for_append(fresh.path)
        self._broken = False
        os.close(self._descriptor)
        self._descriptor = descriptor
        with self._index_lock:
            self._segments = (*self._segments[:-1], *(() if empty else (sealed,)), fresh)
        self._written = 0
        self._oldest_landed_at = None
        if empty:
            sealed.remove()
        else:
            sealed.seal()

    # --- reading

    def end_offset(self) -> int:
        return self._durable_end

    def start_offset(self) -> int:
        return self._segments[0].base

    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    def offset_at(self, landed_at: int) -> int:
        """The first offset of what arrived at an instant or later; the end offset if nothing did."""
        with self._index_lock:
            for segment in self._segments:
                index = segment.index
                for first, landed in zip(index.firsts, index.landed, strict=True):
                    if landed >= landed_at:
                        return max(first, self.start_offset())
        return self.end_offset()

    def frames(self, start: int, end: int) -> list[FrameRef]:
        """The frames that hold rows of [start, end), which must be a range of durable offsets."""
        found: list[FrameRef] = []
        expected = start
        with self._index_lock:
            for segment in self._segments:
                if segment.base >= end:
                    break
                for number in segment.index.numbers(start, end):
                    ref = segment.ref(number)
                    if ref.first_offset > expected:
                        raise self._missing(expected)
                    expected = ref.end_offset
                    if ref.rows:
                        found.append(ref)
            if expected < end:
                raise self._missing(expected)
        return found

    def _missing(self, offset: int) -> MillstreamError:
        """No frame answers for an offset: name the place after the last frame before it."""
        segment = [segment for segment in self._segments if segment.base <= offset][-1]
        before = [segment.ref(number) for number in segment.index.numbers(segment.base, offset)]
        position = before[-1].position + before[-1].length if before else 0
        return corrupt(segment.path, position, f"no intact frame holds offset {offset}")

    # --- maintenance (the caller holds `maintenance_lock`)

    def segments(self) -> tuple[Segment, ...]:
        return self._segments

    def sealed(self) -> tuple[Segment, ...]:
        return self._segments[:-1]

    def roll_aged(self, now: int) -> None:
        """Seal an active segment that is old enough, so that an idle topic also forgets."""
        with self._sync_turn, self._write_lock:
            self._check_open()
            try:
                if self._broken:
                    self._repair()
                elif self._must_roll(0, now):
                    self._roll()
            except OSError as error:
                raise disk.write_error(error, self._active.path) from error

    def expired(self, now: int, keep_from: int | None) -> list[Segment]:
        """The oldest sealed segments that retention lets go, none with an offset >= keep_from."""
        segments = self._segments
        total = sum(segment.size for segment in segments)
        victims: list[Segment] = []
        for segment, following in pairwise(segments):
            newest = segment.index.newest_landed_at()
            age, room = self.settings.retention_micros, self.settings.retention_bytes
            too_old = age is not None and (newest is None or newest < now - age)
            too_much = room is not None and total > room
            if not (too_old or too_much) or (keep_from is not None and following.base > keep_from):
                break
            total -= segment.size
            victims.append(segment)
        return victims

    def replace(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """Put `new` in the place of the adjacent sealed segments `old`, and remove the files of `old`."""
        with self._sync_turn, self._write_lock, self._index_lock:
            at = self._segments.index(old[0])
            self._segments = (*self._segments[:at], *new, *self._segments[at + len(old) :])
        try:
            for segment in old:
                segment.remove()
            disk.sync_directory(self.directory)
        except OSError as error:
            raise disk.write_error(error, self.directory) from error

    def close(self) -> None:
        with self._sync_turn, self._write_lock:
            if self._closed:
                return
            self._closed = True
            # Writers that have not synced yet are not acknowledged; syncing here settles them.
            if self._unsynced:
                try:
                    disk.sync_file(self._descriptor)
                except OSError as error:
                    for ticket, _ in self._unsynced:
                        ticket.error = disk.write_error(error, self._active.path)
                else:
                    self._publish(list(self._unsynced))
            os.close(self._descriptor)
