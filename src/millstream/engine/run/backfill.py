"""The past, read for views that are younger than their streams, and views that are built anew put in place.

A new view reads what its streams retain in slices of its own, while the others go on: Spark reads a
slice outside of the epoch loop's lock, and only the commit takes a turn. When little is left, the
last slice, after which the view is where its stream is, is read under the lock, so nothing is missed or
counted twice. Of several streams, the one whose event time is the furthest behind is read first, so
that a join over the past keeps no more than one over live rows.

Beside live epochs, slices are as large as can be committed in a small part of the time that such an
epoch takes, and Spark reads them with all cores but one.

A view whose history cannot be read keeps its progress and is tried again, later each time; the others go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from sqlglot import exp

from millstream.engine.define.catalog import SUCCESSOR, StreamEntry, Successor, ViewEntry, read_names
from millstream.engine.define.replacing import Replacing
from millstream.engine.run.dead_files import read_files
from millstream.engine.run.epochs import Epoch, EpochLoop, clock_after, newest_before
from millstream.engine.run.health import Health, HistoryFailedError
from millstream.engine.run.isolation import view_of
from millstream.engine.run.pace import Cost
from millstream.engine.run.reads import Job, Read, Reader
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.model.progress import Progress
from millstream.model.recovery import again
from millstream.plan.nodes import View, ViewPlan
from millstream.plan.slices import RowsSlice
from millstream.sources import UnreadableError
from millstream.store.commands import Failure, StreamPart, Swap, ViewPart

# How long a slice of the past may keep live epochs waiting when it is committed, if these are quick themselves.
_TURN_SECONDS = 0.075
_LEAST_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class Behind:
    """Parts of a view that read the past of one stream together."""

    of: ViewEntry | Successor | None
    """The view, or what is being built to take its place: this one, and not another of its name."""
    plan: ViewPlan
    entry: StreamEntry
    parts: tuple[View, ...]
    progress: Progress


@dataclass(slots=True)
class History:
    loop: EpochLoop
    replacing: Replacing
    reader: Reader
    beside: Reader
    """Reads while live epochs run."""
    health: Health = field(init=False)
    """Of histories, by incarnation and part."""
    _turn: Cost = field(init=False, default=Cost(0.025, 1e-6))
    """What it costs to commit a slice."""
    _left: int | None = field(init=False, default=None)
    """How much the last slice had that was read up to where the stream was then."""

    def __post_init__(self) -> None:
        self.health = Health(self.loop.clock)

    def step(self, *, beside: bool = False) -> bool:
        """Read one slice for one view, or put one in place that was built anew; False when there is nothing to do.

        Raises `HistoryFailedError` if the slice cannot be read: the next call goes on with other views.
        """
        return again(lambda: self._step(beside))

    def _step(self, beside: bool) -> bool:
        loop, asked = self.loop, self.health.asked
        with loop.lock:
            if self._recover_one() or self._swap_one():
                return True
            behind = self._next()
            if loop.isolation.has_news():
                self._record()
                return True
            if behind is None:
                return False
            live = loop.progress(behind.entry)
            most = loop.settings.max_epoch_rows
            try:
                job = self._job(behind, live, min(self._rows_beside(), most) if beside else most)
                read = self._read(job, self.reader) if job is not None and self._is_last(job, live) else None
            except UnavailableError:
                raise
            except Exception as error:
                raise self._fail(behind, error, asked) from None
            if job is None:
                self._join(behind, live)
                return True
            if read is not None:
                self._commit_and_close(behind, read)
                return True
        try:
            read = self._read(job, self.beside if beside else self.reader)
        except UnavailableError:
            raise
        except Exception as error:
            with loop.lock:
                if self._is_current(behind):
                    raise self._fail(behind, error, asked) from None
            # The stream or the view was dropped while it was read.
            return True
        try:
            with loop.lock:
                # Meanwhile the view may be gone, or another one.
                if self._is_current(behind):
                    self._commit(behind, read)
        finally:
            read.opened.close()
        return True

    def _fail(self, behind: Behind, error: Exception, asked: int) -> HistoryFailedError:
        """Note that the history of a view cannot be read now."""
        for part in behind.parts:
            noted = self.health.fail(self._key(part.name), error, asked)
        return HistoryFailedError(noted)

    def _key(self, part: str) -> str:
        """What the health of a part's history is noted under: another view of the name has another."""
        entry = self.loop.catalog.find(view_of(part).removesuffix(SUCCESSOR))
        return f"{entry.incarnation if entry is not None else ''} {part}"

    def failure(self) -> MillstreamError | None:
        """Why the history of some view cannot be read, if it cannot."""
        parts = self.loop.store.views_behind()
        self.health.keep({self._key(part) for part in parts})
        still = self.loop.isolation.stands_still
        errors = (self.health.error(self._key(part)) for part in parts if not still(view_of(part)))
        return next((error for error in errors if error is not None), None)

    def is_done(self) -> bool:
        """Whether no view reads history or waits to be put in place or rebuilt. Asks nothing of Spark."""
        still = self.loop.isolation.stands_still
        return not any(
            (view.successor is not None and not still(view.name + SUCCESSOR)) or self._is_free(view)
            for view in self.loop.catalog.views()
        ) and all(still(view_of(part)) for part in self.loop.store.views_behind())

    # -- how far it is -------------------------------------------------------------------------

    def state(self, entry: ViewEntry) -> str:
        """What a view is doing, in words. Asks nothing of Spark."""
        failure = self.loop.isolation.failure
        words = []
        if (failed := failure(entry.name)) is not None:
            words.append(failure_words(failed))
        if entry.successor is not None:
            built = entry.name + SUCCESSOR
            plan = entry.plan and entry.successor.made
            rebuild = failure(built)
            words.append(
                f"rebuild {failure_words(rebuild)}"
                if rebuild is not None
                else f"rebuilding{self._done(entry, built, plan)}"
            )
        if not words and self._parts_behind(entry.name):
            words.append(f"reading history{self._done(entry, entry.name, entry.plan)}")
        behind = [*self._parts_behind(entry.name), *self._parts_behind(entry.name + SUCCESSOR)]
        errors = [error for part in behind if (error := self.health.error(self._key(part))) is not None]
        if errors and not any(map(failure, (entry.name, entry.name + SUCCESSOR))):
            words.append(f"failing: {errors[0].message}")
        return "; ".join(words) or "live"

    def _parts_behind(self, name: str) -> dict[str, Progress]:
        behind = self.loop.store.views_behind()
        return {part: at for part, at in behind.items() if part == name or part.startswith(f"{name}$")}

    def _done(self, entry: ViewEntry, name: str, plan: ViewPlan | None) -> str:
        """The share of the past that is read: of the part that is the furthest behind."""
        streams = {part.name: part.stream for part in plan.on_spark} if plan is not None else {}
        read = [self.loop.catalog.find(each) for each in read_names(entry.statement.query)]
        only = {each.name for each in read if isinstance(each, StreamEntry) and not each.is_table}
        shares = []
        for part, progress in self._parts_behind(name).items():
            stream = streams.get(part) or (next(iter(only)) if len(only) == 1 else None)
            if stream is None:
                return ""
            try:
                shares.append(self._share(self.loop.catalog.stream(stream), progress))
            except Exception:
                # A source that fails cannot tell where its rows begin.
                return ""
        return f", {min(shares, default=1.0) * 100:.0f} % done"

    def _share(self, entry: StreamEntry, progress: Progress) -> float:
        live = self.loop.progress(entry).offsets
        start = entry.source.start()
        total = sum(max(0, end - start.get(p, 0)) for p, end in live.items())
        done = sum(max(0, min(progress.offsets.get(p, 0), end) - start.get(p, 0)) for p, end in live.items())
        return done / total if total else 1.0

    # -- reading -------------------------------------------------------------------------------

    def _next(self) -> Behind | None:
        for plan in self.loop.plans():
            found: dict[str, Behind] = {}
            for part in plan.on_spark:
                progress = self.loop.store.view_progress(part.name)
                if progress is None or self.health.rests(self._key(part.name)):
                    continue
                entry = self.loop.catalog.stream(part.stream)
                known = found.get(entry.name)
                if known is None:
                    found[entry.name] = Behind(self._built(plan), plan, entry, (part,), progress)
                elif known.progress == progress:
                    found[entry.name] = replace(known, parts=(*known.parts, part))
            if found:
                return min(found.values(), key=lambda behind: behind.progress.watermark)
        return None

    def _built(self, plan: ViewPlan) -> ViewEntry | Successor | None:
        """The view that has a plan, or the successor that has it."""
        name = plan.view.name
        entry = self.loop.catalog.find(name.removesuffix(SUCCESSOR))
        if not isinstance(entry, ViewEntry):
            return None
        return entry.successor if name.endswith(SUCCESSOR) else entry

    def _is_current(self, behind: Behind) -> bool:
        """Whether a slice is still wanted: by the same view, of the same stream, from the same place."""
        return (
            behind.plan in self.loop.plans()
            and self._built(behind.plan) is behind.of
            and self.loop.catalog.find(behind.entry.name) is behind.entry
            and all(self.loop.store.view_progress(part.name) == behind.progress for part in behind.parts)
        )

    def _job(self, behind: Behind, live: Progress, max_rows: int) -> Job | None:
        fault = None
        try:
            cut = behind.entry.source.cut(behind.progress.offsets, max_rows, until=live.offsets)
        except UnreadableError as error:
            cut, fault = error.cut, error
        if cut is None:
            return None
        newest = newest_before(behind.entry, behind.progress)
        return Job(behind.entry, behind.progress.offsets, cut, behind.parts, self.loop.clock.now(), newest, fault)

    def _is_last(self, job: Job, live: Progress) -> bool:
        """Whether to read a slice under the lock: it reaches the present, and is small or will not get smaller."""
        if not _reaches(job.cut.offsets, live):
            self._left = None
            return False
        left = job.cut.length
        last = isinstance(job.cut.slice, RowsSlice) or (self._left is not None and left >= self._left)
        self._left = None if last else left
        return last

    def _join(self, behind: Behind, live: Progress) -> None:
        """There is nothing left to read: the view is where its stream is."""
        epoch = self._epoch(behind, _at_least(live, behind.progress))
        epoch.streams.append(StreamPart(behind.entry.stream, live))
        epoch.views.extend(ViewPart(part, None, *epoch.marks_of(part)) for part in behind.parts)
        self.loop.commit(epoch.part({}))

    def _read(self, job: Job, reader: Reader) -> Read:
        """The read of a slice. A file that was set aside when its stream came to it has no rows for any view."""
        return read_files(job, reader, job.fault, partial(self._was_set_aside, job.entry))

    def _was_set_aside(self, entry: StreamEntry, number: int, path: str) -> bool:
        letters = exp.select("raw").from_(exp.to_identifier(f"{entry.name}__dead", quoted=True))
        found, _ = self.loop.store.read(letters.where(exp.column("_offset").eq(number)))
        return path in found.column("raw").to_pylist()

    def _commit_and_close(self, behind: Behind, read: Read) -> None:
        try:
            self._commit(behind, read)
        finally:
            read.opened.close()

    def _commit(self, behind: Behind, read: Read) -> None:
        loop, entry = self.loop, behind.entry
        began = loop.timer()
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
            epoch.judge(read, part, None if done else moved)
        epoch.fetch_set_aside([read])
        loop.commit(epoch.part({"spark_ms": read.seconds * 1000}))
        for part in behind.parts:
            self.health.recovered(self._key(part.name))
        self._turn = self._turn.learn(read.stats.rows, loop.timer() - began)

    def _rows_beside(self) -> int:
        """How many rows a slice has that is read beside live epochs: what can be committed in a part of their time."""
        return max(_LEAST_ROWS, int(self._turn.rows_in(max(_TURN_SECONDS, self.loop.seconds / 3))))

    def _epoch(self, behind: Behind, moved: Progress) -> Epoch:
        epoch = self._standing()
        for part in behind.parts:
            epoch.behind[part.name] = (behind.progress, moved)
        return epoch

    def _standing(self) -> Epoch:
        """An epoch in which no stream moves."""
        epoch = Epoch(self.loop, self.loop.clock.now())
        for entry in self.loop.catalog.streams():
            epoch.move(entry, self.loop.progress(entry))
        return epoch

    # -- views that stand still ----------------------------------------------------------------

    def _record(self) -> None:
        """Commit which views failed while nothing else was committed."""
        self.loop.commit(self._standing().part({}))

    def _is_free(self, entry: ViewEntry) -> bool:
        """Whether a view, or its successor, was blocked and nothing blocks it any more."""
        failure, blocking = self.loop.isolation.failure, self.loop.isolation.blocking
        name = entry.name if entry.successor is None else entry.name + SUCCESSOR
        found = failure(name)
        return found is not None and found.state == "blocked" and blocking(name) is None

    def _recover_one(self) -> bool:
        """Begin to rebuild a view that was blocked; one that cannot be rebuilt has failed itself."""
        for entry in self.loop.catalog.views():
            if self._is_free(entry):
                with self.loop.isolation.confined(entry.name):
                    self.replacing.recover(entry)
                return True
        return False

    # -- swapping ------------------------------------------------------------------------------

    def _swap_one(self) -> bool:
        """Put a view in place that is where its streams are, in an epoch of its own."""
        attempt = self.loop.isolation.attempt
        for entry in self.loop.catalog.views():
            built = entry.name + SUCCESSOR
            if entry.successor is None or not attempt(built, partial(self.replacing.is_ready, entry)):
                continue
            swap = attempt(built, partial(self.replacing.swap, entry))
            if swap is not None:
                self._swap(entry, swap)
                return True
        return False

    def swap(self, entry: ViewEntry) -> None:
        """Put a view in place at once for a caller who waits; if that fails, nothing has changed."""
        self._swap(entry, self.replacing.swap(entry))
        failure = self.loop.isolation.failure(entry.name + SUCCESSOR)
        if failure is not None:
            self.replacing.abandon(entry)
            raise MillstreamError(failure.code, failure.message, detail=failure.detail)

    def _swap(self, entry: ViewEntry, swap: Swap) -> None:
        assert entry.successor is not None
        part = self._standing().part({})
        ended = {*swap.old.parts, *entry.successor.parts.parts}
        queries = [query for query in part.queries if query.view not in ended]
        whole = replace(part, queries=queries, kept=(), swaps=(swap,))
        self.loop.commit(whole, lambda: self.replacing.swapped(entry, swap))


def failure_words(failure: Failure) -> str:
    return f"{failure.state} since epoch {failure.epoch}: {failure.message}"


def _at_least(progress: Progress, other: Progress) -> Progress:
    """The progress of a view that joins its stream, whichever of them has come further in time."""
    return replace(progress, watermark=max(progress.watermark, other.watermark), clock=max(progress.clock, other.clock))


def _reaches(offsets: Mapping[int, int], live: Progress) -> bool:
    return all(offsets.get(partition, 0) >= end for partition, end in live.offsets.items())
