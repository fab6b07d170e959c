"""The proof: every view against the batch query over the same posts, in a DuckDB of its own.

Owns the batch queries, written independently of the engine: windows are enumerated row by row
here, where the engine combines panes. Posts that the engine set aside as late for a view are left
out of its batch query, and counted. Nothing is rounded: rows are equal or they are not.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pyarrow as pa

from millstream.engine.surface.database import Database
from millstream.model.time import to_datetime


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


_TRENDING = """
SELECT start AS window_start, start + INTERVAL 1 MINUTE AS window_end, topic, count(*) AS posts, sum(likes) AS likes
FROM kept, unnest(generate_series(time_bucket(INTERVAL 10 SECONDS, posted_at) - INTERVAL 50 SECONDS,
                                  time_bucket(INTERVAL 10 SECONDS, posted_at), INTERVAL 10 SECONDS)) AS windows(start)
GROUP BY start, topic
"""

_PER_MINUTE = """
SELECT minute AS window_start, minute + INTERVAL 1 MINUTE AS window_end, language,
       count(*) AS posts, count(DISTINCT author) AS authors
FROM (SELECT *, date_trunc('minute', posted_at) AS minute FROM kept)
WHERE minute + INTERVAL 1 MINUTE <= getvariable('watermark')
GROUP BY minute, language
"""

_AUTHORS = """
SELECT author, count(*) AS posts, sum(likes) AS likes, max(posted_at) AS last_post_at FROM kept GROUP BY author
"""

_REPLAYED = """
SELECT window_start, window_end, topic, posts, likes FROM changes
GROUP BY ALL HAVING sum(CASE op WHEN 'insert' THEN 1 WHEN 'retract' THEN -1 END) > 0
"""

_BATCH = {
    "trending": ("all windows", _TRENDING),
    "posts_per_minute": ("complete minutes", _PER_MINUTE),
    "authors": ("all authors", _AUTHORS),
}


def prove(db: Database, posts: pa.Table) -> list[Comparison]:
    """Compare every view, and what the changelog of `trending` adds up to."""
    batch = duckdb.connect(":memory:")
    batch.register("posts", posts)
    batch.register("late", db.query("SELECT _view, id FROM posts__late").to_arrow())
    progress = db.store.progress("posts")
    watermark = to_datetime(progress.watermark) if progress is not None else None
    batch.execute("SET VARIABLE watermark = ?::TIMESTAMP", [watermark])
    comparisons = []
    for view, (what, query) in _BATCH.items():
        batch.execute(
            f"CREATE OR REPLACE TEMP VIEW kept AS SELECT * FROM posts WHERE id NOT IN "
            f"(SELECT id FROM late WHERE _view = '{view}')"
        )
        late = _number(batch, f"SELECT count(DISTINCT id) FROM late WHERE _view = '{view}'")
        batch.register("view_rows", db.query(f"SELECT * FROM {view}").to_arrow())
        comparisons.append(_compare(batch, view, what, query, late))
    batch.register("view_rows", db.query("SELECT * FROM trending").to_arrow())
    batch.register("changes", db.changes("trending").to_arrow())
    comparisons.append(_compare(batch, "trending", "changelog replayed", _REPLAYED, 0))
    batch.close()
    return comparisons


def _compare(batch: duckdb.DuckDBPyConnection, view: str, what: str, query: str, late: int) -> Comparison:
    batch.execute(f"CREATE OR REPLACE TEMP TABLE expected AS {query}")
    different = _number(
        batch,
        "SELECT count(*) FROM ((FROM view_rows EXCEPT ALL FROM expected) "
        "UNION ALL (FROM expected EXCEPT ALL FROM view_rows))",
    )
    rows = _number(batch, "SELECT count(*) FROM view_rows")
    expected = _number(batch, "SELECT count(*) FROM expected")
    return Comparison(view, what, rows, expected, different, late)


def _number(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    return int(connection.execute(sql).fetchall()[0][0])
