"""Joins and unions: each says what a text says, and misuse is refused at the call."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import millstream as ms
from tests.answers import untyped
from tests.unit.builder.bids import bids, counted, price, sales, tumbled, users
from tests.unit.builder.equality import refused, same

SAME: list[tuple[ms.Relation, str]] = [
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
]


@pytest.mark.parametrize(("relation", "text"), SAME, ids=[text[:60] for _, text in SAME])
def test_the_builder_and_the_text_give_the_same_statement(relation: ms.Relation, text: str) -> None:
    same(relation, text)


MISUSE: list[tuple[str, Any]] = [
    ("NO_EVENT_TIME", lambda: bids.join(users, on="id", within="1 hour")),
    ("NO_EVENT_TIME", lambda: bids.select("auction").join(sales, on="auction", within="1 hour")),
    ("NO_EVENT_TIME", lambda: counted.join(sales, on="auction", within="1 hour")),
    ("BAD_JOIN", lambda: bids.union_all(sales).join(users, on="id", as_of="ts")),
    ("BAD_JOIN", lambda: bids.join(users, on="id", how=untyped("outer"))),
    ("BAD_JOIN", lambda: bids.join(bids, on="auction")),
    ("BAD_JOIN", lambda: bids.join(sales, on="auction").join(sales, on="auction")),
    ("BAD_JOIN", lambda: bids.join(users, on=[])),
    ("BAD_JOIN", lambda: bids.join(users.filter(price > 1), on="id", how="left", as_of="ts")),
    ("BAD_JOIN", lambda: bids.union_all(sales).join(users, on="id")),
    ("BAD_JOIN", lambda: bids.join(bids.union_all(sales), on="id")),
    ("BAD_JOIN", lambda: bids.join(sales, on="auction", within=("1 second", "-2 seconds"))),
    ("NOT_A_RELATION", lambda: bids.join(untyped("users"), on="id")),
    ("EMIT_INSIDE", lambda: bids.join(counted.alias("c").emit(ms.on_epoch()), on="auction")),
]


@pytest.mark.parametrize(("code", "misuse"), MISUSE)
def test_misuse_is_refused_at_the_call(code: str, misuse: Any) -> None:
    refused(code, misuse)
