"""The proof: every view against the batch query over the same posts, computed with Arrow.

Owns the batch queries, written independently of the engine: windows are enumerated row by row
here, where the engine combines panes. Posts that the engine set aside as late for a view are left
out of its batch query, and counted. Nothing is rounded: rows are equal or they are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.api import Connection
from millstream.cli.progress import find_stream
from millstream.model.time import MICROS, to_micros

Rows = Counter[tuple[Any, ...]]
"""Rows as they are compared: how often each is there."""

_SLIDE, _SIZE, _MINUTE = 10 * MICROS, 60 * MICROS, 60 * MICROS
_INSTANT = pa.timestamp("us")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One view against its batch query."""

    view: str
    what: str
    rows: int
    expected: int
    different: int
    late: int

    @property
    def is_equal(self) -> bool:
        return self.different == 0 and self.rows == self.expected


def prove(db: Connection, posts: pa.Table) -> list[Comparison]:
    """Compare every view, and what the changelog of `trending` adds up to."""
    late = db.query("SELECT DISTINCT _view, id FROM posts__late").to_arrow()
    stream = find_stream(db.status(), "posts")
    watermark = stream["watermark"] if stream is not None else None
    comparisons = []
    for view, (what, batch) in _BATCH.items():
        ids = late.filter(pc.field("_view") == view).column("id")
        kept = posts.filter(pc.invert(pc.is_in(posts.column("id"), value_set=ids.cast(pa.int64()))))
        comparisons.append(_compare(view, what, _view_rows(db, view), batch(kept, watermark), len(ids)))
    replayed = _replayed(db.changes("trending"))
    comparisons.append(_compare("trending", "changelog replayed", _view_rows(db, "trending"), replayed, 0))
    return comparisons


def _compare(view: str, what: str, rows: Rows, expected: Rows, late: int) -> Comparison:
    different = (rows - expected).total() + (expected - rows).total()
    return Comparison(view, what, rows.total(), expected.total(), different, late)


def _view_rows(db: Connection, view: str) -> Rows:
    return Counter(tuple(row.values()) for row in db.query(f"SELECT * FROM {view}"))


def _trending(posts: pa.Table, watermark: datetime | None) -> Rows:
    """All hopping windows of a minute, every ten seconds, with the posts and likes of each topic."""
    posted = posts.column("posted_at").cast(pa.int64())
    newest = pc.multiply(pc.divide(posted, _SLIDE), _SLIDE)
    shares = [posts.append_column("start", pc.subtract(newest, back)) for back in range(0, _SIZE, _SLIDE)]
    groups = pa.concat_tables(shares).group_by(["start", "topic"]).aggregate([("id", "count"), ("likes", "sum")])
    columns = [
        _instants(groups, "start", 0),
        _instants(groups, "start", _SIZE),
        *_lists(groups, "topic", "id_count", "likes_sum"),
    ]
    return Counter(zip(*columns, strict=True))


def _per_minute(posts: pa.Table, watermark: datetime | None) -> Rows:
    """The complete minutes, with the posts and authors of each language."""
    if watermark is None:
        return Counter()
    minute = pc.multiply(pc.divide(posts.column("posted_at").cast(pa.int64()), _MINUTE), _MINUTE)
    complete = posts.append_column("start", minute).filter(pc.field("start") <= to_micros(watermark) - _MINUTE)
    groups = complete.group_by(["start", "language"]).aggregate([("id", "count"), ("author", "count_distinct")])
    columns = [
        _instants(groups, "start", 0),
        _instants(groups, "start", _MINUTE),
        *_lists(groups, "language", "id_count", "author_count_distinct"),
    ]
    return Counter(zip(*columns, strict=True))


def _authors(posts: pa.Table, watermark: datetime | None) -> Rows:
    """All authors, with their posts, likes and last post."""
    groups = posts.group_by("author").aggregate([("id", "count"), ("likes", "sum"), ("posted_at", "max")])
    return Counter(zip(*_lists(groups, "author", "id_count", "likes_sum", "posted_at_max"), strict=True))


_BATCH: dict[str, tuple[str, Callable[[pa.Table, datetime | None], Rows]]] = {
    "trending": ("all windows", _trending),
    "posts_per_minute": ("complete minutes", _per_minute),
    "authors": ("all authors", _authors),
}


def _replayed(changes: Iterable[dict[str, Any]]) -> Rows:
    """What insertions and retractions leave."""
    rows: Rows = Counter()
    names = ("window_start", "window_end", "topic", "posts", "likes")
    for change in changes:
        rows[tuple(change[name] for name in names)] += {"insert": 1, "retract": -1}[change["op"]]
    # A row that was inserted again after it was taken back is there once.
    return Counter({row: 1 for row, number in rows.items() if number > 0})


def _instants(table: pa.Table, column: str, later: int) -> list[datetime]:
    instants: list[datetime] = pc.add(table.column(column), later).cast(_INSTANT).to_pylist()
    return instants


def _lists(table: pa.Table, *columns: str) -> list[list[Any]]:
    return [table.column(column).to_pylist() for column in columns]
