"""Relations: streams, tables and views, and what is derived from them step by step.

Owns the fluent surface and which step may follow which. A relation is immutable: every method
gives a new one. Misuse is refused by the method that is misused. What a relation means is its
StreamSQL and nothing else: it is parsed by the same parser as a text, and created through the
same door, so the plan cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from sqlglot import exp

from millstream.builder import joins, queries
from millstream.builder.aggregates import holds_aggregate
from millstream.builder.connections import SOURCE, Changes, Connection, Rows, event_time, explained
from millstream.builder.expressions import ColumnLike, Expression, Ordering, all_of, as_column, col, condition, operand
from millstream.builder.joins import How, On, Within
from millstream.builder.literals import Duration, identifier, option_text, whole_number
from millstream.builder.outputs import branch, check_names, grouping, ordered, output
from millstream.builder.queries import EVERYTHING, STAR, Block, Output, resolve
from millstream.builder.triggers import Trigger, emit_of
from millstream.builder.windows import CountWindow, Window
from millstream.model.errors import MillstreamError
from millstream.sql import parse_statement, render
from millstream.sql.render import quote_name, render_emit, render_query
from millstream.sql.statements import DEFAULT_EMIT, Accumulation, CreateView, Emit


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Relation:
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

    _block: Block
    _emit: Emit | None = None
    _connection: Connection | None = None

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
        self._settled("alias")
        block = self._block
        if block.joins or not block.is_open or block.columns != EVERYTHING:
            block = queries.nested(block)
        return self._with(replace(block, name=name))

    def __getitem__(self, name: str) -> Expression:
        """A column of this relation, told apart from those of others: `bids["price"]`."""
        if self._block.name is None or self._block.joins:
            self._refuse(
                "NO_NAME",
                "this relation has no name that its columns could have",
                hint='use ms.col("…"), the relations that were joined, or .alias("…")',
            )
        if name == STAR:
            return Expression(exp.Column(this=exp.Star(), table=identifier(self._block.name)))
        return Expression(exp.Column(this=identifier(name), table=identifier(self._block.name)))

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
        self._settled("filter")
        block = queries.nested(self._block) if self._block.is_cut else self._block
        nodes = [condition(test, "filter") for test in conditions]
        if not block.aggregated and any(holds_aggregate(node) for node in nodes):
            self._refuse("AGGREGATE_IN_WHERE", "filter cannot hold an aggregate", hint="use agg, then having")
        nodes = [resolve(block, node) for node in nodes]
        if block.aggregated:
            return self._with(replace(block, having=all_of([block.having, *nodes])))
        return self._with(replace(block, where=all_of([block.where, *nodes])))

    def select(self, *columns: ColumnLike, **named: ColumnLike) -> Relation:
        """These columns and no others; a keyword names one.

        >>> print(ms.stream("bids").select("auction", cents=ms.col("price") * 100))
        SELECT
          auction,
          price * 100 AS cents
        FROM bids
        """
        self._settled("select")
        block = self._rows_of("select")
        outputs = self._outputs(block, columns, named, "select")
        if not outputs:
            self._refuse("NO_COLUMNS", "select needs at least one column")
        return self._with(replace(block, columns=outputs))

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
        self._settled("with_columns")
        block = self._rows_of("with_columns")
        return self._with(queries.with_columns(block, self._outputs(block, (), named, "with_columns")))

    def distinct(self) -> Relation:
        """Each row once.

        >>> print(ms.stream("bids").select("bidder").distinct())
        SELECT DISTINCT
          bidder
        FROM bids
        """
        self._settled("distinct")
        block = queries.nested(self._block) if self._block.is_cut else self._block
        return self._with(replace(block, is_distinct=True))

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
        self._settled("order_by")
        block = queries.nested(self._block) if self._block.limit is not None else self._block
        order = tuple(ordered(block, column) for column in columns)
        return self._with(replace(block, order=order))

    def limit(self, rows: int) -> Relation:
        """The first rows.

        >>> print(ms.view("hot_items").limit(3))
        SELECT
          *
        FROM hot_items
        LIMIT 3
        """
        self._settled("limit")
        block = queries.nested(self._block) if self._block.limit is not None else self._block
        return self._with(replace(block, limit=whole_number("limit", rows, 0)))

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
        self._settled("top")
        whole = whole_number("top", rows, 1)
        block = self._block if self._block.is_open else queries.nested(self._block)
        orders = (order_by,) if isinstance(order_by, Expression | Ordering | str) else tuple(order_by)
        keys = (by,) if isinstance(by, Expression | str) else tuple(by)
        if not orders:
            self._refuse("NO_ORDER", "top needs an order", hint='order_by=ms.desc("price")')
        over = exp.Window(
            this=exp.RowNumber(),
            partition_by=[resolve(block, operand(as_column(key))) for key in keys],
            order=exp.Order(expressions=[ordered(block, part, resolved=True) for part in orders]),
        )
        if rank.lower() in (output.name.lower() for output in block.columns):
            self._refuse("DUPLICATE_COLUMN", f"there is a column {rank!r} already", hint='rank="another name"')
        ranked = self._with(queries.with_columns(block, [Output(rank, over)]))
        return ranked.filter(col(rank) <= whole)

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
        self._settled("join")
        self._other(other, "join")
        bound = self._bound(other, within) if within is not None else None
        return self._with(joins.join_blocks(self._block, other._block, on, how, bound, as_of), other._connection)

    def _bound(self, other: Relation, within: Within) -> joins.Bound:
        times: list[exp.Column] = []
        for relation in (self, other):
            time = relation._event_time()
            columns, names = queries.output_names(relation._block), queries.relation_names(relation._block)
            if time is None or not names or (columns is not None and time not in columns):
                self._refuse(
                    "NO_EVENT_TIME",
                    "within needs the event times of both sides",
                    hint='put the bound into on: a["ts"].between(b["ts"], b["ts"] + ms.lit(timedelta(hours=1)))',
                )
            times.append(exp.Column(this=identifier(time), table=identifier(names[0])))
        return joins.bound(times[0], times[1], within)

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
        self._settled("union_all")
        query = branch(self._block)
        connection = self._connection
        for other in others:
            self._other(other, "union_all")
            connection = connection or other._connection
            query = exp.Union(this=query, expression=branch(other._block), distinct=False)
        return self._with(Block(query, None, known=queries.output_names(self._block)), connection)

    # -- groups ------------------------------------------------------------------------------

    def window(self, window: Window) -> Relation:
        """The rows in their windows, with `window_start` and `window_end`; `agg` then groups by them.

        >>> print(ms.stream("bids").window(ms.Tumble("10 seconds", on="ts")).select("auction", "window_start"))
        SELECT
          auction,
          window_start
        FROM TUMBLE(bids, ts, INTERVAL '10' SECONDS)
        """
        block = self._block
        if not isinstance(window, Window):
            self._refuse("BAD_WINDOW", f"{window!r} is not a window", hint='as in ms.Tumble("10 seconds")')
        if block.window is not None:
            self._refuse("WINDOW_TWICE", "the relation has a window already", hint="create a view and window that")
        if block.keys is not None and not block.aggregated:
            self._refuse("WINDOW_AFTER_GROUP", "window comes before group_by")
        if not isinstance(block.source, str) or block.joins or not block.is_open:
            self._refuse(
                "BAD_WINDOW",
                "a window is put on a stream, table or view, not on the result of a query",
                hint="create a view of the query, and put the window on that; or window before the join",
            )
        time = None if isinstance(window, CountWindow) else self._time_column(window.on)
        columns = block.columns
        if not any(output.name == STAR for output in columns):
            columns = (*columns, *queries.bounds())
        return self._with(replace(block, window=window, time_column=time, columns=columns))

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
        self._settled("group_by")
        block = self._block if self._block.is_open else queries.nested(self._block)
        keys = tuple(grouping(key) for key in self._outputs(block, columns, named, "group_by"))
        return self._with(replace(block, keys=keys))

    def agg(self, *aggregates: Expression, **named: Expression) -> Relation:
        """One row per group and window: their key, then these aggregates and expressions over them.

        >>> print(ms.stream("bids").agg(n=ms.count(), spread=ms.max("price") - ms.min("price")))
        SELECT
          COUNT(*) AS n,
          MAX(price) - MIN(price) AS spread
        FROM bids
        """
        block = self._block
        if block.keys is None or block.aggregated:
            block = block if block.is_open else queries.nested(block)
        computed: list[Output] = []
        for expression, name in (*((a, None) for a in aggregates), *((a, n) for n, a in named.items())):
            if not isinstance(expression, Expression) or not holds_aggregate(expression.node):
                self._refuse(
                    "NOT_AN_AGGREGATE",
                    f"agg takes aggregates, not {expression!r}",
                    hint='as in agg(n=ms.count(), top=ms.max("price")); what groups share belongs in group_by',
                )
            computed.append(output(block, expression, name, "agg"))
        if not computed:
            self._refuse("NOT_AN_AGGREGATE", "agg needs at least one aggregate", hint="as in agg(n=ms.count())")
        window = queries.bounds() if block.window is not None else ()
        columns = check_names((*window, *(block.keys or ()), *computed))
        grouped = replace(block, keys=block.keys or (), inputs=block.columns, columns=columns, aggregated=True)
        queries.from_item(grouped)
        return self._with(grouped)

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
        if not self._block.aggregated:
            self._refuse("HAVING_WITHOUT_AGG", "having comes after agg", hint="use filter for rows")
        return self.filter(*conditions)

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
            self._refuse("EMIT_TWICE", "the relation has a trigger already", hint="say all of it in one emit")
        return Relation(self._block, emit_of(trigger, accumulate, lateness), self._connection)

    def statement(
        self,
        name: str,
        *,
        retain: Duration | None = None,
        or_replace: bool = False,
        if_not_exists: bool = False,
        **options: object,
    ) -> CreateView:
        """The statement that creates a view of this relation, as the parser gives it.

        >>> ms.stream("bids").select("auction").statement("v", retain="7 days").options
        (('retain', '7 days'),)
        """
        given = {"retain": retain, **options}
        written = tuple((key, option_text(value)) for key, value in given.items() if value is not None)
        built = CreateView(name, self._query(), self._emit or DEFAULT_EMIT, written, or_replace, if_not_exists)
        statement = parse_statement(render(built), SOURCE)
        # Once more, so that places in the statement are places in its canonical text.
        statement = parse_statement(render(statement), SOURCE)
        assert isinstance(statement, CreateView)
        return statement

    def to_sql(self, name: str | None = None, **options: object) -> str:
        """The StreamSQL of the query, or with a name of the statement that creates its view.

        >>> print(ms.stream("bids").select("auction").to_sql("v", retain="7 days"))
        CREATE MATERIALIZED VIEW v WITH (
          retain = '7 days'
        ) AS
        SELECT
          auction
        FROM bids
        """
        if name is not None:
            return render(self.statement(name, **options))  # type: ignore[arg-type]
        query = render(parse_statement(render_query(self._query()), SOURCE))
        emit = self._emit or DEFAULT_EMIT
        return query if emit == DEFAULT_EMIT else f"{query}\n{render_emit(emit)}"

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

    def query(self) -> Rows:
        """The rows now, as of the last committed epoch; for relations over views and tables.

        >>> db.stream("bids").group_by("auction").agg(n=ms.count()).create("totals")
        <View SELECT * FROM totals>
        >>> db.view("totals").filter(ms.col("n") > 1).query().rows()
        []
        """
        if self._emit is not None:
            self._refuse("EMIT_IN_QUERY", "a query is answered once and has no trigger", hint="leave out emit")
        return self._connected("query").query(self.to_sql())

    def explain(self) -> str:
        """How the view would be maintained: what runs where, and what it keeps.

        >>> print(db.stream("bids").agg(n=ms.count()).explain().splitlines()[-1].strip())
        decode and scan: stream bids, watermark 0 seconds behind ts
        """
        return explained(self._connected("explain"), self.to_sql("query"))

    def __str__(self) -> str:
        return self.to_sql()

    def __repr__(self) -> str:
        if self._block.keys is not None and not self._block.aggregated:
            return f"<{type(self).__name__} grouped by {', '.join(key.name for key in self._block.keys)}>"
        return f"<{type(self).__name__} {' '.join(self.to_sql().split())}>"

    # -- checks ------------------------------------------------------------------------------

    def _with(self, block: Block, connection: Connection | None = None) -> Relation:
        return Relation(block, self._emit, self._connection or connection)

    def _query(self) -> exp.Query:
        self._settled("a query")
        return queries.compile_block(self._block)

    def _settled(self, step: str) -> None:
        if self._block.keys is not None and not self._block.aggregated:
            self._refuse("GROUP_WITHOUT_AGG", f"after group_by comes agg, not {step}", hint="as in .agg(n=ms.count())")

    def _rows_of(self, step: str) -> Block:
        block = self._block
        return queries.nested(block) if block.is_distinct or block.is_cut else block

    def _other(self, other: Relation, step: str) -> None:
        if not isinstance(other, Relation):
            self._refuse("NOT_A_RELATION", f"{step} takes a relation, not {other!r}")
        other._settled(step)
        if other._emit is not None:
            self._refuse("EMIT_INSIDE", "a trigger belongs to the view as a whole", hint=f"put emit after {step}")

    def _outputs(
        self, block: Block, columns: Sequence[ColumnLike], named: Mapping[str, ColumnLike], step: str
    ) -> tuple[Output, ...]:
        outputs: list[Output] = []
        for column, name in (*((c, None) for c in columns), *((c, n) for n, c in named.items())):
            expression = as_column(column)
            if holds_aggregate(expression.node):
                self._refuse("AGGREGATE_OUTSIDE_AGG", f"{step} cannot hold an aggregate", hint="use agg")
            if isinstance(expression.node, exp.Star):
                outputs.extend(block.columns)
            else:
                outputs.append(output(block, expression, name, step))
        return check_names(tuple(outputs))

    def _event_time(self) -> str | None:
        block = self._block
        if block.event_time is None and block.kind == "stream" and self._connection is not None:
            assert isinstance(block.source, str)
            return event_time(self._connection, block.source)
        return block.event_time

    def _time_column(self, on: str | None) -> str:
        name = on if on is not None else self._event_time()
        if name is None:
            self._refuse(
                "NO_EVENT_TIME",
                f"the event time of {self._block.source} is not known",
                hint='name the time column: ms.Tumble("10 seconds", on="ts")',
            )
        node = resolve(self._block, operand(col(name))) if on is not None else operand(col(name))
        if not isinstance(node, exp.Column):
            self._refuse("BAD_WINDOW", f"{name!r} is computed, and a window needs a column of {self._block.source}")
        return node.name

    def _connected(self, step: str) -> Connection:
        if self._connection is None:
            self._refuse(
                "NOT_CONNECTED",
                f"{step} needs a database, and this relation belongs to none",
                hint='begin with db.stream("…"), or run db.sql(relation.to_sql("name"))',
            )
        return self._connection

    def _refuse(self, code: str, message: str, *, hint: str | None = None) -> NoReturn:
        raise MillstreamError(code, message, hint=hint)


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

    def changes(self, since_epoch: int = 0) -> Rows:
        """The changelog after an epoch; 0 is everything.

        >>> totals = db.stream("bids").agg(n=ms.count()).create("totals")
        >>> db.drain()
        1
        >>> [(change["op"], change["n"]) for change in totals.changes()]
        [('upsert', 0), ('upsert', 2)]
        """
        return self._connected("changes").changes(self.name, since_epoch)

    def subscribe(self, from_epoch: int = 0) -> Changes:
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
