"""The commit of an epoch: streams and tables, views, swaps, queries, letters, the epoch record; in one transaction.

Owns the order of things in it and `ms.epochs`. What always holds: views move to and from shelves before or after
the transaction, never within it; a view that cannot be maintained is named, and nothing of the epoch is there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import duckdb

from millstream.model.progress import BEGINNING
from millstream.plan.nodes import VERSIONS, AppendView, QueryView
from millstream.store.commands import Commit, StreamPart, Swap, ViewPart
from millstream.store.duckdb import catalog
from millstream.store.duckdb.append import Append
from millstream.store.duckdb.completeness import count_arrivals
from millstream.store.duckdb.deltas import is_changed
from millstream.store.duckdb.failures import Blame, SharedFailedError, forget_failures, save_failures
from millstream.store.duckdb.letters import keep_dead, keep_late
from millstream.store.duckdb.maintainers import maintainer, merge_delta
from millstream.store.duckdb.moment import Moment
from millstream.store.duckdb.query import QueryMaintainer
from millstream.store.duckdb.shelves import Taken
from millstream.store.duckdb.swap import Swapping
from millstream.store.duckdb.table import Table
from millstream.store.duckdb.writer import Writer


class Commits:
    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def commit(self, part: Commit) -> None:
        writer, shelves = self._writer, self._writer.shelves
        if part.swaps:
            # It takes changelogs and letters away that retention may be working on.
            writer.cleaner.settle()
        feeding = {i.relation for q in part.queries if isinstance(q.view, QueryView) for i in q.view.inputs}
        swapped = [name for swap in part.swaps for name in (*swap.built, *(old.name for old in swap.old.parts))]
        outdated = [v.view for v in part.views if v.view.name in shelves and not shelves.suits(v.view)]
        names = [view.name for view in outdated]
        misplaced = shelves.misplaced(part.views, feeding)
        # The rows of a shelf fire together: a view that stands still would go on firing there.
        taken = writer.take_from_shelves([*names, *misplaced, *swapped, *part.failed])
        apart: dict[str, Taken] = {}
        try:
            self._commit_apart(part, feeding, apart)
        except Exception:
            # A commit that fails leaves no trace: it is not in the sequence of commands.
            writer.put_back(taken | apart)
            raise
        joined = [v.view for v in part.views if v.catching_up is None and writer.progress.view(v.view.name)]
        self._note(part)
        writer.put_back(apart)
        new = [*outdated, *joined, *(view for swap in part.swaps for view in swap.new.parts)]
        writer.put_on_shelves([view for view in new if view.name not in feeding])

    def _commit_apart(self, part: Commit, feeding: set[str], apart: dict[str, Taken]) -> None:
        """Commit; views whose shelf cannot be merged are taken from it, so that each succeeds or fails alone.

        `apart` gets where these were.
        """
        while True:
            try:
                return self._write(part, feeding)
            except SharedFailedError as shared:
                apart |= self._writer.take_from_shelves(shared.views)

    def _note(self, part: Commit) -> None:
        """Remember what has been committed."""
        writer = self._writer
        writer.epoch += 1
        writer.failures.update(part.failed)
        for stream in part.streams:
            writer.progress.note(stream.stream.name, "stream", stream.progress)
        for view in part.views:
            writer.progress.note(view.view.name, "view", view.catching_up)
        for swap in part.swaps:
            writer.writing.forget(*swap.gone, *swap.built, *(view.name for view in swap.new.parts))
            writer.failures.pop(swap.new.view.name, None)
            for name in swap.gone:
                writer.progress.note(name, "view", None)

    # -- the transaction -----------------------------------------------------------------------

    def _write(self, part: Commit, feeding: set[str]) -> None:
        writer = self._writer
        with writer.transaction() as txn, Blame() as blame:
            epoch = writer.epoch + 1
            changed: set[str] = set()
            stale: dict[str, int] = {}
            for stream in part.streams:
                moment = Moment(epoch, part.now, BEGINNING, stream.progress.watermark)
                name = stream.stream.name
                stale[name] = self._commit_stream(txn, stream, moment)
                changed |= {n for n in (name, name + VERSIONS) if n in feeding and is_changed(txn, n)}
            shelved = [view for view in part.views if view.view.name in writer.shelves]
            writer.shelves.merge(shelved, epoch, part.now, blame)
            for view in part.views:
                blame.on(view.view.name)
                if self._commit_view(txn, view, epoch, part, view.view.name in feeding):
                    changed.add(view.view.name)
            blame.on()
            count_arrivals(txn, part.views, Moment(epoch, part.now), writer.writing)
            for swap in part.swaps:
                blame.on(swap.built[-1])
                if self._swap(txn, swap, Moment(epoch, part.now)):
                    changed.add(swap.new.view.name)
            for query in part.queries:
                assert isinstance(query.view, QueryView)
                blame.on(query.view.name)
                statements = writer.writing.of(query.view.name, Moment(epoch, part.now, query.before, query.after))
                if QueryMaintainer(query.view).maintain(statements, changed):
                    changed.add(query.view.name)
            for rows in part.kept:
                assert isinstance(rows.view, AppendView)
                blame.on(rows.view.name)
                Append(rows.view).let_go(txn, Moment(epoch, part.now, rows.before, rows.after))
            blame.on()
            save_failures(txn, part.failed)
            _record(txn, part, epoch, stale)

    def _commit_stream(self, txn: duckdb.DuckDBPyConnection, part: StreamPart, at: Moment) -> int:
        """Commit a stream's share; of a table, how many changes came too late to change anything."""
        stream = part.stream
        self._writer.progress.save(txn, stream.name, "stream", part.progress)
        catalog.add_files(txn, stream.name, part.files)
        if part.dead_rows is not None:
            keep_dead(txn, stream, None, at, part.dead_rows)
        return Table(stream).merge(txn, part.table_rows, at) if stream.primary_key else 0

    def _commit_view(
        self, txn: duckdb.DuckDBPyConnection, part: ViewPart, epoch: int, whole: Commit, feeds: bool
    ) -> bool:
        """Commit a view's share. Returns True if others have to know of changes."""
        writer, name = self._writer, part.view.name
        moment = Moment(epoch, whole.now, part.before, part.after)
        changed = name not in writer.shelves and self._merge(part, moment, feeds)
        stream = next((s.stream for s in whole.streams if s.stream.name == part.view.stream), None)
        if stream is not None and part.late_rows is not None:
            keep_late(txn, stream, name, moment, part.late_rows)
        if stream is not None and part.failed_rows is not None:
            keep_dead(txn, stream, name, moment, part.failed_rows)
        writer.progress.save(txn, name, "view", part.catching_up)
        return changed

    def _merge(self, part: ViewPart, at: Moment, feeds: bool) -> bool:
        """Merge the delta of a view that has tables of its own. Returns True if others have to know of changes."""
        statements = self._writer.writing.of(part.view.name, at, feeds=feeds)
        merge_delta(maintainer(part.view), statements, part.delta, repeats=part.repeats)
        return statements.changes is not None and statements.changes.finish()

    def _swap(self, txn: duckdb.DuckDBPyConnection, swap: Swap, at: Moment) -> bool:
        """Put a rebuilt view in place. Returns True if readers see a difference."""
        differs = Swapping(txn, swap, at).run()
        for name in swap.gone:
            self._writer.progress.save(txn, name, "view", None)
        catalog.forget(txn, swap.built[-1])
        catalog.change_statement(txn, swap.new.view.name, swap.statement)
        forget_failures(txn, [swap.new.view.name])
        return differs


def _record(txn: duckdb.DuckDBPyConnection, part: Commit, epoch: int, stale: Mapping[str, int]) -> None:
    """Add the epoch record."""
    offsets = {s.stream.name: dict(s.progress.offsets) for s in part.streams}
    watermarks = {s.stream.name: s.progress.watermark for s in part.streams if s.stream.watermark}
    streams = {s.stream.name: {"in": s.rows, "decoded": s.rows - s.dead, "dead": s.dead} for s in part.streams}
    for table in (s for s in part.streams if s.stream.primary_key):
        filtered = stale[table.stream.name]
        streams[table.stream.name] |= {"used": table.rows - table.dead - filtered, "filtered": filtered}
    views = {
        v.view.name: {"used": v.used, "filtered": v.filtered, "late": v.late, "failed": v.failed} for v in part.views
    }
    rows_in, dead = sum(s.rows for s in part.streams), sum(s.dead for s in part.streams)
    txn.execute(
        "INSERT INTO ms.epochs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            epoch,
            part.now,
            rows_in,
            rows_in - dead,
            dead,
            *(sum(v[key] for v in views.values()) for key in ("used", "filtered", "late", "failed")),
            *(json.dumps(value) for value in (offsets, watermarks, streams, views, dict(part.timings))),
        ],
    )
