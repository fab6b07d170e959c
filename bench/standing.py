"""Standing queries over the bids, each written once and rendered for every engine.

Owns the ten views of `latency` and the many of `queries`. What always holds: two queries of one set
have different texts; results are small, so what is measured is asking, not keeping.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from bench.job import SLACK_SECONDS

if TYPE_CHECKING:
    import millstream as ms

AGGREGATES = "count(*) AS n, coalesce(max(price), 0) AS top"
VALUES = ("n", "top")


@dataclass(frozen=True, slots=True)
class Standing:
    """Counts and the highest price of some bids, per key and window."""

    name: str
    keys: tuple[tuple[str, str], ...] = ()
    """(column, expression) of each key."""
    where: str | None = None
    window_seconds: int | None = None
    waits: bool = False
    """Whether it answers for a window when that is complete, instead of at once."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What the result has, `window_start` in microseconds where there is a window."""
        window = ("window_start",) if self.window_seconds else ()
        return (*window, *(name for name, _ in self.keys), *VALUES)

    def millstream_sql(self) -> str:
        window = ("window_start", "window_end") if self.window_seconds else ()
        source = f"TUMBLE(bids, ts, INTERVAL {self.window_seconds} SECONDS)" if self.window_seconds else "bids"
        emit = " EMIT ON WATERMARK" if self.waits else ""
        return f"CREATE MATERIALIZED VIEW {self.name} AS {self._select(window, source, window)}{emit}"

    def spark_sql(self) -> str:
        """For a temporary view `bids`, a stream or a table."""
        window = f"window(ts, '{self.window_seconds} seconds')"
        shown = (f"unix_micros({window}.start) AS window_start",) if self.window_seconds else ()
        return self._select(shown, "bids", (window,) if self.window_seconds else ())

    def duckdb_sql(self) -> str:
        """For a relation `bids` with the columns of the files."""
        micros = (self.window_seconds or 0) * 1_000_000
        window = f"epoch_us(ts) - epoch_us(ts) % {micros}"
        shown = (f"{window} AS window_start",) if self.window_seconds else ()
        complete = f"{window} + {micros} <= (SELECT epoch_us(max(ts)) - {SLACK_SECONDS * 1_000_000} FROM bids)"
        having = f" HAVING {complete}" if self.waits else ""
        return self._select(shown, "bids", (window,) if self.window_seconds else ()) + having

    def _select(self, window: tuple[str, ...], source: str, grouped_window: tuple[str, ...]) -> str:
        shown = ", ".join((*window, *(f"{expression} AS {name}" for name, expression in self.keys), AGGREGATES))
        where = f" WHERE {self.where}" if self.where else ""
        grouped = ", ".join((*grouped_window, *(expression for _, expression in self.keys)))
        return f"SELECT {shown} FROM {source}{where}" + (f" GROUP BY {grouped}" if grouped else "")

    def fingerprint(self, connection: duckdb.DuckDBPyConnection, relation: str) -> tuple[int, int, int]:
        """Rows, bids and a hash over all values, whatever the order; `relation` can follow FROM."""
        # Numbers of one width: the hash of a value depends on its type. Texts are hashed as they are.
        texts = {name for name, expression in self.keys if expression == "channel"}
        hashed = ", ".join(name if name in texts else f"CAST({name} AS BIGINT)" for name in self.columns)
        # All rows of it, though there is one: a result that is not read to its end keeps the connection busy.
        ((rows, bids, hash_),) = connection.execute(
            f"SELECT count(*), coalesce(sum(n), 0), coalesce(bit_xor(hash({hashed}) >> 4), 0) FROM {relation}"
        ).fetchall()
        return int(rows), int(bids), int(hash_)

    def truth(self, connection: duckdb.DuckDBPyConnection) -> tuple[int, int, int]:
        """What a one-shot query over `bids` answers."""
        return self.fingerprint(connection, f"({self.duckdb_sql()})")

    def published(self, relation: str) -> str:
        """A view as Millstream shows it, with its window in microseconds, as something that can follow FROM."""
        if self.window_seconds is None:
            return relation
        return f"(SELECT * REPLACE (epoch_us(window_start) AS window_start) FROM {relation})"


def wrong_views(db: ms.Database, connection: duckdb.DuckDBPyConnection, views: Sequence[Standing]) -> list[str]:
    """The names of views that are not what a one-shot query answers over the `bids` of a connection."""
    wrong = []
    for view in views:
        connection.register("shown", db.query(f"SELECT * FROM {view.name}").to_arrow())
        if view.fingerprint(connection, view.published("shown")) != view.truth(connection):
            wrong.append(view.name)
        connection.unregister("shown")
    return wrong


LATENCY = (
    Standing("by_auction", (("auction", "auction"),), window_seconds=10),
    Standing("by_bidder", (("bidder", "bidder"),), window_seconds=60),
    Standing("by_channel", (("channel", "channel"),), window_seconds=10),
    Standing("by_bucket", (("bucket", "bidder % 100"),), window_seconds=30),
    Standing("by_channel_and_bucket", (("channel", "channel"), ("bucket", "auction % 10")), window_seconds=5),
    Standing("dear", where="price > 1000000"),
    Standing("cheap", where="price < 1000"),
    Standing("apple", where="channel = 'Apple' AND price > 10000"),
    Standing("everything"),
    Standing("everything_per_parity", (("parity", "bidder % 2"),)),
)
"""Five windows with different keys, three filtered counts, two over everything."""

_KEYS: tuple[tuple[tuple[tuple[str, str], ...], int | None], ...] = (
    ((("channel", "channel"),), None),
    ((("bucket", "bidder % 100"),), None),
    ((), 10),
    ((("channel", "channel"),), 60),
    ((("bucket", "bidder % 20"), ("channel", "channel")), None),
)
_PARTS = 50
"""Every query looks at one auction in so many."""


def standing(count: int, *, waits: bool = False) -> tuple[Standing, ...]:
    """So many queries with different filters and keys, some of them with windows; if they wait, all with windows."""
    found = []
    for number in range(count):
        keys, window = _KEYS[number % len(_KEYS)]
        where = f"auction % {_PARTS} = {number % _PARTS} AND price > {100 + 7 * number}"
        found.append(Standing(f"q{number:04d}", keys, where, window or (10 if waits else None), waits))
    return tuple(found)
