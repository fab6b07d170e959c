"""The past, read for views that are younger than their streams.

A new view reads what its streams retain in slices of its own, while the others go on: Spark reads a
slice outside of the epoch loop's lock, and only the commit takes a turn. The last slice, after
which the view is where its stream is, is read under the lock, so nothing is missed or counted twice.
Of several streams, the one whose event time is the furthest behind is read first, so that a join
over the past keeps no more than one over live rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from millstream.engine.catalog import StreamEntry
from millstream.engine.epochs import Epoch, EpochLoop, clock_after, newest_before
from millstream.engine.judging import judge
from millstream.engine.reads import Job, Read, Reader
from millstream.plan.nodes import View, ViewPlan
from millstream.store.protocol import Progress, StreamPart, ViewPart


@dataclass(frozen=True, slots=True)
class Behind:
    """Parts of a view that read the past of one stream together."""

    plan: ViewPlan
    entry: StreamEntry
    parts: tuple[View, ...]
    progress: Progress


@dataclass(slots=True)
class History:
    loop: EpochLoop
    reader: Reader

    def step(self, max_rows: int | None = None) -> bool:
        """Read one slice for one view; False when no view has anything to catch up with."""
        loop = self.loop
        with loop.lock:
            behind = self._next()
            if behind is None:
                return False
            live = loop.progress(behind.entry)
            job = self._job(behind, live, max_rows or loop.settings.max_epoch_rows)
            if job is None:
                self._join(behind, live)
                return True
            if _reaches(job.cut.offsets, live):
                self._read_and_commit(behind, job)
                return True
        (read,) = self.reader.read((job,))
        try:
            with loop.lock:
                # Meanwhile the view may be gone, or another one.
                if self._is_current(behind):
                    self._commit(behind, read)
        finally:
            read.opened.close()
        return True

    def remaining(self, name: str) -> float | None:
        """The share of the past that a view has still to read; None when it has read all."""
        for plan in self.loop.plans():
            if plan.view.name == name:
                shares = [self._share(part) for part in plan.on_spark]
                return max((share for share in shares if share is not None), default=None)
        return None

    def _share(self, part: View) -> float | None:
        behind = self.loop.store.view_progress(part.name)
        if behind is None:
            return None
        live = self.loop.progress(self.loop.catalog.stream(part.stream))
        total = sum(live.offsets.values())
        return 1 - sum(behind.offsets.values()) / total if total else 0.0

    def _next(self) -> Behind | None:
        for plan in self.loop.plans():
            found: dict[str, Behind] = {}
            for part in plan.on_spark:
                progress = self.loop.store.view_progress(part.name)
                if progress is None:
                    continue
                entry = self.loop.catalog.stream(part.stream)
                known = found.get(entry.name)
                if known is None:
                    found[entry.name] = Behind(plan, entry, (part,), progress)
                elif known.progress == progress:
                    found[entry.name] = replace(known, parts=(*known.parts, part))
            if found:
                return min(found.values(), key=lambda behind: behind.progress.watermark)
        return None

    def _is_current(self, behind: Behind) -> bool:
        return behind.plan in self.loop.plans() and all(
            self.loop.store.view_progress(part.name) == behind.progress for part in behind.parts
        )

    def _job(self, behind: Behind, live: Progress, max_rows: int) -> Job | None:
        source = behind.entry.source
        if source is None:
            return None
        cut = source.cut(behind.progress.offsets, max_rows, until=live.offsets)
        if cut is None:
            return None
        newest = newest_before(behind.entry, behind.progress)
        return Job(behind.entry, behind.progress.offsets, cut, behind.parts, self.loop.clock.now(), newest)

    def _join(self, behind: Behind, live: Progress) -> None:
        """There is nothing left to read: the view is where its stream is."""
        epoch = self._epoch(behind, _at_least(live, behind.progress))
        epoch.streams.append(StreamPart(behind.entry.stream, live))
        epoch.views.extend(ViewPart(part, None, *epoch.marks_of(part)) for part in behind.parts)
        self.loop.commit(epoch.part({}))

    def _read_and_commit(self, behind: Behind, job: Job) -> None:
        (read,) = self.reader.read((job,))
        try:
            self._commit(behind, read)
        finally:
            read.opened.close()

    def _commit(self, behind: Behind, read: Read) -> None:
        loop, entry = self.loop, behind.entry
        live = loop.progress(entry)
        now = loop.clock.now()
        offsets = dict(read.job.cut.offsets)
        moved = replace(
            loop.advance(entry, behind.progress, read.stats, now),
            offsets=offsets,
            clock=min(clock_after(read, behind.progress.clock), live.clock),
        )
        done = _reaches(offsets, live)
        epoch = self._epoch(behind, _at_least(moved, live) if done else moved)
        epoch.streams.append(StreamPart(entry.stream, live, rows=read.stats.rows, dead=read.stats.dead))
        for part in behind.parts:
            judged = judge(read, part, *epoch.marks_of(part))
            epoch.views.append(replace(judged, catching_up=None if done else moved))
        loop.commit(epoch.part({"spark_ms": read.seconds * 1000}))

    def _epoch(self, behind: Behind, moved: Progress) -> Epoch:
        epoch = Epoch(self.loop, self.loop.clock.now())
        for entry in self.loop.catalog.streams():
            epoch.move(entry, self.loop.progress(entry))
        for part in behind.parts:
            epoch.behind[part.name] = (behind.progress, moved)
        return epoch


def _at_least(progress: Progress, other: Progress) -> Progress:
    """The progress of a view that joins its stream, whichever of them has come further in time."""
    return replace(progress, watermark=max(progress.watermark, other.watermark), clock=max(progress.clock, other.clock))


def _reaches(offsets: dict[int, int] | object, live: Progress) -> bool:
    assert isinstance(offsets, dict)
    return all(offsets.get(partition, 0) >= end for partition, end in live.offsets.items())
