"""Auctions, built in Python: windows, triggers and aggregations as objects.

    python examples/auctions/pipeline.py [directory]

Prints the StreamSQL that the objects stand for, then what the views publish.
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta

import millstream as ms

START = datetime(2025, 6, 1, 12, 0, 0)
# Seconds after START, auction, bidder, price. The last bid comes when its window was published already.
BIDS = [
    [(1, "lamp", "ada", 20), (4, "lamp", "bob", 35), (6, "vase", "ada", 120)],
    [(12, "lamp", "ada", 50), (16, "vase", "eve", 90)],
    [(8, "lamp", "eve", 80)],
]


def hot_auctions(bids: ms.Relation) -> ms.Relation:
    """The best bid of each auction, every ten seconds; a bid that comes late corrects its window."""
    return (
        bids.filter(ms.col("price") >= 30)
        .window(ms.Tumble("10 seconds"))
        .group_by("auction")
        .agg(bids=ms.count(), best=ms.max("price"), leader=ms.max_by("bidder", "price"))
        .emit(ms.on_watermark(late=ms.every(rows=1)), accumulate="retracting", lateness="1 hour")
    )


def spenders(bids: ms.Relation) -> ms.Relation:
    """Who has offered more than a hundred in all."""
    size = ms.case().when(ms.col("price") >= 100, "large").otherwise("small")
    return (
        bids.with_columns(size=size)
        .group_by("bidder")
        .agg(offered=ms.sum("price"), large=ms.count().filter(ms.col("size") == "large"))
        .having(ms.col("offered") > 100)
    )


def main(directory: str) -> None:
    with ms.connect(directory) as db:
        db.sql("""
            CREATE STREAM bids (
              auction STRING, bidder STRING, price BIGINT, ts TIMESTAMP,
              WATERMARK FOR ts AS ts - INTERVAL 4 SECONDS
            )
        """)
        bids = db.stream("bids")
        hot = hot_auctions(bids).create("hot_auctions", retain="7 days")
        rich = spenders(bids).create("spenders")
        print(hot_auctions(bids).to_sql("hot_auctions", retain="7 days"), "\n")
        for epoch in BIDS:
            rows = [(START + timedelta(seconds=at), *rest) for at, *rest in epoch]
            db.insert("bids", [dict(zip(("ts", "auction", "bidder", "price"), row, strict=True)) for row in rows])
            db.drain()
        for change in hot.changes():
            print(change["epoch"], change["pane"], change["op"], change["auction"], change["best"], change["leader"])
        print()
        for row in rich.order_by(ms.desc("offered")).query():
            print(row["bidder"], row["offered"], row["large"])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "./auctions-data")
