"""Relations: streams, tables and views, and what is derived from them step by step.

Owns the fluent surface. A relation is immutable: every step gives a new one. Misuse is refused by
the method that is misused. What a step makes of a query is said where its kind is: `selections`,
`groups` and `joins`. Must not give a query a meaning that its StreamSQL does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from millstream.api import Connection, Result, Subscription
from millstream.builder import groups, joins, selections
from millstream.builder.connections import SOURCE, event_time, explained
from millstream.builder.definitions import Definition
from millstream.builder.expressions import ColumnLike, Expression, Ordering
from millstream.builder.joins import How, On, Within
from millstream.builder.literals import Duration, identifier
from millstream.builder.queries import Block
from millstream.builder.triggers import Trigger, emit_of
from millstream.builder.windows import Window
from millstream.model.errors import MillstreamError
from millstream.sql import render
from millstream.sql.render import quote_name
from millstream.sql.statements import Accumulation


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Relation(Definition):
    """Rows with named columns: a stream, table or view, or what steps have made of one.

    >>> bids = ms.stream("bids", event_time="ts")
    >>> hot = (
    ...     bids.filter(ms.col("price") > 100)
    ...     .window(ms.Hop(slide="2 seconds", size="10 seconds"))
    ...     .group_by("auction")
    ...     .agg(n=ms.count(), top=ms.max("price"))
    ...     .emit(ms.on_watermark())
    ... )
    >>> print(hot.to_sql("hot_items"))
    CREATE MATERIALIZED VIEW hot_items AS
    SELECT
      window_start,
      window_end,
      auction,
      COUNT(*) AS n,
      MAX(price) AS top
    FROM HOP(bids, ts, INTERVAL '2' SECONDS, INTERVAL '10' SECONDS)
    WHERE
      price > 100
    GROUP BY
      window_start,
      window_end,
      auction
    EMIT ON WATERMARK ACCUMULATING
    """

    # -- names -------------------------------------------------------------------------------

    def alias(self, name: str) -> Relation:
        """The same relation under another name, to tell its columns apart in a join.

        >>> a, b = ms.stream("bids").alias("a"), ms.stream("bids").alias("b")
        >>> print(a.join(b, on=a["auction"] == b["auction"]).select(a["price"]))
        SELECT
          a.price
        FROM bids AS a
        JOIN bids AS b
          ON a.auction = b.auction
        """
        identifier(name)
        return self._with(selections.renamed(self._settled("alias"), name))

    def __getitem__(self, name: str) -> Expression:
        """A column of this relation, told apart from those of others: `bids["price"]`."""
        return selections.column(self._block, name)

    # -- rows --------------------------------------------------------------------------------

    def filter(self, *conditions: Expression) -> Relation:
        """The rows for which all conditions hold; after `agg`, the groups.

        >>> print(ms.stream("bids").filter(ms.col("price") > 100, ms.col("channel").isin("web", "app")))
        SELECT
          *
        FROM bids
        WHERE
          price > 100 AND channel IN ('web', 'app')
        """
        return self._with(selections.filtered(self._settled("filter"), conditions))

    def select(self, *columns: ColumnLike, **named: ColumnLike) -> Relation:
        """These columns and no others; a keyword names one.

        >>> print(ms.stream("bids").select("auction", cents=ms.col("price") * 100))
        SELECT
          auction,
          price * 100 AS cents
        FROM bids
        """
        return self._with(selections.selected(self._settled("select"), columns, named))

    def with_columns(self, **named: ColumnLike) -> Relation:
        """All columns, and these besides.

        >>> print(ms.stream("bids").with_columns(cents=ms.col("price") * 100).filter(ms.col("cents") > 5))
        SELECT
          *,
          price * 100 AS cents
        FROM bids
        WHERE
          price * 100 > 5
        """
        return self._with(selections.extended(self._settled("with_columns"), named))

    def distinct(self) -> Relation:
        """Each row once.

        >>> print(ms.stream("bids").select("bidder").distinct())
        SELECT DISTINCT
          bidder
        FROM bids
        """
        return self._with(selections.distinct(self._settled("distinct")))

    def order_by(self, *columns: ColumnLike | Ordering) -> Relation:
        """Sorted; of use before `limit`.

        >>> print(ms.view("hot_items").order_by(ms.desc("n"), "auction").limit(3))
        SELECT
          *
        FROM hot_items
        ORDER BY
          n DESC,
          auction
        LIMIT 3
        """
        return self._with(selections.sorted_by(self._settled("order_by"), columns))

    def limit(self, rows: int) -> Relation:
        """The first rows.

        >>> print(ms.view("hot_items").limit(3))
        SELECT
          *
        FROM hot_items
        LIMIT 3
        """
        return self._with(selections.limited(self._settled("limit"), rows))

    def top(
        self,
        rows: int,
        *,
        order_by: ColumnLike | Ordering | Sequence[ColumnLike | Ordering],
        by: ColumnLike | Sequence[ColumnLike] = (),
        rank: str = "rank",
    ) -> Relation:
        """The first rows of every group, with their rank from 1 on.

        >>> print(ms.stream("bids").top(3, by="auction", order_by=ms.desc("price")))
        SELECT
          *
        FROM (
          SELECT
            *,
            ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank
          FROM bids
        ) AS bids
        WHERE
          rank <= 3
        """
        return self._with(selections.ranked(self._settled("top"), rows, order_by, by, rank))

    # -- several relations -------------------------------------------------------------------

    def join(
        self,
        other: Relation,
        on: On,
        how: How = "inner",
        *,
        within: Within | None = None,
        as_of: ColumnLike | None = None,
    ) -> Relation:
        """Rows of two relations that belong together.

        `on` is a condition, a column of both, or several of these. For two streams, `within` says
        how far apart their event times may be, in both directions or as `(before, after)`. For a
        table, `as_of` takes its rows as they were at that time of the left row.

        >>> bids, users = ms.stream("bids", event_time="ts"), ms.table("users")
        >>> named = bids.join(users, on=bids["bidder"] == users["id"], how="left", as_of="ts")
        >>> print(named.select(bids["auction"], users["name"]))
        SELECT
          bids.auction,
          users.name
        FROM bids
        LEFT JOIN users FOR SYSTEM_TIME AS OF bids.ts
          ON bids.bidder = users.id

        >>> sales = ms.stream("sales", event_time="sold_at")
        >>> print(bids.join(sales, on="auction", within=("0 seconds", "1 hour")).select(bids["price"]))
        SELECT
          bids.price
        FROM bids
        JOIN sales
          ON bids.auction = sales.auction
          AND sales.sold_at BETWEEN bids.ts AND bids.ts + INTERVAL '1' HOUR
        """
        left, right = self._settled("join"), self._other(other, "join")
        bound = None
        if within is not None:
            times = joins.time_of(left, self._event_time()), joins.time_of(right, other._event_time())
            bound = joins.bound(*times, within)
        return self._with(joins.join_blocks(left, right, on, how, bound, as_of), other._connection)

    def union_all(self, *others: Relation) -> Relation:
        """The rows of all, as often as they come; columns go by their place.

        >>> print(ms.stream("bids").select("ts").union_all(ms.stream("sales").select("sold_at")))
        SELECT
          ts
        FROM bids
        UNION ALL
        SELECT
          sold_at
        FROM sales
        """
        first = self._settled("union_all")
        united = joins.unite_blocks(first, [self._other(other, "union_all") for other in others])
        return self._with(united, next((other._connection for other in others if other._connection is not None), None))

    # -- groups ------------------------------------------------------------------------------

    def window(self, window: Window) -> Relation:
        """The rows in their windows, with `window_start` and `window_end`; `agg` then groups by them.

        >>> print(ms.stream("bids").window(ms.Tumble("10 seconds", on="ts")).select("auction", "window_start"))
        SELECT
          auction,
          window_start
        FROM TUMBLE(bids, ts, INTERVAL '10' SECONDS)
        """
        return self._with(groups.windowed(self._block, window, self._event_time))

    def group_by(self, *columns: ColumnLike, **named: ColumnLike) -> Relation:
        """Groups of rows with equal values; `agg` says what is computed of each.

        >>> print(ms.stream("bids").group_by("channel", high=ms.col("price") > 100).agg(n=ms.count()))
        SELECT
          channel,
          price > 100 AS high,
          COUNT(*) AS n
        FROM bids
        GROUP BY
          channel,
          price > 100
        """
        return self._with(groups.grouped(self._settled("group_by"), columns, named))

    def agg(self, *aggregates: Expression, **named: Expression) -> Relation:
        """One row per group and window: their key, then these aggregates and expressions over them.

        >>> print(ms.stream("bids").agg(n=ms.count(), spread=ms.max("price") - ms.min("price")))
        SELECT
          COUNT(*) AS n,
          MAX(price) - MIN(price) AS spread
        FROM bids
        """
        return self._with(groups.aggregated(self._block, aggregates, named))

    def having(self, *conditions: Expression) -> Relation:
        """The groups for which all conditions hold, on columns of the result or on aggregates.

        >>> print(ms.stream("bids").group_by("auction").agg(n=ms.count()).having(ms.col("n") > 1))
        SELECT
          auction,
          COUNT(*) AS n
        FROM bids
        GROUP BY
          auction
        HAVING
          COUNT(*) > 1
        """
        return self._with(groups.having(self._block, conditions))

    # -- views -------------------------------------------------------------------------------

    def emit(
        self, trigger: Trigger, *, accumulate: Accumulation = "accumulating", lateness: Duration | None = None
    ) -> Relation:
        """When the view publishes, and how a later pane relates to an earlier one.

        >>> live = ms.stream("bids").agg(n=ms.count()).emit(ms.every("5 seconds"), accumulate="discarding")
        >>> print(live.to_sql().splitlines()[-1])
        EMIT EVERY 5 SECONDS DISCARDING
        """
        if self._emit is not None:
            raise MillstreamError("EMIT_TWICE", "the relation has a trigger already", hint="say all of it in one emit")
        return Relation(self._block, emit_of(trigger, accumulate, lateness), self._connection)

    def create(
        self,
        name: str,
        *,
        retain: Duration | None = None,
        or_replace: bool = False,
        if_not_exists: bool = False,
        **options: object,
    ) -> View:
        """Create the view; options are those of `CREATE MATERIALIZED VIEW … WITH (…)`.

        >>> totals = db.stream("bids").agg(n=ms.count()).create("totals", changelog_retain="1 day")
        >>> db.drain()
        1
        >>> totals.query().rows()
        [{'n': 2}]
        """
        statement = self.statement(name, retain=retain, or_replace=or_replace, if_not_exists=if_not_exists, **options)
        connection = self._connected("create")
        connection.sql(render(statement), source=SOURCE)
        return View(Block(statement.name, statement.name, "view"), None, connection)

    # -- checks ------------------------------------------------------------------------------

    def _with(self, block: Block, connection: Connection | None = None) -> Relation:
        return Relation(block, self._emit, self._connection or connection)

    def _settled(self, step: str) -> Block:
        return groups.settled(self._block, step)

    def _other(self, other: Relation, step: str) -> Block:
        """What another relation brings into a step."""
        if not isinstance(other, Relation):
            raise MillstreamError("NOT_A_RELATION", f"{step} takes a relation, not {other!r}")
        block = other._settled(step)
        if other._emit is not None:
            raise MillstreamError(
                "EMIT_INSIDE", "a trigger belongs to the view as a whole", hint=f"put emit after {step}"
            )
        return block

    def _event_time(self) -> str | None:
        block = self._block
        if block.event_time is None and block.kind == "stream" and self._connection is not None:
            assert isinstance(block.source, str)
            return event_time(self._connection, block.source)
        return block.event_time


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class View(Relation):
    """A view that exists: it can be read and followed, and it is a relation like any other."""

    @property
    def name(self) -> str:
        """What it is called.

        >>> ms.view("hot_items").name
        'hot_items'
        """
        assert isinstance(self._block.source, str)
        return self._block.source

    def changes(self, since_epoch: int = 0) -> Result:
        """The changelog after an epoch; 0 is everything.

        >>> totals = db.stream("bids").agg(n=ms.count()).create("totals")
        >>> db.drain()
        1
        >>> [(change["op"], change["n"]) for change in totals.changes()]
        [('upsert', 0), ('upsert', 2)]
        """
        return self._connected("changes").changes(self.name, since_epoch)

    def subscribe(self, from_epoch: int = 0) -> Subscription:
        """The changes from an epoch on, as they are committed.

        >>> totals = db.stream("bids").agg(n=ms.count()).create("totals")
        >>> db.drain()
        1
        >>> next(totals.subscribe(from_epoch=1))["n"]
        2
        """
        return self._connected("subscribe").subscribe(self.name, from_epoch)

    def explain(self) -> str:
        """How the view is maintained.

        >>> totals = db.stream("bids").agg(n=ms.count()).create("totals")
        >>> print(totals.explain().splitlines()[0])
        view totals
        """
        return explained(self._connected("explain"), quote_name(self.name))

    def drop(self, *, if_exists: bool = False) -> None:
        """Remove the view with its rows and its changelog.

        >>> db.stream("bids").agg(n=ms.count()).create("totals").drop()
        >>> db.view("totals").drop(if_exists=True)
        """
        exists = "IF EXISTS " if if_exists else ""
        self._connected("drop").sql(f"DROP MATERIALIZED VIEW {exists}{quote_name(self.name)}", source=SOURCE)
