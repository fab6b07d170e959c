"""The epoch loop: cut slices, have deltas computed, judge lateness, commit.

One epoch covers every stream that has new rows. Draining, continuous running and reading history
are the same code: whoever calls, an epoch takes rows with their offsets and commits the offsets
with the results. Nothing is recorded when nothing happened. A source that cannot be read is left out of the epoch:
its offsets, its watermark and its clock stay, and `health` says when it is tried again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from millstream.engine.define.catalog import SUCCESSOR, Catalog, StreamEntry, ViewEntry
from millstream.engine.run.dead_files import dead_file, read_files
from millstream.engine.run.health import Health, SourceFailedError
from millstream.engine.run.isolation import Isolation, view_of
from millstream.engine.run.judging import judge
from millstream.engine.run.letters import fetch_dead, fetch_set_aside
from millstream.engine.run.pace import Pace
from millstream.engine.run.reads import Following, Job, Read, Reader
from millstream.engine.run.turns import Turns
from millstream.model.errors import UnavailableError
from millstream.model.lateness import Lateness
from millstream.model.progress import BEGINNING, Progress
from millstream.model.recovery import again
from millstream.model.settings import EngineSettings
from millstream.model.time import MICROS, Clock, parse_duration
from millstream.plan.compute import StreamStats
from millstream.plan.nodes import AggregateView, AppendView, TopView, View, ViewPlan
from millstream.plan.slices import BatchSlice
from millstream.plan.watermarks import advance, next_idle_at, slack_of
from millstream.sources import Cut, Offsets, UnreadableError
from millstream.store.commands import Commit, QueryPart, StreamPart, ViewPart
from millstream.store.protocol import Store, ViewFailedError

Marks = Callable[[ViewPlan, tuple[str, ...]], tuple[int, int]]
"""The watermark that some streams have together for a view, before and after an epoch."""


@dataclass(slots=True)
class EpochLoop:
    """Runs epochs, one at a time, for whoever asks."""

    catalog: Catalog
    store: Store
    clock: Clock
    settings: EngineSettings
    plan: Callable[[ViewEntry], ViewPlan]
    lock: Turns
    committed: threading.Condition
    """Notified after every commit."""
    reader: Reader
    timer: Callable[[], float] = time.perf_counter
    """Seconds: what measures how long things take."""
    pace: Pace = field(init=False)
    isolation: Isolation = field(init=False)
    health: Health = field(init=False)
    """Of sources, by the incarnations of their streams."""
    next_due_at: int | None = None
    seconds: float = 0.0
    """How long the last epoch over live rows took."""
    _knows_timers: bool = False

    def __post_init__(self) -> None:
        self.pace = Pace(self.settings.max_epoch_rows)
        self.isolation = Isolation(self.catalog, self.store)
        self.health = Health(self.clock)
        self.aim_at(self.settings.target_latency)

    def aim_at(self, target_latency: str | None) -> None:
        """How long rows may take from arrival to commit, from the next epoch on."""
        self.pace.target = None if target_latency is None else parse_duration(target_latency) / MICROS

    def ends(self) -> dict[str, Offsets]:
        """How far every stream reaches now, as far as the sources answer."""
        found: dict[str, Offsets] = {}
        for entry in self.catalog.streams():
            with self.health.confined(entry.incarnation):
                found[entry.name] = entry.source.end()
        return found

    def run(self, until: Mapping[str, Offsets] | None = None) -> int | None:
        """One epoch over what there is, or over what there is before `until`; None when there is nothing to do.

        Where `until` is given somebody waits for all of it, so epochs are as large as they may be, and streams that it
        does not name are left alone. Raises `SourceFailedError` if sources failed and nothing else was to be done.
        """
        with self.lock:
            if not self._knows_timers:
                self._read_timers()
            jobs = self.reader.ahead(self._is_current)
            if jobs is None:
                jobs = self._jobs({}, until)
            return again(lambda: self._run(jobs, lambda done: self._jobs_ahead(done, until)))

    def run_batch(self, entry: StreamEntry, slice_: BatchSlice) -> int | None:
        """One epoch over a micro-batch that Structured Streaming handed over, once."""
        with self.lock:
            if not self.catalog.has(entry):
                return None
            start = self.progress(entry).offsets
            if slice_.batch_id < start.get(0, 0):
                return None
            now = self.clock.now()
            landed = replace(slice_, landed_at=max(now, entry.options.landed_floor(self.clock)))
            cut = Cut(landed, {0: slice_.batch_id + 1})
            newest = newest_before(entry, self.progress(entry))
            jobs = (Job(entry, start, cut, self.plans_of(entry), now, newest),)
            number = again(lambda: self._run(jobs, None))
            self.health.recovered(entry.incarnation)
            return number

    def _jobs(self, done: Mapping[str, Progress], until: Mapping[str, Offsets] | None) -> tuple[Job, ...]:
        """What can be read next; `done` says where streams will be whose epoch is under way."""
        jobs = []
        now = self.clock.now()
        waiting = self._waiting(done, until)
        limits = self.pace.limits(waiting) if until is None else {}
        for entry in self.catalog.streams():
            if not waiting.get(entry.name):
                continue
            progress = done.get(entry.name, self.progress(entry))
            start = progress.offsets
            end = None if until is None else until[entry.name]
            cut, fault = None, None
            with self.health.confined(entry.incarnation):
                try:
                    cut = entry.source.cut(start, limits.get(entry.name, self.settings.max_epoch_rows), end)
                except UnreadableError as error:
                    cut, fault = error.cut, error
            if cut is not None:
                newest = newest_before(entry, progress)
                jobs.append(Job(entry, dict(start), cut, self.plans_of(entry), now, newest, fault))
        if jobs:
            self.pace.begin(waiting, {job.entry.name: job.cut.length for job in jobs}, self.timer())
        return tuple(jobs)

    def _jobs_ahead(self, done: Mapping[str, Progress], until: Mapping[str, Offsets] | None) -> tuple[Job, ...]:
        """What can be read while an epoch is committed, unless it had better wait for more."""
        waits = until is None and (not self.pace.is_pressed or self._pause(done) > 0)
        return () if waits else self._jobs(done, until)

    def _waiting(self, done: Mapping[str, Progress], until: Mapping[str, Offsets] | None = None) -> dict[str, int]:
        """The offsets of each stream that no epoch has taken yet; nothing of sources that fail and rest."""
        found: dict[str, int] = {}
        for entry in self.catalog.streams():
            if self.health.rests(entry.incarnation) or (until is not None and entry.name not in until):
                continue
            with self.health.confined(entry.incarnation):
                count = entry.source.waiting(done.get(entry.name, self.progress(entry)).offsets)
                found[entry.name] = count
                if not count and entry.options.pushed() is None:
                    self.health.recovered(entry.incarnation)
        return found

    def is_failing(self, entry: StreamEntry) -> bool:
        return self.health.error(entry.incarnation) is not None

    def _is_current(self, job: Job) -> bool:
        """Whether a job that was begun ahead is still what would be done now."""
        entry = job.entry
        return (
            self.catalog.find(entry.name) is entry
            and dict(self.progress(entry).offsets) == dict(job.start)
            and newest_before(entry, self.progress(entry)) == job.newest
            and self.plans_of(entry) == job.plans
        )

    def plans(self) -> list[ViewPlan]:
        """All views that do not stand still, then those that are being built to take the place of others."""
        views, attempt = self.catalog.views(), self.isolation.attempt
        plans = [attempt(view.name, partial(self.plan, view)) for view in views]
        built = [(view.name + SUCCESSOR, view.successor) for view in views if view.successor is not None]
        plans += [attempt(name, partial(getattr, successor, "parts")) for name, successor in built]
        return [plan for plan in plans if plan is not None]

    def plans_of(self, entry: StreamEntry) -> tuple[View, ...]:
        """The parts that live on a stream: those that still read its past are elsewhere."""
        return tuple(
            part
            for plan in self.plans()
            for part in plan.on_spark
            if part.stream == entry.name and self.store.view_progress(part.name) is None
        )

    def progress(self, entry: StreamEntry) -> Progress:
        return self.store.progress(entry.name) or Progress()

    # -- an epoch ------------------------------------------------------------------------------

    def _run(self, jobs: tuple[Job, ...], following: Following | None) -> int | None:
        """Read jobs, judge, commit. Meanwhile what comes next is begun, if there is a backlog."""
        reads: list[Read] = []
        failed: list[SourceFailedError] = []
        began = self.timer()
        try:
            # Whoever pushes a batch is told that it was not taken.
            reads = self._read(jobs, failed) if following is not None else self.reader.read(jobs)
            read_at = self.timer()
            now = self.clock.now()
            moved = {read.job.entry.name: self._moved(read.job.entry, read, now) for read in reads}
            if jobs and following is not None:
                self.reader.go_ahead(moved, following)
            epoch = Epoch(self, now)
            for read in reads:
                epoch.move(read.job.entry, moved[read.job.entry.name])
            for entry in self.catalog.streams():
                if entry.name not in epoch.moves:
                    # Rows may wait behind a source that fails: it is not idle.
                    idle = not self.is_failing(entry)
                    before = self.progress(entry)
                    epoch.move(entry, self.advance(entry, before, None, now) if idle else before)
            for read in reads:
                epoch.take(read)
            epoch.fetch_letters(reads)
            timer_due = self.next_due_at is not None and self.next_due_at <= now
            epoch.take_idle({read.job.entry.name for read in reads}, timer_due)
            if not epoch.streams and not epoch.views and not self.isolation.has_news():
                if failed:
                    raise failed[0]
                return None
            spark_seconds = sum(read.seconds for read in reads)
            timings = {"spark_ms": spark_seconds * 1000}
            # Batches of Structured Streaming are not ours to size.
            is_sized = bool(reads) and following is not None
            if is_sized:
                timings["predicted_ms"] = self.pace.cost.of(sum(read.stats.rows for read in reads)) * 1000
            number = self.commit(epoch.part(timings))
            committed_at = self.timer()
            self.seconds = committed_at - began
            if is_sized:
                # Not since it began: what was read ahead had taken its time before.
                self._learn(reads, spark_seconds + committed_at - read_at)
                self.reader.took(reads, committed_at - read_at)
            return number
        except BaseException:
            self.reader.discard()
            raise
        finally:
            for read in reads:
                read.opened.close()

    def _read(self, jobs: tuple[Job, ...], failed: list[SourceFailedError]) -> list[Read]:
        """The reads of jobs, without those of sources that fail; these are noted."""
        if not jobs:
            return []
        try:
            reads = self.reader.read(jobs)
        except UnavailableError:
            raise
        except Exception as error:
            reads = self._read_apart(jobs, error, failed)
        for read in reads:
            self.health.recovered(read.job.entry.incarnation)
        return reads

    def _read_apart(self, jobs: tuple[Job, ...], error: Exception, failed: list[SourceFailedError]) -> list[Read]:
        """The reads of jobs, each by itself, after they failed together."""
        reads: list[Read] = []
        try:
            for job in jobs:
                try:
                    # A file that failed alone is read once more before it is set aside.
                    known = error if len(jobs) == 1 and dead_file(job) is None else None
                    reads.append(read_files(job, self.reader, known))
                except UnavailableError:
                    raise
                except Exception as alone:
                    noted = self.health.fail(job.entry.incarnation, alone)
                    failed.append(SourceFailedError(noted))
        except BaseException:
            for read in reads:
                read.opened.close()
            raise
        return reads

    def _learn(self, reads: Sequence[Read], seconds: float) -> None:
        taken = {read.job.entry.name: read.job.cut.length for read in reads}
        self.pace.learn(taken, {read.job.entry.name: read.stats.rows for read in reads}, seconds)

    def _moved(self, entry: StreamEntry, read: Read, now: int) -> Progress:
        moved = self.advance(entry, self.progress(entry), read.stats, now)
        return replace(moved, offsets=dict(read.job.cut.offsets), clock=clock_after(read, moved.clock))

    def commit(self, part: Commit, noted: Callable[[], None] | None = None) -> int:
        """Commit an epoch without views that fail; `noted` is what must be known of its swap before anybody looks."""
        while True:
            part = self.isolation.without(part)
            try:
                epoch = self.store.apply(part)
                break
            except ViewFailedError as error:
                if view_of(error.view) in part.failed:
                    raise
                self.isolation.fail(view_of(error.view), error)
        self.isolation.committed(part)
        if noted is not None and part.swaps:
            noted()
        self._read_timers()
        with self.committed:
            self.committed.notify_all()
        return epoch

    def _read_timers(self) -> None:
        """Processing-time triggers are part of the state, so they survive a restart."""
        self.next_due_at = self.store.next_due_at([part for plan in self.plans() for part in plan.on_spark])
        self._knows_timers = True

    def advance(self, entry: StreamEntry, progress: Progress, stats: StreamStats | None, now: int) -> Progress:
        newest = stats.newest if stats is not None else {}
        merged = {**progress.newest}
        for partition, at in newest.items():
            merged[partition] = max(at, merged.get(partition, at))
        active = {**progress.active_at, **dict.fromkeys(newest, now)}
        progress = replace(progress, newest=merged, active_at=active)
        if entry.stream.watermark is None:
            return progress
        if entry.stream.percentile is not None and stats is not None:
            seen = (progress.lateness or Lateness()).add(stats.lateness, entry.stream.percentile)
            progress = replace(progress, lateness=seen)
        slack = slack_of(entry.stream.watermark, progress.lateness)
        if slack is None:
            return progress
        watermark = advance(
            progress.watermark,
            merged,
            active,
            slack=slack,
            idle_timeout=entry.options.idle_timeout,
            now=now,
        )
        return replace(progress, watermark=watermark)

    # -- waiting -------------------------------------------------------------------------------

    def pause(self) -> float:
        """For how many seconds the next epoch had better wait for more rows; 0 also when a timer is due."""
        return 0.0 if self.reader.is_ahead or self.seconds_until_due() == 0 else self._pause({})

    def _pause(self, done: Mapping[str, Progress]) -> float:
        return 0.0 if self.pace.target is None else self.pace.pause(self._waiting(done), self.timer())

    def seconds_until_due(self) -> float | None:
        """How long nothing can happen without new rows; None if there is no limit."""
        now = self.clock.now()
        instants = [self.next_due_at] if self.next_due_at is not None else []
        for entry in self.catalog.streams():
            if self.is_failing(entry):
                continue
            at = next_idle_at(self.progress(entry).active_at, entry.options.idle_timeout, now)
            if at is not None:
                instants.append(at)
        return max(0.0, (min(instants) - now) / 1_000_000) if instants else None


def newest_before(entry: StreamEntry, progress: Progress) -> dict[int, int]:
    """What a job over the rows that follow must know to tell how late they are."""
    return dict(progress.newest) if entry.stream.percentile is not None else {}


@dataclass(slots=True)
class Epoch:
    """An epoch while it is put together."""

    loop: EpochLoop
    now: int
    streams: list[StreamPart] = field(default_factory=list)
    views: list[ViewPart] = field(default_factory=list)
    moves: dict[str, tuple[Progress, Progress]] = field(default_factory=dict)
    """How far the streams were and how far they are."""
    behind: dict[str, tuple[Progress, Progress]] = field(default_factory=dict)
    """The same for parts of views that read the past."""
    _plans: dict[str, ViewPlan] = field(init=False)
    """The plan that each part on Spark belongs to."""

    def __post_init__(self) -> None:
        self._plans = {part.name: plan for plan in self.loop.plans() for part in plan.on_spark}

    def move(self, entry: StreamEntry, after: Progress) -> None:
        self.moves[entry.name] = (self.loop.progress(entry), after)

    def marks(self, plan: ViewPlan, streams: tuple[str, ...], *, on_clock: bool = False) -> tuple[int, int]:
        """The watermark (or the clock) that some streams have together for a view: that of the slowest.

        Where the view still reads the past of a stream, it is that past's.
        """
        before, after = [], []
        for stream in streams:
            moves = [self.moves[stream]] if stream in self.moves else []
            for part in plan.on_spark:
                behind = self.loop.store.view_progress(part.name)
                if part.stream == stream and (part.name in self.behind or behind is not None):
                    moves = [self.behind.get(part.name) or (behind or Progress(), behind or Progress())]
            for was, is_ in moves:
                before.append(was.clock if on_clock else was.watermark)
                after.append(is_.clock if on_clock else is_.watermark)
        return min(before, default=BEGINNING), min(after, default=BEGINNING)

    def take(self, read: Read) -> None:
        """What a read of live rows adds, judged; the rows that are set aside are fetched later."""
        entry, cut, stats = read.job.entry, read.job.cut, read.stats
        self.streams.append(
            StreamPart(
                entry.stream,
                self.moves[entry.name][1],
                rows=stats.rows,
                dead=stats.dead,
                files=cut.files,
                table_rows=read.table_rows,
            )
        )
        for part in read.job.plans:
            self.judge(read, part)

    def judge(self, read: Read, part: View, catching_up: Progress | None = None) -> None:
        """What a read adds to a view, unless that fails."""
        with self.loop.isolation.confined(view_of(part.name)):
            if part.name in read.failures:
                raise read.failures[part.name]
            if not read.stats.decoded and part.name not in read.deltas:
                self.views.append(ViewPart(part, None, *self.marks_of(part), catching_up=catching_up))
                return
            judged = judge(part, read.deltas[part.name], read.stats.decoded, *self.marks_of(part))
            self.views.append(replace(judged, catching_up=catching_up))

    def fetch_letters(self, reads: Sequence[Read]) -> None:
        """Ask for the rows that were set aside, after all reads were taken. This may run jobs."""
        opened = {read.job.entry.name: read.opened for read in reads}
        self.streams = [fetch_dead(part, opened[part.stream.name]) for part in self.streams]
        self.fetch_set_aside(reads)

    def fetch_set_aside(self, reads: Sequence[Read]) -> None:
        """The late and failed rows of judged views; a view of which they cannot be had fails."""
        opened = {read.job.entry.name: read.opened for read in reads}
        judged, self.views = self.views, []
        for part in judged:
            with self.loop.isolation.confined(view_of(part.view.name)):
                self.views.append(fetch_set_aside(part, opened[part.view.stream]))

    def take_idle(self, busy: set[str], timer_due: bool) -> None:
        """Streams without new rows: their watermarks may move all the same, and timers may be due."""
        for entry in self.loop.catalog.streams():
            if entry.name in busy:
                continue
            before, after = self.moves[entry.name]
            parts = self.loop.plans_of(entry)
            # The rows that a failing source has still to bring landed before now.
            has_clock = not self.loop.is_failing(entry)
            if timer_due and has_clock and any(is_on_clock(part) for part in parts):
                after = replace(after, clock=max(before.clock, self.now))
                self.moves[entry.name] = (before, after)
            if (before.watermark, before.clock) != (after.watermark, after.clock):
                self.streams.append(StreamPart(entry.stream, after))
            chosen: list[View] = []
            if before.watermark != after.watermark:
                chosen += parts
            elif timer_due:
                timed = [part for part in parts if isinstance(part, AggregateView)]
                chosen += [part for part in timed if part.trigger.intervals or (part.on_clock and has_clock)]
            self.views.extend(ViewPart(part, None, *self.marks_of(part)) for part in chosen)

    def marks_of(self, part: View) -> tuple[int, int]:
        horizon = part.horizon if isinstance(part, AppendView) else None
        streams = horizon.streams if horizon is not None else (part.stream,)
        return self.marks(self._plans[part.name], streams, on_clock=is_on_clock(part))

    def part(self, timings: Mapping[str, float]) -> Commit:
        """All of it, with what is computed in the store from these changes."""
        queries: list[QueryPart] = []
        kept: list[QueryPart] = []
        touched = {view.view.name for view in self.views if view.delta is not None and view.delta.num_rows}
        for plan in self.loop.plans():
            queries.extend(QueryPart(query, *self.marks(plan, query.streams)) for query in plan.in_store)
            kept.extend(
                QueryPart(part, *self.marks_of(part))
                for part in plan.on_spark
                if isinstance(part, AppendView)
                and not isinstance(part, TopView)
                and (part.horizon or (part.top and part.name in touched))
            )
        return Commit(self.now, self.streams, self.views, queries, kept, timings)


def clock_after(read: Read, before: int) -> int:
    """Up to which processing time all rows that landed have been read, if a view needs to know."""
    job, landed = read.job, read.stats.landed
    if not any(is_on_clock(part) for part in job.plans):
        return before
    if reaches_end(job):
        return max(before, job.at)
    # What is left of a partition landed after what was read of it; a row without a time lands when it is read.
    return max(before, min(landed.values(), default=job.at))


def reaches_end(job: Job) -> bool:
    """Whether there is nothing behind a cut, as far as its source can tell."""
    try:
        ends = job.entry.source.end()
    except Exception:
        return False
    return all(job.cut.offsets.get(p, 0) >= end for p, end in ends.items())


def is_on_clock(part: View) -> bool:
    return isinstance(part, AggregateView) and part.on_clock
