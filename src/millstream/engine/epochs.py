"""The epoch loop: cut slices, run Spark, judge lateness, commit.

One epoch covers every stream that has new rows. Draining, continuous running and reading history
are the same code: whoever calls, an epoch takes rows with their offsets and commits the offsets
with the results. Nothing is recorded when nothing happened.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from millstream.engine.catalog import Catalog, StreamEntry, ViewEntry
from millstream.engine.reads import Following, Job, Read, Reader
from millstream.model.errors import MillstreamError
from millstream.model.settings import EngineSettings
from millstream.model.time import Clock
from millstream.plan.nodes import AggregateView, View
from millstream.plan.slices import BatchSlice
from millstream.plan.watermarks import advance, next_idle_at
from millstream.plan.windows import CountWindow
from millstream.sources import Cut, Offsets
from millstream.store.duckdb_store import DuckDBStore
from millstream.store.protocol import BEGINNING, EpochPart, Progress, StreamPart, ViewPart


@dataclass(slots=True)
class EpochLoop:
    """Runs epochs, one at a time, for whoever asks."""

    catalog: Catalog
    store: DuckDBStore
    clock: Clock
    settings: EngineSettings
    plan: Callable[[ViewEntry], View]
    lock: threading.RLock
    committed: threading.Condition
    """Notified after every commit."""
    reader: Reader
    next_due_at: int | None = None
    _knows_timers: bool = False

    def ends(self) -> dict[str, Offsets]:
        """How far every stream reaches now."""
        return {entry.name: entry.source.end() for entry in self.catalog.streams() if entry.source is not None}

    def run(self, until: Mapping[str, Offsets] | None = None) -> int | None:
        """One epoch over what there is, or over what there is before `until`; None when there is nothing to do."""
        with self.lock:
            if not self._knows_timers:
                self._read_timers()
            history = self._catch_up()
            if history is not None:
                return history
            jobs = self.reader.ahead(self._is_current)
            if jobs is None:
                jobs = self._jobs({}, until)
            return self._run(jobs, lambda done: self._jobs(done, until))

    def run_batch(self, entry: StreamEntry, slice_: BatchSlice) -> int | None:
        """One epoch over a micro-batch that Structured Streaming handed over, once."""
        with self.lock:
            start = self._progress(entry).offsets
            if slice_.batch_id < start.get(0, 0):
                return None
            while self._catch_up() is not None:
                pass
            cut = Cut(slice_, {0: slice_.batch_id + 1})
            return self._run((Job(entry, start, cut, self._plans_of(entry), self.clock.now()),), None)

    def _jobs(self, done: Mapping[str, Offsets], until: Mapping[str, Offsets] | None) -> tuple[Job, ...]:
        """What can be read next; `done` says where streams will be whose epoch is under way."""
        jobs = []
        now = self.clock.now()
        for entry in self.catalog.streams():
            if entry.source is None:
                continue
            start = done.get(entry.name, self._progress(entry).offsets)
            end = None if until is None else until.get(entry.name, {})
            cut = entry.source.cut(start, self.settings.max_epoch_rows, end)
            if cut is not None:
                jobs.append(Job(entry, dict(start), cut, self._plans_of(entry), now))
        return tuple(jobs)

    def _is_current(self, job: Job) -> bool:
        """Whether a job that was begun ahead is still what would be done now."""
        entry = job.entry
        return (
            self.catalog.find(entry.name) is entry
            and dict(self._progress(entry).offsets) == dict(job.start)
            and self._plans_of(entry) == job.plans
        )

    def _plans_of(self, entry: StreamEntry) -> tuple[View, ...]:
        plans = [self.plan(view) for view in self.catalog.views()]
        return tuple(plan for plan in plans if plan.stream == entry.name)

    def _progress(self, entry: StreamEntry) -> Progress:
        return self.store.progress(entry.name) or Progress()

    # -- an epoch ------------------------------------------------------------------------------

    def _run(self, jobs: tuple[Job, ...], following: Following | None) -> int | None:
        """Read jobs, judge, commit. Meanwhile Spark begins with what comes next, if there is a backlog."""
        reads: list[Read] = []
        try:
            reads = self.reader.read(jobs) if jobs else []
            now = self.clock.now()
            timer_due = self.next_due_at is not None and self.next_due_at <= now
            if jobs and following is not None:
                self.reader.go_ahead({job.entry.name: job.cut.offsets for job in jobs}, following)
            streams: list[StreamPart] = []
            views: list[ViewPart] = []
            for read in reads:
                part, view_parts = self._parts(read, now)
                streams.append(part)
                views.extend(view_parts)
            busy = {job.entry.name for job in jobs}
            for entry in self.catalog.streams():
                if entry.name not in busy:
                    self._idle(entry, now, timer_due, streams, views)
            if not streams and not views:
                return None
            timings = {"spark_ms": sum(read.seconds for read in reads) * 1000}
            return self._commit(EpochPart(now, streams, views, timings))
        except BaseException:
            self.reader.discard()
            raise
        finally:
            for read in reads:
                read.opened.close()

    def _commit(self, part: EpochPart) -> int:
        epoch = self.store.commit(part)
        self._read_timers()
        with self.committed:
            self.committed.notify_all()
        return epoch

    def _read_timers(self) -> None:
        """Processing-time triggers are part of the state, so they survive a restart."""
        self.next_due_at = self.store.next_due_at([self.plan(view) for view in self.catalog.views()])
        self._knows_timers = True

    def _idle(
        self,
        entry: StreamEntry,
        now: int,
        timer_due: bool,
        stream_parts: list[StreamPart],
        view_parts: list[ViewPart],
    ) -> None:
        """A stream without new rows: its watermark may move all the same, and timers may be due."""
        progress = self._progress(entry)
        moved = self._advance(entry, progress, {}, now)
        plans = self._plans_of(entry)
        if timer_due and any(_on_clock(plan) for plan in plans):
            moved = replace(moved, clock=max(progress.clock, now))
        if moved.watermark != progress.watermark:
            chosen = list(plans)
        elif timer_due:
            chosen = [p for p in plans if isinstance(p, AggregateView) and (p.trigger.intervals or p.on_clock)]
        else:
            chosen = []
        if (moved.watermark, moved.clock) != (progress.watermark, progress.clock):
            stream_parts.append(StreamPart(entry.stream, moved))
        view_parts.extend(ViewPart(plan, None, *watermarks(plan, progress, moved)) for plan in chosen)

    def _parts(self, read: Read, now: int) -> tuple[StreamPart, list[ViewPart]]:
        """What a read adds to the epoch."""
        entry, cut, stats = read.job.entry, read.job.cut, read.stats
        before = self._progress(entry)
        after = replace(
            self._advance(entry, before, stats.newest, now),
            offsets=dict(cut.offsets),
            clock=clock_after(read, before.clock),
        )
        part = StreamPart(
            entry.stream,
            after,
            rows=stats.rows,
            dead=stats.dead,
            dead_rows=read.opened.dead_rows() if stats.dead else None,
            files=cut.files,
            table_rows=read.table_rows,
        )
        views = [self._judge(read, plan, before, after) for plan in read.job.plans]
        return part, views

    def _advance(self, entry: StreamEntry, progress: Progress, newest: Mapping[int, int], now: int) -> Progress:
        merged = {**progress.newest}
        for partition, at in newest.items():
            merged[partition] = max(at, merged.get(partition, at))
        active = {**progress.active_at, **dict.fromkeys(newest, now)}
        if entry.stream.watermark is None:
            return replace(progress, newest=merged, active_at=active)
        watermark = advance(
            progress.watermark,
            merged,
            active,
            slack=entry.stream.slack,
            idle_timeout=entry.options.idle_timeout,
            now=now,
        )
        return replace(progress, newest=merged, active_at=active, watermark=watermark)

    def _judge(self, read: Read, plan: View, since: Progress, until: Progress) -> ViewPart:
        """Part a delta into what is used and what is late, and check that every row is accounted for."""
        delta, stats, opened = read.deltas[plan.name], read.stats, read.opened
        before, after = watermarks(plan, since, until)
        rows, late = split_late(plan, delta.rows, before)
        part = ViewPart(
            plan,
            rows,
            before,
            after,
            used=delta.used - late,
            filtered=delta.filtered,
            late=late,
            failed=delta.failed,
            late_rows=opened.late_rows(plan, before) if late else None,
            failed_rows=opened.failed_rows(plan) if delta.failed else None,
        )
        decoded = stats.rows - stats.dead
        if part.used + part.filtered + part.late + part.failed != decoded:
            raise MillstreamError(
                "ACCOUNTING",
                f"view {plan.name}: {decoded} rows decoded, but {part.used} used, {part.filtered} filtered, "
                f"{part.late} late and {part.failed} failed",
                hint="this is a defect in Millstream; nothing was committed",
            )
        return part

    # -- history -------------------------------------------------------------------------------

    def _catch_up(self) -> int | None:
        """One epoch of history for a view that is younger than its stream; None when all have joined."""
        for view in self.catalog.views():
            behind = self.store.view_progress(view.name)
            if behind is None:
                continue
            plan = self.plan(view)
            entry = self.catalog.stream(plan.stream)
            return self._read_history(entry, plan, behind)
        return None

    def _read_history(self, entry: StreamEntry, plan: View, behind: Progress) -> int:
        now = self.clock.now()
        live = self._progress(entry)
        cut = None
        if entry.source is not None:
            cut = entry.source.cut(behind.offsets, self.settings.max_epoch_rows, until=live.offsets)
        if cut is None:
            joined = ViewPart(plan, None, *watermarks(plan, behind, _at_least(live, behind)))
            return self._commit(EpochPart(now, [StreamPart(entry.stream, live)], [joined]))
        (read,) = self.reader.read((Job(entry, behind.offsets, cut, (plan,), now),))
        try:
            moved = replace(
                self._advance(entry, behind, read.stats.newest, now),
                offsets=dict(cut.offsets),
                clock=min(clock_after(read, behind.clock), live.clock),
            )
            done = all(moved.offsets.get(p, 0) >= end for p, end in live.offsets.items())
            after = _at_least(live, moved) if done else moved
            part = replace(self._judge(read, plan, behind, after), catching_up=None if done else moved)
            stream = StreamPart(entry.stream, live, rows=read.stats.rows, dead=read.stats.dead)
            return self._commit(EpochPart(now, [stream], [part]))
        finally:
            read.opened.close()

    # -- waiting -------------------------------------------------------------------------------

    def seconds_until_due(self) -> float | None:
        """How long nothing can happen without new rows; None if there is no limit."""
        now = self.clock.now()
        instants = [self.next_due_at] if self.next_due_at is not None else []
        for entry in self.catalog.streams():
            at = next_idle_at(self._progress(entry).active_at, entry.options.idle_timeout, now)
            if at is not None:
                instants.append(at)
        return max(0.0, (min(instants) - now) / 1_000_000) if instants else None


def watermarks(plan: View, before: Progress, after: Progress) -> tuple[int, int]:
    """What closes the windows of a view around an epoch: the watermark, or the clock."""
    if _on_clock(plan):
        return before.clock, after.clock
    return before.watermark, after.watermark


def clock_after(read: Read, before: int) -> int:
    """Up to which processing time all rows that landed have been read, if a view needs to know."""
    job, landed = read.job, read.stats.landed
    if not any(_on_clock(plan) for plan in job.plans):
        return before
    source, reached = job.entry.source, job.cut.offsets
    if source is None or all(reached.get(p, 0) >= end for p, end in source.end().items()):
        return max(before, job.at)
    # What is left of a partition landed after what was read of it; a row without a time lands when it is read.
    return max(before, min(landed.values(), default=job.at))


def split_late(plan: View, rows: pa.Table, before: int) -> tuple[pa.Table, int]:
    """Take what no open window holds out of a delta: (the rest, how many rows are late)."""
    window = plan.window
    if window is None or not plan.windows_close or before == BEGINNING or rows.num_rows == 0:
        return rows, 0
    # On processing time no row is late, and no time closes a count window.
    if window.on_clock or isinstance(window, CountWindow):
        return rows, 0
    late = window.complete_at(lambda name: rows.column(name).to_numpy()) + plan.lateness <= before
    if not late.any():
        return rows, 0
    counts = rows.column("__rows").to_numpy() if isinstance(plan, AggregateView) else np.ones(len(late), np.int64)
    return rows.filter(pa.array(~late)), int(counts[late].sum())


def _on_clock(plan: View) -> bool:
    return isinstance(plan, AggregateView) and plan.on_clock


def _at_least(progress: Progress, behind: Progress) -> Progress:
    """The progress of a stream for a view that joins it and may have come further already."""
    return replace(
        progress,
        watermark=max(progress.watermark, behind.watermark),
        clock=max(progress.clock, behind.clock),
    )
