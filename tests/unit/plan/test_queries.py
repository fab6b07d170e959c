"""The decomposition of queries into parts, and how each is kept up to date."""

from __future__ import annotations

import pytest
from sqlglot import exp

from millstream.model.errors import MillstreamError
from millstream.plan.nodes import AggregateView, AppendView, Output, QueryView, Stream, Top, TopView, ViewPlan
from millstream.plan.queries import plan_query
from millstream.plan.relations import Relation
from millstream.sql import parse_statement
from millstream.sql.statements import CreateStream, CreateView

from .test_planner import typer


def _stream(text: str) -> Stream:
    create = parse_statement(text)
    assert isinstance(create, CreateStream)
    return Stream(create.name, create.schema, create.watermark, create.correction)


_WATERMARK = "WATERMARK FOR ts AS ts - INTERVAL 4 SECONDS"
_STREAMS = [
    _stream(f"CREATE STREAM bids (auction BIGINT, price BIGINT, ts TIMESTAMP, {_WATERMARK})"),
    _stream(f"CREATE STREAM auctions (id BIGINT, seller BIGINT, ts TIMESTAMP, {_WATERMARK})"),
]
RELATIONS = {
    **{stream.name: Relation(stream.name, stream.schema.names(), stream) for stream in _STREAMS},
    "totals": Relation("totals", ("auction", "total")),
    "sellers": Relation("sellers", ("id", "name", "ts"), versioned=True, event_stream=_STREAMS[1]),
}


def plan(query: str) -> ViewPlan:
    create = parse_statement(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert isinstance(create, CreateView)
    return plan_query(create, lambda name: RELATIONS.get(name.lower()), typer)


def query_of(text: str) -> QueryView:
    view = plan(text).view
    assert isinstance(view, QueryView)
    return view


def test_one_stream_is_one_part() -> None:
    assert [type(part) for part in plan("SELECT auction, count(*) AS n FROM bids GROUP BY auction").parts] == [
        AggregateView
    ]


def test_joined_streams_are_kept_with_their_own_filters_and_columns() -> None:
    parts = plan(
        "SELECT a.seller, b.price FROM bids b JOIN auctions a ON b.auction = a.id "
        "WHERE b.price > 5 AND a.seller <> b.price"
    ).parts
    bids, auctions, view = parts
    assert isinstance(bids, AppendView)
    assert isinstance(auctions, AppendView)
    assert isinstance(view, QueryView)
    assert bids.hidden
    assert bids.filter == "price > 5"
    assert {name for name, _ in bids.columns} == {"price", "auction"}
    assert auctions.filter is None
    assert view.method == "delta"
    assert "<>" in view.sql
    assert "> 5" not in view.sql
    assert bids.horizon is None


def test_a_filter_stays_above_the_optional_side() -> None:
    parts = plan("SELECT a.id, b.price FROM auctions a LEFT JOIN bids b ON b.auction = a.id WHERE b.price > 5").parts
    assert [part.filter for part in parts if isinstance(part, AppendView)] == [None, None]
    view = parts[-1]
    assert isinstance(view, QueryView)
    assert view.inputs[1].optional is not None
    assert view.inputs[1].optional.columns == ("auction",)


def test_a_bound_in_time_bounds_the_state() -> None:
    first, second, view = plan(
        "SELECT b.price FROM auctions a JOIN bids b ON b.auction = a.id "
        "AND b.ts BETWEEN a.ts - INTERVAL 1 SECOND AND a.ts + INTERVAL 5 SECONDS"
    ).parts
    assert isinstance(first, AppendView)
    assert isinstance(second, AppendView)
    assert first.horizon is not None
    assert second.horizon is not None
    # An auction waits 5 seconds for a bid; a bid that still counts may be 1 second behind.
    assert (first.horizon.late_after, first.horizon.keep) == (5_000_001, 6_000_001)
    assert (second.horizon.late_after, second.horizon.keep) == (1_000_001, 6_000_001)
    assert first.horizon.streams == ("auctions", "bids")
    assert isinstance(view, QueryView)
    assert not view.outer


def test_one_bound_is_no_bound() -> None:
    first, *_ = plan("SELECT b.price FROM auctions a JOIN bids b ON b.auction = a.id AND b.ts >= a.ts").parts
    assert isinstance(first, AppendView)
    assert first.horizon is None


@pytest.mark.parametrize(("side", "alone"), [("LEFT", [0]), ("RIGHT", [1]), ("FULL", [0, 1]), ("LEFT ANTI", [0])])
def test_bounded_outer_joins_wait_for_the_watermark(side: str, alone: list[int]) -> None:
    view = query_of(
        f"SELECT {'a.id' if 'ANTI' in side else 'a.id, b.price'} FROM auctions a {side} JOIN bids b "
        "ON b.auction = a.id AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS"
    )
    assert [rows.present for rows in view.outer] == [(side,) for side in alone]
    assert view.method == "delta"
    assert f"{side} JOIN" not in view.sql


_WON = "w.auction = a.id AND w.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS"
_PAID = "p.auction = w.auction AND p.ts BETWEEN w.ts AND w.ts + INTERVAL 2 SECONDS"


def test_bounded_outer_joins_in_a_row_wait_for_what_each_row_lacks() -> None:
    parts = plan(f"SELECT a.id FROM auctions a LEFT JOIN bids w ON {_WON} LEFT JOIN bids p ON {_PAID}").parts
    view = parts[-1]
    assert isinstance(view, QueryView)
    # Without w there is no p either, so only the former is waited for; and no row has p but not w.
    assert [(rows.present, rows.settled) for rows in view.outer] == [
        ((0,), (((0, 5_000_001),),)),
        ((0, 1), (((0, 7_000_001), (1, 2_000_001)),)),
    ]
    horizons = [part.horizon for part in parts if isinstance(part, AppendView)]
    assert [h.late_after for h in horizons if h] == [7_000_001, 2_000_001, 1]


def test_a_bound_through_an_input_that_may_be_missing_is_none() -> None:
    first, *_ = plan(
        f"SELECT a.id FROM auctions a LEFT JOIN bids w ON w.auction = a.id LEFT JOIN bids p ON {_PAID} "
        "AND p.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS"
    ).parts
    # That a and w are close follows from p alone.
    assert isinstance(first, AppendView)
    assert first.horizon is None


@pytest.mark.parametrize("join", ["LEFT SEMI JOIN bids w ON {won}", "JOIN bids p ON {near} FULL JOIN bids w ON {won}"])
def test_other_bounded_joins_keep_all_rows(join: str) -> None:
    near = "p.auction = a.id AND p.ts = a.ts"
    parts = plan(f"SELECT a.id FROM auctions a {join.format(won=_WON, near=near)}").parts
    assert all(part.horizon is None for part in parts if isinstance(part, AppendView))
    view = parts[-1]
    assert isinstance(view, QueryView)
    assert not view.outer


@pytest.mark.parametrize(
    ("query", "method", "key"),
    [
        ("SELECT auction, max(total) AS m FROM totals GROUP BY auction", "keyed", ('"totals"."auction"',)),
        ("SELECT sum(total) AS t FROM totals", "whole", ()),
        ("SELECT * FROM totals ORDER BY total LIMIT 3", "whole", ()),
        ("SELECT DISTINCT total FROM totals", "keyed", ('"totals"."total"',)),
        ("SELECT a.auction FROM totals a JOIN totals b ON a.auction = b.auction", "delta", ()),
        (
            "SELECT coalesce(a.auction, b.auction) AS x FROM totals a FULL JOIN totals b ON a.auction = b.auction",
            "keyed",
            ('COALESCE("a"."auction", "b"."auction")',),
        ),
        ("SELECT auction FROM totals WHERE EXISTS (SELECT 1 FROM bids WHERE auction = totals.auction)", "whole", ()),
        ("SELECT auction FROM totals UNION ALL SELECT auction FROM bids", "union", ()),
        ("SELECT auction FROM totals EXCEPT SELECT auction FROM bids", "keyed", ('"auction"',)),
        (
            "SELECT auction, rank() OVER (PARTITION BY auction ORDER BY total) AS r FROM totals",
            "keyed",
            ('"totals"."auction"',),
        ),
        ("SELECT auction, rank() OVER (ORDER BY total) AS r FROM totals", "whole", ()),
        ("SELECT b.auction FROM totals a LEFT JOIN totals b ON a.auction = b.auction GROUP BY b.auction", "whole", ()),
    ],
)  # fmt: skip
def test_the_cheapest_method_that_is_right(query: str, method: str, key: tuple[str, ...]) -> None:
    view = query_of(query)
    assert (view.method, view.key) == (method, key)


def test_a_column_that_a_left_join_ties_twice_is_no_key() -> None:
    """A row without a partner meets neither condition, so `x` and `y` may differ in it."""
    view = query_of(
        "SELECT a.auction, a.total, count(b.total) AS n FROM totals a "
        "LEFT JOIN totals b ON a.auction = b.auction AND a.total = b.auction GROUP BY a.auction, a.total"
    )
    assert view.key == ('"a"."auction"',)


def top_of(text: str) -> TopView:
    (view,) = plan(text).parts
    assert isinstance(view, TopView)
    return view


def test_the_best_rows_of_a_stream_are_the_view() -> None:
    view = top_of(
        "SELECT auction, price FROM (SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS n "
        "FROM bids WHERE price > 1) WHERE n <= 3"
    )
    # Event time settles ties.
    assert view.top == Top(("auction",), 'ORDER BY "price" DESC, "__t"', "ROW_NUMBER()", 3)
    assert view.filter == "price > 1"
    assert [name for name, _ in view.columns] == ["auction", "price"]
    assert view.outputs == (Output("auction", '"auction"'), Output("price", '"price"'))
    assert (view.condition, view.shows_rank, view.hidden, view.only_grows) == (None, False, False, False)


@pytest.mark.parametrize(
    ("qualify", "count", "condition", "shows_rank"),
    [
        ("{rank} <= 2", 2, None, False),
        ("2 > {rank}", 1, None, False),
        ("{rank} = 1", 1, None, False),
        ("{rank} = 2", 2, 'TRY("__rank" = 2)', True),
        ("{rank} <= 3 AND price > 5", 3, 'TRY("price" > 5)', False),
        ("{rank} <= 3 AND {rank} > 1", 3, 'TRY("__rank" > 1)', True),
    ],
)
def test_what_a_rank_leaves_of_its_filter(qualify: str, count: int, condition: str | None, shows_rank: bool) -> None:
    rank = "dense_rank() OVER (PARTITION BY auction ORDER BY price)"
    view = top_of(f"SELECT auction FROM bids QUALIFY {qualify.format(rank=rank)}")
    assert (view.top.count, view.condition, view.shows_rank) == (count, condition, shows_rank)
    assert [name for name, _ in view.columns] == ["auction", "price"]


def test_a_rank_is_shown_as_a_column_is() -> None:
    view = top_of("SELECT price * 2 AS p, rank() OVER (ORDER BY price) AS r FROM bids QUALIFY r <= 2")
    assert view.outputs == (Output("p", 'TRY("price" * 2)'), Output("r", '"__rank"'))
    assert view.shows_rank
    assert view.top.partition == ()


def test_the_best_rows_are_a_part_of_a_larger_query() -> None:
    best = "SELECT * FROM bids QUALIFY row_number() OVER (PARTITION BY auction ORDER BY price DESC) = 1"
    rows, view = plan(f"SELECT auction, sum(price) AS total FROM ({best}) GROUP BY auction").parts
    assert isinstance(rows, TopView)
    assert rows.hidden
    assert isinstance(view, QueryView)
    assert [(i.relation, i.append_only) for i in view.inputs] == [(rows.name, False)]


def test_a_query_that_ranks_its_rows_again_still_bounds_them() -> None:
    rows, view = plan(
        "SELECT DISTINCT auction FROM bids QUALIFY row_number() OVER (PARTITION BY auction ORDER BY price) <= 2"
    ).parts
    assert isinstance(rows, AppendView)
    assert rows.top is not None
    assert rows.top.count == 2
    assert isinstance(view, QueryView)
    assert "QUALIFY" in view.sql


@pytest.mark.parametrize(
    "query",
    [
        "SELECT auction, count(*) AS n FROM bids GROUP BY auction QUALIFY rank() OVER (ORDER BY count(*)) <= 2",
        "SELECT price FROM bids QUALIFY row_number() OVER (PARTITION BY price % 2 ORDER BY ts) <= 2",
        "SELECT price FROM bids QUALIFY row_number() OVER (ORDER BY ts) >= 2",
        "SELECT price FROM bids QUALIFY sum(price) OVER (ORDER BY ts) <= 2",
        "SELECT ts FROM bids QUALIFY row_number() OVER (ORDER BY ts) < 3 AND price > (SELECT max(total) FROM totals)",
        "SELECT price, lag(price) OVER (ORDER BY ts) AS was FROM bids QUALIFY row_number() OVER (ORDER BY ts) <= 2",
        "SELECT auction, p FROM bids LATERAL VIEW explode(array(price)) q AS p "
        "QUALIFY row_number() OVER (PARTITION BY auction ORDER BY p) <= 3",
    ],
)
def test_what_does_not_bound_the_rows_keeps_them_all(query: str) -> None:
    (rows,) = (part for part in plan(query).parts if isinstance(part, AppendView))
    assert not isinstance(rows, TopView)
    assert rows.top is None


def test_retain_has_no_meaning_for_the_best_rows() -> None:
    create = parse_statement(
        "CREATE MATERIALIZED VIEW v WITH (retain = '1 hour') AS "
        "SELECT auction FROM bids QUALIFY row_number() OVER (PARTITION BY auction ORDER BY price) = 1"
    )
    assert isinstance(create, CreateView)
    with pytest.raises(MillstreamError, match="retain has no meaning"):
        plan_query(create, lambda name: RELATIONS.get(name.lower()), typer)


def test_a_column_of_nulls_takes_its_type_from_the_other_side() -> None:
    view = query_of("SELECT auction, NULL AS total FROM bids UNION ALL SELECT auction, total FROM totals")
    assert 'NULL AS "total"' in view.sql


def test_retain_is_refused_with_what_to_do_instead() -> None:
    create = parse_statement(
        "CREATE MATERIALIZED VIEW v WITH (retain = '1 day') AS "
        "SELECT auction, max(total) AS m FROM totals GROUP BY auction"
    )
    assert isinstance(create, CreateView)
    with pytest.raises(MillstreamError) as refused:
        plan_query(create, lambda name: RELATIONS.get(name.lower()), typer)
    assert refused.value.code == "BAD_OPTION"
    assert refused.value.detail is not None
    assert "(totals)" in str(refused.value.hint)


def test_subqueries_and_with_are_hidden_parts_and_equal_ones_are_one() -> None:
    counts = "SELECT auction, count(*) AS n FROM bids GROUP BY auction"
    names = [part.name for part in plan(
        f"WITH c AS ({counts}) SELECT c.auction FROM c JOIN ({counts}) d ON c.auction = d.auction"
    ).parts]  # fmt: skip
    assert len(names) == 2
    assert names[-1] == "v"


def test_a_trigger_goes_to_the_part_with_windows() -> None:
    counts = "SELECT window_start, count(*) AS n FROM TUMBLE(bids, ts, INTERVAL 10 SECONDS) GROUP BY window_start"
    inner, _ = plan(f"SELECT max(n) AS most FROM ({counts}) EMIT ON WATERMARK").parts
    assert isinstance(inner, AggregateView)
    assert inner.trigger.on_watermark


def test_as_of_reads_the_versions() -> None:
    rows, view = plan(
        "SELECT b.price, s.name FROM bids b JOIN sellers FOR SYSTEM_TIME AS OF b.ts AS s ON b.auction = s.id"
    ).parts
    assert isinstance(rows, AppendView)
    assert rows.horizon is not None
    assert rows.horizon.late_after is None
    assert isinstance(view, QueryView)
    assert view.inputs[1].relation == "sellers.versions"
    assert '"__from" <= epoch_us("b"."ts")' in view.sql


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT 1 AS one", "NO_SOURCE"),
        ("SELECT x FROM nowhere JOIN bids ON true", "UNKNOWN_RELATION"),
        ("SELECT a.nothing FROM bids a JOIN bids b ON a.auction = b.auction", "UNKNOWN_COLUMN"),
        ("SELECT a.price, b.price FROM bids a JOIN bids b ON a.auction = b.auction", "DUPLICATE_COLUMN"),
        ("SELECT total FROM totals NATURAL JOIN sellers", "NO_COMMON_COLUMN"),
        ("SELECT a.price FROM bids a JOIN totals b ON a.auction = b.auction EMIT ON WATERMARK", "EMIT_NEEDS_WINDOW"),
        ("SELECT b.price FROM bids b JOIN totals FOR SYSTEM_TIME AS OF b.ts AS t ON true", "NOT_VERSIONED"),
        ("SELECT auction FROM bids UNION ALL SELECT auction, total FROM totals", "BAD_SET_OPERATION"),
        ("SELECT t.auction.* FROM totals t JOIN sellers ON true", "NOT_SUPPORTED"),
        ("SELECT s.id FROM sellers s JOIN (totals t JOIN bids b USING (auction)) ON s.id = t.total", "NOT_SUPPORTED"),
    ],
)
def test_what_cannot_be_is_refused_where_it_stands(query: str, code: str) -> None:
    with pytest.raises(MillstreamError) as refused:
        plan(query)
    assert refused.value.code == code
    assert refused.value.position is not None


def test_the_statement_itself_is_left_alone() -> None:
    create = parse_statement(
        "CREATE MATERIALIZED VIEW v AS SELECT a.price AS p FROM bids a JOIN bids b ON a.auction = b.auction"
    )
    assert isinstance(create, CreateView)
    before = create.query.copy()
    plan_query(create, lambda name: RELATIONS.get(name.lower()), typer)
    assert isinstance(create.query, exp.Select)
    assert create.query == before
