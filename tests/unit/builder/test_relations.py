"""Relations: each says what a text says, and misuse is refused at the call."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millstream as ms
from millstream.builder.relations import Relation
from tests.unit.builder.equality import check_round_trip, same
from tests.unit.builder.test_expressions import expressions, texts

bids = ms.stream("bids", event_time="ts")
sales = ms.stream("sales", event_time="sold_at")
users = ms.table("users")
price, auction = ms.col("price"), ms.col("auction")
tumbled = bids.window(ms.Tumble("10 seconds"))
counted = bids.group_by("auction").agg(n=ms.count())

SAME: list[tuple[Relation, str]] = [
    # rows
    (bids, "SELECT * FROM bids"),
    (bids.select("auction", p=price), "SELECT auction, price AS p FROM bids"),
    (
        bids.select("auction", price.alias("p")).filter(ms.col("p") > 1),
        "SELECT auction, price p FROM bids WHERE price > 1",
    ),
    (bids.filter(price > 1).filter(auction == 2), "SELECT * FROM bids WHERE price > 1 AND auction = 2"),
    (
        bids.filter((price > 1) | (auction == 2), price < 9),
        "SELECT * FROM bids WHERE (price > 1 OR auction = 2) AND price < 9",
    ),
    (
        bids.with_columns(x=price + 1).filter(ms.col("x") * 2 > 3),
        "SELECT *, price + 1 AS x FROM bids WHERE (price + 1) * 2 > 3",
    ),
    (bids.with_columns(x=price).with_columns(x=ms.col("x") + 1), "SELECT *, price + 1 AS x FROM bids"),
    (
        bids.with_columns(x=price + 1).select("x", y=ms.fn.abs("x")),
        "SELECT price + 1 AS x, abs(price + 1) AS y FROM bids",
    ),
    (bids.select(price.cast("int"), auction="auction"), "SELECT CAST(price AS INT) AS price, auction FROM bids"),
    (bids.select(x=ms.lit("x"), y=ms.lit(None)), "SELECT 'x' AS x, NULL AS y FROM bids"),
    (bids.select("*", x=price), "SELECT *, price AS x FROM bids"),
    (bids.select(x="payload.zip").filter(ms.col("x") == 1), "SELECT payload.zip AS x FROM bids WHERE payload.zip = 1"),
    (
        bids.select(p=ms.expr("named_struct('zip', a)")).select(x="p.zip"),
        "SELECT (named_struct('zip', a)).zip AS x FROM bids",
    ),
    (bids.filter(bids["price"] > 1), "SELECT * FROM bids WHERE bids.price > 1"),
    (bids.with_columns(x=price + 1).filter(bids["x"] > 1), "SELECT *, price + 1 AS x FROM bids WHERE price + 1 > 1"),
    (bids.alias("b").filter(ms.col("b.price") > 1), "SELECT * FROM bids AS b WHERE b.price > 1"),
    (bids.select("bidder").distinct(), "SELECT DISTINCT bidder FROM bids"),
    (
        bids.select("bidder").distinct().filter(ms.col("bidder") > 1),
        "SELECT DISTINCT bidder FROM bids WHERE bidder > 1",
    ),
    (bids.select("a", "b").distinct().select("a"), "SELECT a FROM (SELECT DISTINCT a, b FROM bids) AS bids"),
    (ms.stream("select").select("from", "a b"), "SELECT `from`, `a b` FROM `select`"),
    # order
    (
        counted.order_by(ms.desc("n"), "auction").limit(3),
        "SELECT auction, count(*) AS n FROM bids GROUP BY auction ORDER BY n DESC, auction LIMIT 3",
    ),
    (bids.order_by(bids["price"].asc(nulls="last")), "SELECT * FROM bids ORDER BY bids.price NULLS LAST"),
    (
        bids.order_by("price").limit(3).filter(price > 1),
        "SELECT * FROM (SELECT * FROM bids ORDER BY price LIMIT 3) AS bids WHERE price > 1",
    ),
    (bids.limit(3).limit(2), "SELECT * FROM (SELECT * FROM bids LIMIT 3) AS bids LIMIT 2"),
    (
        bids.top(2, by=["auction", "bidder"], order_by=[ms.desc("price"), "ts"], rank="place"),
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY auction, bidder ORDER BY price DESC, ts) AS place "
        "FROM bids) AS bids WHERE place <= 2",
    ),
    (
        bids.top(1, by="auction", order_by=ms.desc("ts")).select("auction", "price"),
        "SELECT auction, price FROM (SELECT *, row_number() OVER (PARTITION BY auction ORDER BY ts DESC) AS rank "
        "FROM bids) AS bids WHERE rank <= 1",
    ),
    (
        tumbled.group_by("auction").agg(n=ms.count()).top(3, by="window_start", order_by=ms.desc("n")),
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY window_start ORDER BY n DESC) AS rank FROM ("
        "SELECT window_start, window_end, auction, count(*) AS n FROM TUMBLE(bids, ts, INTERVAL 10 SECONDS) "
        "GROUP BY window_start, window_end, auction) AS bids) AS bids WHERE rank <= 3",
    ),
    # groups
    (bids.agg(n=ms.count()), "SELECT count(*) AS n FROM bids"),
    (bids.agg(ms.count().alias("n")), "SELECT count(*) AS n FROM bids"),
    (counted, "SELECT auction, count(*) AS n FROM bids GROUP BY auction"),
    (counted.select("n"), "SELECT count(*) AS n FROM bids GROUP BY auction"),
    (
        counted.with_columns(m=ms.col("n") + 1).select(x=ms.col("m") * 2),
        "SELECT (count(*) + 1) * 2 AS x FROM bids GROUP BY auction",
    ),
    (counted.having(ms.col("n") > 1), "SELECT auction, count(*) AS n FROM bids GROUP BY auction HAVING count(*) > 1"),
    (counted.filter(ms.col("n") > 1), "SELECT auction, count(*) AS n FROM bids GROUP BY auction HAVING count(*) > 1"),
    (
        counted.having(ms.max("price") > ms.col("n")),
        "SELECT auction, count(*) AS n FROM bids GROUP BY auction HAVING max(price) > count(*)",
    ),
    (
        bids.group_by("auction").agg(price=ms.max("price")).having(price > 1, ms.min("price") > 0),
        "SELECT auction, max(price) AS price FROM bids GROUP BY auction HAVING max(price) > 1 AND min(price) > 0",
    ),
    (
        bids.with_columns(x=price * 2).group_by(big=ms.col("x") > 9).agg(s=ms.sum("x")).having(ms.max("x") > 1),
        "SELECT price * 2 > 9 AS big, sum(price * 2) AS s FROM bids GROUP BY price * 2 > 9 HAVING max(price * 2) > 1",
    ),
    (
        counted.group_by("n").agg(auctions=ms.count()),
        "SELECT n, count(*) AS auctions FROM (SELECT auction, count(*) AS n FROM bids GROUP BY auction) AS bids "
        "GROUP BY n",
    ),
    (
        bids.group_by("auction").agg(n=ms.count().filter(price > 1), mean=ms.sum("price") / ms.count()),
        "SELECT auction, count(*) FILTER (WHERE price > 1) AS n, sum(price) / count(*) AS mean FROM bids GROUP "
        "BY auction",
    ),
    (
        bids.with_columns(x=ms.lit(1)).group_by("x", y=ms.lit("y")).agg(n=ms.count()),
        "SELECT CAST(1 AS INT) AS x, 'y' AS y, count(*) AS n FROM bids GROUP BY CAST(1 AS INT), 'y'",
    ),
    # windows
    (
        bids.filter(price > 100)
        .window(ms.Hop(slide="2 seconds", size="10 seconds"))
        .group_by("auction")
        .agg(n=ms.count()),
        "SELECT window_start, window_end, auction, count(*) AS n FROM HOP(bids, ts, INTERVAL 2 SECONDS, "
        "INTERVAL 10 SECONDS) "
        "WHERE price > 100 GROUP BY window_start, window_end, auction",
    ),
    (
        bids.window(ms.Tumble(timedelta(days=1), on="at", offset="-2 hours")).agg(n=ms.count()),
        "SELECT window_start, window_end, count(*) AS n FROM TUMBLE(bids, at, INTERVAL 1 DAY, INTERVAL -2 HOURS) "
        "GROUP BY window_start, window_end",
    ),
    (tumbled.select("auction", "window_end"), "SELECT auction, window_end FROM TUMBLE(bids, ts, INTERVAL 10 SECONDS)"),
    (
        bids.select("auction", t="ts").window(ms.Tumble("1 hour", on="t")),
        "SELECT auction, ts AS t, window_start, window_end FROM TUMBLE(bids, ts, INTERVAL 1 HOUR)",
    ),
    (
        tumbled.agg(n=ms.count()).select("window_start", "n"),
        "SELECT window_start, count(*) AS n FROM TUMBLE(bids, ts, INTERVAL 10 SECONDS) GROUP BY window_start, "
        "window_end",
    ),
    (
        bids.window(ms.Session("5 minutes")).group_by("bidder", "channel").agg(n=ms.count()),
        "SELECT window_start, window_end, bidder, channel, count(*) AS n "
        "FROM SESSION(bids PARTITION BY bidder, channel, ts, INTERVAL 5 MINUTES) "
        "GROUP BY window_start, window_end, bidder, channel",
    ),
    (
        bids.window(ms.Session("5 minutes", by="bidder")).group_by(b=ms.fn.upper("channel")).agg(n=ms.count()),
        "SELECT window_start, window_end, upper(channel) AS b, count(*) AS n "
        "FROM SESSION(bids PARTITION BY bidder, ts, INTERVAL 5 MINUTES) GROUP BY window_start, window_end, "
        "upper(channel)",
    ),
    (
        bids.window(ms.Slide("1 hour")).group_by("bidder").agg(n=ms.count()),
        "SELECT window_start, window_end, bidder, count(*) AS n FROM SLIDE(bids PARTITION BY bidder, ts, "
        "INTERVAL 1 HOUR) "
        "GROUP BY window_start, window_end, bidder",
    ),
    (
        ms.stream("bids").window(ms.CountWindow(10, slide=5)).group_by("bidder").agg(n=ms.count()),
        "SELECT window_start, window_end, bidder, count(*) AS n FROM COUNT_WINDOW(bids PARTITION BY bidder, 10, 5) "
        "GROUP BY window_start, window_end, bidder",
    ),
    (
        ms.view("v").window(ms.Tumble("1 hour", on="window_end")).agg(n=ms.count()),
        "SELECT window_start, window_end, count(*) AS n FROM TUMBLE(v, window_end, INTERVAL 1 HOUR) "
        "GROUP BY window_start, window_end",
    ),
    # joins
    (
        bids.join(users, on=bids["bidder"] == users["id"]).select(bids["auction"], users["name"]),
        "SELECT bids.auction, users.name FROM bids JOIN users ON bids.bidder = users.id",
    ),
    (
        bids.join(users.alias("u"), on=ms.col("bids.bidder") == ms.col("u.id"), how="left", as_of="ts").select(
            x="u.name"
        ),
        "SELECT u.name AS x FROM bids LEFT JOIN users FOR SYSTEM_TIME AS OF bids.ts AS u ON bids.bidder = u.id",
    ),
    (
        bids.join(sales, on="auction", how="full", within="1 hour"),
        "SELECT * FROM bids FULL JOIN sales ON bids.auction = sales.auction "
        "AND sales.sold_at BETWEEN bids.ts - INTERVAL 1 HOUR AND bids.ts + INTERVAL 1 HOUR",
    ),
    (
        bids.join(sales, on=["auction", bids["price"] < sales["price"]], how="right", within=(timedelta(), "1 minute")),
        "SELECT * FROM bids RIGHT JOIN sales ON bids.auction = sales.auction AND bids.price < sales.price "
        "AND sales.sold_at BETWEEN bids.ts AND bids.ts + INTERVAL 1 MINUTE",
    ),
    (
        bids.filter(price > 1).join(sales.filter(price > 2), on="auction").filter(ms.col("bids.price") < 9),
        "SELECT * FROM bids JOIN sales ON bids.auction = sales.auction "
        "WHERE bids.price > 1 AND sales.price > 2 AND bids.price < 9",
    ),
    (
        bids.filter(price > 1).join(sales.filter(price > 2), on="auction", how="left"),
        "SELECT * FROM bids LEFT JOIN (SELECT * FROM sales WHERE price > 2) AS sales ON bids.auction = sales.auction "
        "WHERE bids.price > 1",
    ),
    (
        bids.filter(price > 1).join(sales, on="auction", how="right"),
        "SELECT * FROM (SELECT * FROM bids WHERE price > 1) AS bids RIGHT JOIN sales ON bids.auction = sales.auction",
    ),
    (
        bids.join(users, on=bids["bidder"] == users["id"])
        .join(sales, on="auction")
        .group_by(users["zip"])
        .agg(n=ms.count()),
        "SELECT users.zip, count(*) AS n FROM bids JOIN users ON bids.bidder = users.id "
        "JOIN sales ON bids.auction = sales.auction GROUP BY users.zip",
    ),
    (
        bids.join(counted.alias("c"), on="auction").select(bids["price"], ms.col("c.n")),
        "SELECT bids.price, c.n FROM bids JOIN (SELECT auction, count(*) AS n FROM bids GROUP BY auction) AS c "
        "ON bids.auction = c.auction",
    ),
    (
        counted.join(users, on=counted["auction"] == users["id"]).select("name", counted["n"]),
        "SELECT name, bids.n FROM (SELECT auction, count(*) AS n FROM bids GROUP BY auction) AS bids "
        "JOIN users ON bids.auction = users.id",
    ),
    (
        bids.alias("a").join(bids.alias("b"), on="auction").select(ms.col("a.*"), other="b.price"),
        "SELECT a.*, b.price AS other FROM bids a JOIN bids b ON a.auction = b.auction",
    ),
    (
        bids.join(users, on="id")
        .select(users["id"], x=bids["a"])
        .filter(bids["id"] > 1, users["x"] > 2, ms.col("x") > 3),
        "SELECT users.id, bids.a AS x FROM bids JOIN users ON bids.id = users.id "
        "WHERE bids.id > 1 AND users.x > 2 AND bids.a > 3",
    ),
    (
        bids.join(users, on="id").group_by(users["zip"]).agg(n=ms.count()).having(users["zip"] > 1, ms.col("n") > 1),
        "SELECT users.zip, count(*) AS n FROM bids JOIN users ON bids.id = users.id GROUP BY users.zip "
        "HAVING users.zip > 1 AND count(*) > 1",
    ),
    (
        tumbled.join(users, on="id", as_of=bids["ts"]).group_by(users["zip"]).agg(n=ms.count()),
        "SELECT window_start, window_end, users.zip, count(*) AS n FROM TUMBLE(bids, ts, INTERVAL 10 SECONDS) "
        "JOIN users FOR SYSTEM_TIME AS OF bids.ts ON bids.id = users.id GROUP BY window_start, window_end, users.zip",
    ),
    # unions
    (
        bids.select("price").union_all(sales.select("price").limit(2), users.select("id")),
        "SELECT price FROM bids UNION ALL (SELECT price FROM sales LIMIT 2) UNION ALL SELECT id FROM users",
    ),
    (
        bids.select("price").union_all(sales.select("price")).filter(price > 1),
        "SELECT * FROM (SELECT price FROM bids UNION ALL SELECT price FROM sales) WHERE price > 1",
    ),
    # triggers
    (
        tumbled.agg(n=ms.count()).emit(
            ms.on_watermark(early=ms.every("5 seconds"), late=ms.every(rows=1)),
            accumulate="retracting",
            lateness="1 hour",
        ),
        "SELECT window_start, window_end, count(*) AS n FROM TUMBLE(bids, ts, INTERVAL 10 SECONDS) "
        "GROUP BY window_start, window_end "
        "EMIT EARLY EVERY 5 SECONDS ON WATERMARK LATE EVERY 1 ROW RETRACTING ALLOWED LATENESS INTERVAL 1 HOUR",
    ),
    (counted.emit(ms.on_epoch()), "SELECT auction, count(*) AS n FROM bids GROUP BY auction EMIT ON EPOCH"),
    (
        counted.emit(ms.every(rows=3), accumulate="discarding").filter(ms.col("n") > 1),
        "SELECT auction, count(*) AS n FROM bids GROUP BY auction HAVING count(*) > 1 EMIT EVERY 3 ROWS DISCARDING",
    ),
    (
        counted.emit(ms.every(timedelta(milliseconds=1))),
        "SELECT auction, count(*) AS n FROM bids GROUP BY auction EMIT EVERY 1 MILLISECOND",
    ),
]


@pytest.mark.parametrize(("relation", "text"), SAME, ids=[text[:60] for _, text in SAME])
def test_the_builder_and_the_text_give_the_same_statement(relation: Relation, text: str) -> None:
    same(relation, text)


def test_options() -> None:
    same(
        counted,
        "CREATE OR REPLACE VIEW v WITH (retain = '90 minutes', backfill = false, changelog_retain = '1 day') AS "
        "SELECT auction, count(*) AS n FROM bids GROUP BY auction",
        retain=timedelta(minutes=90),
        backfill=False,
        changelog_retain="1 day",
        or_replace=True,
    )
    same(
        counted,
        "CREATE VIEW IF NOT EXISTS v AS SELECT auction, count(*) AS n FROM bids GROUP BY auction",
        if_not_exists=True,
    )


MISUSE: list[tuple[str, Any]] = [
    ("HAVING_WITHOUT_AGG", lambda: bids.having(price > 1)),
    ("HAVING_WITHOUT_AGG", lambda: bids.group_by("auction").having(ms.count() > 1)),
    ("WINDOW_TWICE", lambda: tumbled.window(ms.Tumble("1 hour"))),
    ("WINDOW_TWICE", lambda: tumbled.agg(n=ms.count()).window(ms.Tumble("1 hour"))),
    ("WINDOW_AFTER_GROUP", lambda: bids.group_by("auction").window(ms.Tumble("1 hour"))),
    ("BAD_WINDOW", lambda: counted.window(ms.Tumble("1 hour"))),
    ("BAD_WINDOW", lambda: bids.join(users, on="id").window(ms.Tumble("1 hour"))),
    ("BAD_WINDOW", lambda: bids.window("1 hour")),
    ("BAD_WINDOW", lambda: bids.with_columns(t=ms.fn.f("ts")).window(ms.Tumble("1 hour", on="t"))),
    ("BAD_WINDOW", lambda: bids.window(ms.Session("1 hour")).group_by(x=price + 1).agg(n=ms.count())),
    ("BAD_WINDOW", lambda: ms.CountWindow(0)),
    ("BAD_WINDOW", lambda: ms.CountWindow(3, slide=True)),
    ("BAD_DURATION", lambda: ms.Tumble("soon")),
    ("BAD_DURATION", lambda: ms.Tumble(10)),
    ("BAD_DURATION", lambda: ms.Hop(slide="0 seconds", size="1 second")),
    ("BAD_DURATION", lambda: ms.Session(timedelta(seconds=-1))),
    ("NO_EVENT_TIME", lambda: ms.stream("bids").window(ms.Tumble("1 hour"))),
    ("NO_EVENT_TIME", lambda: bids.join(users, on="id", within="1 hour")),
    ("NO_EVENT_TIME", lambda: bids.select("auction").join(sales, on="auction", within="1 hour")),
    ("NO_EVENT_TIME", lambda: counted.join(sales, on="auction", within="1 hour")),
    ("BAD_JOIN", lambda: bids.union_all(sales).join(users, on="id", as_of="ts")),
    ("BAD_JOIN", lambda: bids.join(users, on="id", how="outer")),
    ("BAD_JOIN", lambda: bids.join(bids, on="auction")),
    ("BAD_JOIN", lambda: bids.join(sales, on="auction").join(sales, on="auction")),
    ("BAD_JOIN", lambda: bids.join(users, on=[])),
    ("BAD_JOIN", lambda: bids.join(users.filter(price > 1), on="id", how="left", as_of="ts")),
    ("BAD_JOIN", lambda: bids.union_all(sales).join(users, on="id")),
    ("BAD_JOIN", lambda: bids.join(bids.union_all(sales), on="id")),
    ("BAD_JOIN", lambda: bids.join(sales, on="auction", within=("1 second", "-2 seconds"))),
    ("NOT_A_RELATION", lambda: bids.join("users", on="id")),
    ("NOT_A_CONDITION", lambda: bids.filter("price > 100")),
    ("NOT_A_CONDITION", lambda: bids.filter(True)),
    ("AGGREGATE_IN_WHERE", lambda: bids.filter(ms.count() > 1)),
    ("AGGREGATE_OUTSIDE_AGG", lambda: bids.select(n=ms.count())),
    ("AGGREGATE_OUTSIDE_AGG", lambda: bids.group_by(n=ms.count())),
    ("NOT_AN_AGGREGATE", lambda: bids.agg(n="price")),
    ("NOT_AN_AGGREGATE", lambda: bids.agg(n=price)),
    ("NOT_AN_AGGREGATE", lambda: bids.group_by("auction").agg()),
    ("GROUP_WITHOUT_AGG", lambda: bids.group_by("auction").filter(price > 1)),
    ("GROUP_WITHOUT_AGG", lambda: bids.group_by("auction").to_sql()),
    ("GROUP_WITHOUT_AGG", lambda: bids.group_by("auction").create("v")),
    ("GROUP_WITHOUT_AGG", lambda: bids.group_by("a").group_by("b")),
    ("UNKNOWN_COLUMN", lambda: bids.select("auction").filter(price > 1)),
    ("UNKNOWN_COLUMN", lambda: counted.select("m")),
    ("UNKNOWN_COLUMN", lambda: counted.limit(3).filter(price > 1)),
    ("UNKNOWN_COLUMN", lambda: counted.order_by("price")),
    ("DUPLICATE_COLUMN", lambda: bids.select("price", price=auction)),
    ("DUPLICATE_COLUMN", lambda: bids.group_by("price").agg(price=ms.count())),
    ("DUPLICATE_COLUMN", lambda: bids.select("rank").top(1, order_by="rank")),
    ("NO_NAME", lambda: bids.select(price + 1)),
    ("NO_NAME", lambda: bids.select(ms.lit("x"))),
    ("NO_NAME", lambda: bids.agg(ms.sum("price") + 1)),
    ("NO_NAME", lambda: bids.join(users, on="id")["name"]),
    ("NO_COLUMNS", lambda: bids.select()),
    ("NO_ORDER", lambda: bids.top(1, order_by=[])),
    ("BAD_LIMIT", lambda: bids.limit(-1)),
    ("BAD_LIMIT", lambda: bids.limit("3")),
    ("BAD_LIMIT", lambda: bids.top(0, order_by="price")),
    ("BAD_EMIT", lambda: counted.emit("on epoch")),
    ("BAD_EMIT", lambda: counted.emit(ms.on_epoch(), accumulate="adding")),
    ("BAD_EMIT", lambda: counted.emit(ms.on_epoch(), lateness="-1 second")),
    ("BAD_EMIT", lambda: ms.every()),
    ("BAD_EMIT", lambda: ms.every("1 second", rows=3)),
    ("BAD_EMIT", lambda: ms.every(rows=0)),
    ("BAD_EMIT", lambda: ms.on_watermark(early=ms.on_watermark())),
    ("BAD_DURATION", lambda: ms.every("0 seconds")),
    ("EMIT_TWICE", lambda: counted.emit(ms.on_epoch()).emit(ms.on_epoch())),
    ("EMIT_INSIDE", lambda: bids.join(counted.alias("c").emit(ms.on_epoch()), on="auction")),
    ("EMIT_IN_QUERY", lambda: counted.emit(ms.on_epoch()).query()),
    ("NOT_CONNECTED", lambda: counted.create("v")),
    ("NOT_CONNECTED", lambda: ms.view("v").query()),
    ("NOT_CONNECTED", lambda: ms.view("v").changes()),
    ("BAD_NAME", lambda: counted.to_sql("v; DROP VIEW w")),
    ("BAD_NAME", lambda: ms.stream("")),
]


@pytest.mark.parametrize(("code", "misuse"), MISUSE)
def test_misuse_is_refused_at_the_call(code: str, misuse: Any) -> None:
    with pytest.raises(ms.MillstreamError) as caught:
        misuse()
    assert caught.value.code == code
    assert caught.value.message[0].islower() or not caught.value.message[0].isalpha()


def test_hints_help() -> None:
    with pytest.raises(ms.MillstreamError) as caught:
        bids.join(users, on="id", how="iner")  # type: ignore[arg-type]
    assert caught.value.hint == "did you mean 'inner'?"
    with pytest.raises(ms.MillstreamError) as caught:
        counted.filter(ms.col("auctoin") > 1)
    assert caught.value.hint == "did you mean 'auction'?"


def test_relations_are_not_changed_by_what_is_made_of_them() -> None:
    before = str(counted)
    for step in (
        lambda r: r.having(ms.col("n") > 1),
        lambda r: r.select("n"),
        lambda r: r.emit(ms.on_epoch()),
        lambda r: r.order_by("n").limit(1),
        lambda r: r.join(users, on="auction"),
        lambda r: r.union_all(r),
    ):
        assert str(step(counted)) != before or step(counted) is not counted
        assert str(counted) == before


def test_representations() -> None:
    assert repr(counted) == "<Relation SELECT auction, COUNT(*) AS n FROM bids GROUP BY auction>"
    assert repr(bids.group_by("auction", x=price)) == "<Relation grouped by auction, x>"
    assert repr(ms.view("v")) == "<View SELECT * FROM v>"
    assert repr(price > 1) == "Expression(price > 1)"


steps = st.lists(
    st.one_of(
        st.builds(lambda e: lambda r: r.filter(e == 1), expressions),
        st.builds(lambda e: lambda r: r.with_columns(a=e), expressions),
        st.builds(lambda e, f: lambda r: r.select("c", "t", "ts", a=e, b=f), expressions, expressions),
        st.builds(lambda e: lambda r: r.order_by("a").limit(3).filter(e.is_null()), expressions),
        st.builds(
            lambda n: lambda r: r.top(2, by="a", order_by=ms.desc("b"), rank=f"rank{n}"),
            st.uuids().map(lambda u: u.hex),
        ),
        st.builds(lambda e: lambda r: r.group_by("b", "t", "ts", a=e).agg(c=ms.max("c")), expressions),
        st.builds(lambda t: lambda r: r.filter(ms.col("a") == t, ms.col("b").isin(t, "x")), texts),
        st.just(lambda r: r.distinct()),
        st.just(lambda r: r.select("a", "b", "c", "t", "ts").union_all(r.select("a", "b", "c", "t", "ts"))),
    ),
    max_size=4,
)
emits = st.builds(
    lambda trigger, how, lateness: lambda r: r.emit(trigger, accumulate=how, lateness=lateness),
    st.sampled_from([ms.on_epoch(), ms.every(rows=3), ms.every("90 seconds"), ms.on_watermark(late=ms.on_epoch())]),
    st.sampled_from(["discarding", "accumulating", "retracting"]),
    st.none() | st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=99)),
)


@settings(max_examples=100, deadline=None)
@given(steps, emits, texts)
def test_whatever_is_built_is_read_back(steps: list[Any], emit: Any, text: str) -> None:
    relation = ms.stream("s")
    for step in steps:
        relation = step(relation)
    statement = emit(relation).statement("v", retain=text)
    assert dict(statement.options)["retain"] == text
    check_round_trip(statement)
    assert emit(relation).to_sql("v", retain=text).endswith(f" AS\n{emit(relation).to_sql()}")
