"""The planner on its own: what a query is split into, and what it refuses and where."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from millstream.model.errors import MillstreamError
from millstream.plan.nodes import AggregateView, AppendView, Stream, View
from millstream.plan.planner import plan_view
from millstream.plan.reading import Typer
from millstream.plan.windows import CountWindow, KeyedWindow, SessionWindow, SlideWindow
from millstream.sql import parse_statement
from millstream.sql.statements import CreateStream, CreateView, EveryEpoch

_STREAM = parse_statement(
    "CREATE STREAM bids (auction BIGINT, price BIGINT, channel STRING, ts TIMESTAMP, seen TIMESTAMP, "
    "WATERMARK FOR ts AS ts - INTERVAL 4 SECONDS)"
)
TUMBLE = "FROM TUMBLE(bids, ts, INTERVAL 10 SECONDS)"
SESSION = "FROM SESSION(bids PARTITION BY auction, ts, INTERVAL 1 MINUTE)"
SLIDE = "FROM SLIDE(bids PARTITION BY auction, ts, INTERVAL 1 MINUTE) GROUP BY window_end, auction"
COUNT = "FROM COUNT_WINDOW(bids PARTITION BY auction, 3) GROUP BY window_end, auction"
CLOCK = "FROM TUMBLE(bids, PROCTIME(), INTERVAL 1 MINUTE) GROUP BY window_end"


def typer(stream: Stream, sqls: Sequence[str]) -> list[pa.DataType]:
    """Columns have their types; everything else is a BIGINT."""
    found = [stream.schema.find(sql) for sql in sqls]
    return [column.type if column else pa.int64() for column in found]


def plan(query: str, types: Typer = typer) -> View:
    assert isinstance(_STREAM, CreateStream)
    stream = Stream(_STREAM.name, _STREAM.schema, _STREAM.watermark, _STREAM.correction)
    create = parse_statement(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert isinstance(create, CreateView)
    return plan_view(create, lambda name: stream if name == "bids" else None, types)


def test_rows_without_aggregates_are_appended() -> None:
    view = plan("SELECT b.auction, price * 2 AS twice FROM bids AS b WHERE b.price > 1")
    assert isinstance(view, AppendView)
    assert view.columns == (("auction", "auction"), ("twice", "price * 2"))
    assert view.filter == "price > 1"
    assert view.checks == ("price > 1", "price * 2")


def test_an_item_may_use_the_names_before_it() -> None:
    view = plan("SELECT price + 1 AS more, more * 2 AS twice, transform(array(1), more -> more) AS own FROM bids")
    assert isinstance(view, AppendView)
    assert [sql for _, sql in view.columns][:2] == ["price + 1", "(price + 1) * 2"]
    assert view.columns[2][1].lower().endswith("more -> more)")


def test_a_column_without_a_type_is_text_and_an_interval_is_refused() -> None:
    def types(stream: Stream, sqls: Sequence[str]) -> list[pa.DataType]:
        return [pa.null() if sql == "NULL" else pa.duration("us") for sql in sqls]

    view = plan("SELECT NULL AS nothing FROM bids", types)
    assert isinstance(view, AppendView)
    assert view.columns == (("nothing", "CAST(NULL AS STRING)"),)
    with pytest.raises(MillstreamError) as refused:
        plan("SELECT ts - seen AS waited FROM bids", types)
    assert refused.value.code == "TYPE_NOT_SUPPORTED"
    assert refused.value.hint is not None


def test_an_aggregate_is_split_between_spark_and_the_store() -> None:
    view = plan(
        "SELECT window_start, channel AS c, sum(price) / count(*) AS mean "
        f"{TUMBLE} GROUP BY window_start, window_end, channel HAVING mean > 3"
    )
    assert isinstance(view, AggregateView)
    assert [key.sql for key in view.keys] == ["channel"]
    assert [key.output for key in view.keys] == ["c"]
    *plain, mean = [output.sql for output in view.outputs]
    assert plain == ["make_timestamp(__ws)", "__k0"]
    assert mean.startswith("TRY(")
    assert "__a0" in mean
    assert "coalesce(__a1, 0)" in mean
    assert view.having is not None
    assert "> 3" in view.having
    assert view.windows_close


def test_equal_aggregates_share_accumulators() -> None:
    view = plan("SELECT sum(price) AS s, avg(price) AS a, count(price) AS n FROM bids")
    assert isinstance(view, AggregateView)
    assert len(view.kept) == 2


def test_the_same_aggregate_under_another_filter_does_not() -> None:
    view = plan("SELECT count(*) AS n, count(*) FILTER (WHERE price > 1) AS m FROM bids")
    assert isinstance(view, AggregateView)
    assert [kept.filter for kept in view.kept] == [None, "price > 1"]


@pytest.mark.parametrize("group", ["channel, auction % 2", "1, 2", "c, parity", "ALL"])
def test_group_by_names_positions_and_expressions(group: str) -> None:
    view = plan(f"SELECT channel AS c, auction % 2 AS parity, count(*) AS n FROM bids GROUP BY {group}")
    assert isinstance(view, AggregateView)
    assert [key.sql for key in view.keys] == ["channel", "auction % 2"]


def test_distinct_rows_are_groups() -> None:
    view = plan("SELECT DISTINCT channel, auction FROM bids")
    assert isinstance(view, AggregateView)
    assert len(view.keys) == 2


def test_lateness_without_a_late_rate_means_every_epoch() -> None:
    view = plan(
        f"SELECT window_start, count(*) AS n {TUMBLE} GROUP BY window_start "
        "EMIT ON WATERMARK ALLOWED LATENESS INTERVAL 1 MINUTE"
    )
    assert isinstance(view, AggregateView)
    assert view.trigger.late == EveryEpoch()
    assert view.lateness == 60_000_000


@pytest.mark.parametrize(
    ("call", "window", "bounds"),
    [
        (
            "SESSION(bids PARTITION BY Auction, channel, ts, INTERVAL 1 MINUTE)",
            SessionWindow("ts", 60_000_000, ("auction", "channel")),
            ("make_timestamp(__ws)", "make_timestamp(__we)"),
        ),
        (
            "SLIDE(bids PARTITION BY channel, auction, ts, INTERVAL 1 SECOND)",
            SlideWindow("ts", 1_000_000, ("channel", "auction")),
            ("make_timestamp(__ws)", "make_timestamp(__ws + 1000000)"),
        ),
        (
            "COUNT_WINDOW(bids PARTITION BY (auction, channel), 4, 2)",
            CountWindow(4, 2, ("auction", "channel")),
            ("make_timestamp(__ws)", "make_timestamp(__we)"),
        ),
        (
            "SESSION(bids PARTITION BY auction, channel, PROCTIME(), INTERVAL 1 MINUTE)",
            SessionWindow(None, 60_000_000, ("auction", "channel")),
            ("make_timestamp(__ws)", "make_timestamp(__we)"),
        ),
    ],
)
def test_windows_of_keys(call: str, window: KeyedWindow, bounds: tuple[str, str]) -> None:
    view = plan(
        "SELECT window_start AS a, window_end AS b, channel AS c, auction, count(*) AS n "
        f"FROM {call} GROUP BY window_start, window_end, auction, channel"
    )
    assert isinstance(view, AggregateView)
    assert view.window == window
    assert tuple(output.sql for output in view.outputs[:2]) == bounds
    assert view.key_columns == ("a", "b", "c", "auction")
    assert view.windows_close == (not isinstance(window, CountWindow))


def test_sessions_on_another_column_never_close() -> None:
    view = plan("SELECT window_start, count(*) AS n FROM SESSION(bids, seen, INTERVAL 1 MINUTE) GROUP BY window_start")
    assert isinstance(view, AggregateView)
    assert not view.windows_close


def test_what_holds_an_aggregate_is_no_key() -> None:
    view = plan(f"SELECT window_end, window_end + max(ts) AS late, auction AS a {SESSION} GROUP BY window_end, auction")
    assert isinstance(view, AggregateView)
    assert view.key_columns == ("window_end", "a")


@pytest.mark.parametrize(
    ("query", "code", "at"),
    [
        ("SELECT nope FROM bids", "UNKNOWN_COLUMN", "nope"),
        ("SELECT x.price FROM bids", "UNKNOWN_RELATION", "price"),
        ("SELECT price FROM nowhere", "UNKNOWN_STREAM", "nowhere"),
        ("SELECT price, count(*) AS n FROM bids GROUP BY channel", "NOT_GROUPED", "price"),
        (f"SELECT window_start, count(*) AS n {TUMBLE} GROUP BY channel", "WINDOW_NOT_GROUPED", "window_start"),
        ("SELECT price, price FROM bids", "DUPLICATE_COLUMN", "price"),
        ("SELECT price AS __p FROM bids", "RESERVED_NAME", "price"),
        ("SELECT sum(channel) AS s FROM bids", "TYPE_MISMATCH", "sum"),
        ("SELECT sum(sum(price)) AS s FROM bids", "NESTED_AGGREGATE", "sum"),
        ("SELECT price FROM bids WHERE sum(price) > 1", "AGGREGATE_IN_WHERE", "price"),
        ("SELECT count(*) AS n FROM bids GROUP BY sum(price)", "AGGREGATE_IN_GROUP_BY", "sum"),
        ("SELECT count(*) AS n FROM bids EMIT ON WATERMARK", "EMIT_NEEDS_WINDOW", None),
        ("SELECT price FROM bids EMIT EVERY 2 ROWS", "EMIT_WITHOUT_GROUPS", None),
        (
            "SELECT window_start, count(*) AS n FROM TUMBLE(bids, seen, INTERVAL 1 MINUTE) GROUP BY window_start "
            "EMIT ON WATERMARK",
            "EMIT_NEEDS_WINDOW",
            None,
        ),
        (
            "SELECT count(*) AS n FROM bids EMIT ON EPOCH ALLOWED LATENESS INTERVAL 1 MINUTE",
            "LATENESS_WITHOUT_WINDOW",
            None,
        ),
        ("SELECT a.price FROM bids a JOIN bids b ON a.auction = b.auction", "NOT_SUPPORTED", None),
        ("SELECT price FROM (SELECT price FROM bids) t", "NOT_SUPPORTED", None),
        ("SELECT price FROM bids UNION ALL SELECT price FROM bids", "NOT_SUPPORTED", None),
        ("SELECT price FROM bids ORDER BY price LIMIT 3", "NOT_SUPPORTED", None),
        ("SELECT row_number() OVER (ORDER BY price) AS r FROM bids", "NOT_SUPPORTED", None),
        (f"SELECT count(*) AS n {SESSION}", "WINDOW_NOT_GROUPED", None),
        (f"SELECT window_start, price {SESSION}", "WINDOW_NOT_GROUPED", None),
        (f"SELECT window_start, count(*) AS n {SESSION} GROUP BY window_start", "PARTITION_NOT_GROUPED", None),
        (
            f"SELECT window_start, channel, count(*) AS n {SESSION} GROUP BY window_start, auction, channel",
            "PARTITION_NOT_GROUPED",
            "channel",
        ),
        (
            f"SELECT window_start, count(*) AS n {SESSION} GROUP BY window_start, auction % 2",
            "PARTITION_NOT_GROUPED",
            "auction",
        ),
        (
            "SELECT window_start, auction, count(*) AS n FROM SESSION(bids, ts, INTERVAL 1 MINUTE) "
            "GROUP BY window_start, auction",
            "PARTITION_NOT_GROUPED",
            "auction",
        ),
        (
            "SELECT window_start, count(*) AS n FROM SESSION(bids PARTITION BY nope, ts, INTERVAL 1 MINUTE) "
            "GROUP BY window_start",
            "UNKNOWN_COLUMN",
            "nope",
        ),
        (
            "SELECT window_start, count(*) AS n FROM SESSION(bids, price, INTERVAL 1 MINUTE) GROUP BY window_start",
            "TYPE_MISMATCH",
            "price",
        ),
        (
            f"SELECT window_start, auction, count(*) AS n {SESSION} WHERE window_start > ts "
            "GROUP BY window_start, auction",
            "WINDOW_NOT_GROUPED",
            None,
        ),
        (f"SELECT window_end, auction, count(*) AS n {SLIDE} EMIT ON EPOCH DISCARDING", "EMIT_ON_SLIDE", None),
        (f"SELECT window_end, auction, count(*) AS n {COUNT} EMIT ON WATERMARK", "EMIT_ON_COUNT_WINDOW", None),
        (f"SELECT window_end, auction, count(*) AS n {COUNT} EMIT EVERY 2 ROWS", "EMIT_ON_COUNT_WINDOW", None),
        (f"SELECT window_end, auction, count(*) AS n {COUNT} EMIT ON EPOCH RETRACTING", "EMIT_ON_COUNT_WINDOW", None),
        (
            f"SELECT window_end, auction, count(*) AS n {COUNT} EMIT ON EPOCH ALLOWED LATENESS INTERVAL 1 MINUTE",
            "LATENESS_WITHOUT_WINDOW",
            None,
        ),
        (
            f"SELECT window_end, count(*) AS n {CLOCK} EMIT ON WATERMARK ALLOWED LATENESS INTERVAL 1 MINUTE",
            "LATENESS_WITHOUT_WINDOW",
            None,
        ),
        (
            f"SELECT window_end, count(*) AS n {CLOCK} EMIT ON WATERMARK LATE EVERY 1 ROW",
            "LATENESS_WITHOUT_WINDOW",
            None,
        ),
        ("SELECT window_start, price FROM TUMBLE(bids, PROCTIME(), INTERVAL 1 MINUTE)", "WINDOW_NOT_GROUPED", None),
        (
            "SELECT window_start, count(*) AS n FROM HOP(bids, PROCTIME(), INTERVAL 2 MINUTES, INTERVAL 1 MINUTE) "
            "GROUP BY window_start",
            "BAD_WINDOW",
            None,
        ),
    ],
)
def test_refusals_name_the_place(query: str, code: str, at: str | None) -> None:
    with pytest.raises(MillstreamError) as caught:
        plan(query)
    assert caught.value.code == code
    position = caught.value.position
    assert position is not None
    if at is not None:
        assert at in position.text[position.start : position.end]
