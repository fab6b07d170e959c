"""Groups and windows: each says what a text says, and misuse is refused at the call."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import millstream as ms
from tests.answers import untyped
from tests.unit.builder.bids import bids, counted, price, tumbled, users
from tests.unit.builder.equality import refused, same

SAME: list[tuple[ms.Relation, str]] = [
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
]


@pytest.mark.parametrize(("relation", "text"), SAME, ids=[text[:60] for _, text in SAME])
def test_the_builder_and_the_text_give_the_same_statement(relation: ms.Relation, text: str) -> None:
    same(relation, text)


MISUSE: list[tuple[str, Any]] = [
    ("HAVING_WITHOUT_AGG", lambda: bids.having(price > 1)),
    ("HAVING_WITHOUT_AGG", lambda: bids.group_by("auction").having(ms.count() > 1)),
    ("WINDOW_TWICE", lambda: tumbled.window(ms.Tumble("1 hour"))),
    ("WINDOW_TWICE", lambda: tumbled.agg(n=ms.count()).window(ms.Tumble("1 hour"))),
    ("WINDOW_AFTER_GROUP", lambda: bids.group_by("auction").window(ms.Tumble("1 hour"))),
    ("BAD_WINDOW", lambda: counted.window(ms.Tumble("1 hour"))),
    ("BAD_WINDOW", lambda: bids.join(users, on="id").window(ms.Tumble("1 hour"))),
    ("BAD_WINDOW", lambda: bids.window(untyped("1 hour"))),
    ("BAD_WINDOW", lambda: bids.with_columns(t=ms.fn.f("ts")).window(ms.Tumble("1 hour", on="t"))),
    ("BAD_WINDOW", lambda: bids.window(ms.Session("1 hour")).group_by(x=price + 1).agg(n=ms.count())),
    ("BAD_WINDOW", lambda: ms.CountWindow(0)),
    ("BAD_WINDOW", lambda: ms.CountWindow(3, slide=True)),
    ("BAD_DURATION", lambda: ms.Tumble("soon")),
    ("BAD_DURATION", lambda: ms.Tumble(untyped(10))),
    ("BAD_DURATION", lambda: ms.Hop(slide="0 seconds", size="1 second")),
    ("BAD_DURATION", lambda: ms.Session(timedelta(seconds=-1))),
    ("NO_EVENT_TIME", lambda: ms.stream("bids").window(ms.Tumble("1 hour"))),
    ("AGGREGATE_OUTSIDE_AGG", lambda: bids.group_by(n=ms.count())),
    ("NOT_AN_AGGREGATE", lambda: bids.agg(n=untyped("price"))),
    ("NOT_AN_AGGREGATE", lambda: bids.agg(n=price)),
    ("NOT_AN_AGGREGATE", lambda: bids.group_by("auction").agg()),
    ("GROUP_WITHOUT_AGG", lambda: bids.group_by("auction").filter(price > 1)),
    ("GROUP_WITHOUT_AGG", lambda: bids.group_by("auction").to_sql()),
    ("GROUP_WITHOUT_AGG", lambda: bids.group_by("auction").create("v")),
    ("GROUP_WITHOUT_AGG", lambda: bids.group_by("a").group_by("b")),
    ("DUPLICATE_COLUMN", lambda: bids.group_by("price").agg(price=ms.count())),
    ("NO_NAME", lambda: bids.agg(ms.sum("price") + 1)),
]


@pytest.mark.parametrize(("code", "misuse"), MISUSE)
def test_misuse_is_refused_at_the_call(code: str, misuse: Any) -> None:
    refused(code, misuse)
