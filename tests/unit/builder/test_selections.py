"""Filters, columns, order and rank: each says what a text says, and misuse is refused at the call."""

from __future__ import annotations

from typing import Any

import pytest

import millstream as ms
from tests.answers import untyped
from tests.unit.builder.bids import auction, bids, counted, price, tumbled, users
from tests.unit.builder.equality import refused, same

SAME: list[tuple[ms.Relation, str]] = [
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
]


@pytest.mark.parametrize(("relation", "text"), SAME, ids=[text[:60] for _, text in SAME])
def test_the_builder_and_the_text_give_the_same_statement(relation: ms.Relation, text: str) -> None:
    same(relation, text)


MISUSE: list[tuple[str, Any]] = [
    ("NOT_A_CONDITION", lambda: bids.filter(untyped("price > 100"))),
    ("NOT_A_CONDITION", lambda: bids.filter(untyped(True))),
    ("AGGREGATE_IN_WHERE", lambda: bids.filter(ms.count() > 1)),
    ("AGGREGATE_OUTSIDE_AGG", lambda: bids.select(n=ms.count())),
    ("UNKNOWN_COLUMN", lambda: bids.select("auction").filter(price > 1)),
    ("UNKNOWN_COLUMN", lambda: counted.select("m")),
    ("UNKNOWN_COLUMN", lambda: counted.limit(3).filter(price > 1)),
    ("UNKNOWN_COLUMN", lambda: counted.order_by("price")),
    ("DUPLICATE_COLUMN", lambda: bids.select("price", price=auction)),
    ("DUPLICATE_COLUMN", lambda: bids.select("rank").top(1, order_by="rank")),
    ("NO_NAME", lambda: bids.select(price + 1)),
    ("NO_NAME", lambda: bids.select(ms.lit("x"))),
    ("NO_NAME", lambda: bids.join(users, on="id")["name"]),
    ("NO_COLUMNS", lambda: bids.select()),
    ("NO_ORDER", lambda: bids.top(1, order_by=[])),
    ("BAD_LIMIT", lambda: bids.limit(-1)),
    ("BAD_LIMIT", lambda: bids.limit(untyped("3"))),
    ("BAD_LIMIT", lambda: bids.top(0, order_by="price")),
]


@pytest.mark.parametrize(("code", "misuse"), MISUSE)
def test_misuse_is_refused_at_the_call(code: str, misuse: Any) -> None:
    refused(code, misuse)
