"""Views made with the builder, in a database: the same rows and changes as those of the text."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import millstream as ms
from tests.conftest import Connect

STREAM = (
    "CREATE STREAM bids (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, ts TIMESTAMP, "
    "WATERMARK FOR ts AS ts - INTERVAL 4 SECONDS)"
)
EPOCHS: list[list[tuple[object, ...]]] = [
    [(1, 7, 100, "web", 1), (1, 8, 250, "app", 3), (2, 7, None, "web", 8), (2, 9, 40, "it's", 11)],
    [(1, 7, 120, "web", 9), (3, 9, 300, None, 19), (3, 7, 500, "web", 21)],
    [(1, 8, 90, "app", 2), (2, 8, 310, "app", 33)],
]
TUMBLE = "FROM TUMBLE(bids, ts, INTERVAL 10 SECONDS)"
Build = Callable[[ms.Database], ms.Relation]


def tumbled(db: ms.Database) -> ms.Relation:
    windows = db.stream("bids").window(ms.Tumble("10 seconds"))
    return windows.group_by("auction").agg(n=ms.count(), top=ms.max("price"))


GROUPS = "SELECT window_start, window_end, auction, count(*) AS n, max(price) AS top"
GROUPED = f"{GROUPS} {TUMBLE} GROUP BY window_start, window_end, auction"

SAME: list[tuple[Build, str]] = [
    (
        lambda db: db.stream("bids").filter(ms.col("price") > 99, ms.col("channel") != "it's").select("auction", "ts"),
        "SELECT auction, ts FROM bids WHERE price > 99 AND channel <> 'it\\'s'",
    ),
    (
        lambda db: (
            db.stream("bids")
            .with_columns(high=ms.case().when(ms.col("price") > 200, "high").otherwise("low"))
            .select("bidder", "high", half=ms.col("price") * 0.5)
        ),
        "SELECT bidder, CASE WHEN price > 200 THEN 'high' ELSE 'low' END AS high, price * 0.5e0 AS half FROM bids",
    ),
    (
        lambda db: db.stream("bids").window(ms.Tumble("10 seconds", offset="3 seconds")).select("bidder", "window_end"),
        "SELECT bidder, window_end FROM TUMBLE(bids, ts, INTERVAL 10 SECONDS, INTERVAL 3 SECONDS)",
    ),
    (
        lambda db: db.stream("bids").select("channel").distinct(),
        "SELECT DISTINCT channel FROM bids",
    ),
    (
        lambda db: db.stream("bids").agg(
            n=ms.count(),
            mean=ms.avg("price"),
            bidders=ms.count_distinct("bidder"),
            first=ms.first("price", ignore_nulls=True).filter(ms.col("channel") == "web"),
            best=ms.max_by("bidder", "price"),
            all=ms.collect_list("price"),
            spread=ms.max("price") - ms.min("price"),
        ),
        "SELECT count(*) AS n, avg(price) AS mean, count(DISTINCT bidder) AS bidders, "
        "first(price) FILTER (WHERE channel = 'web' AND NOT price IS NULL) AS `first`, "
        "max_by(bidder, price) AS best, collect_list(price) AS `all`, max(price) - min(price) AS spread FROM bids",
    ),
    (
        lambda db: db.stream("bids").group_by(one=ms.lit(1), big=ms.col("price") > 100).agg(n=ms.count()),
        "SELECT cast(1 AS INT) AS one, price > 100 AS big, count(*) AS n FROM bids "
        "GROUP BY cast(1 AS INT), price > 100",
    ),
    (
        lambda db: (
            db.stream("bids")
            .filter(ms.col("price").is_not_null())
            .window(ms.Hop(slide="2 seconds", size="10 seconds"))
            .group_by("auction")
            .agg(price=ms.max("price"))
            .having(ms.col("price") > 100, ms.count() > 1)
        ),
        "SELECT window_start, window_end, auction, max(price) AS price "
        "FROM HOP(bids, ts, INTERVAL 2 SECONDS, INTERVAL 10 SECONDS) WHERE NOT price IS NULL "
        "GROUP BY window_start, window_end, auction HAVING max(price) > 100 AND count(*) > 1",
    ),
    (tumbled, GROUPED),
    (lambda db: tumbled(db).emit(ms.on_epoch(), accumulate="retracting"), f"{GROUPED} EMIT ON EPOCH RETRACTING"),
    (lambda db: tumbled(db).emit(ms.every(rows=2)), f"{GROUPED} EMIT EVERY 2 ROWS"),
    (
        lambda db: tumbled(db).emit(ms.every("5 seconds"), accumulate="discarding"),
        f"{GROUPED} EMIT EVERY 5 SECONDS DISCARDING",
    ),
    (lambda db: tumbled(db).emit(ms.on_watermark()), f"{GROUPED} EMIT ON WATERMARK"),
    (
        lambda db: tumbled(db).emit(
            ms.on_watermark(early=ms.every(rows=1), late=ms.on_epoch()), accumulate="retracting", lateness="1 hour"
        ),
        f"{GROUPED} EMIT EARLY EVERY 1 ROW ON WATERMARK LATE ON EPOCH RETRACTING ALLOWED LATENESS INTERVAL 1 HOUR",
    ),
    (
        lambda db: tumbled(db).emit(
            ms.on_watermark(early=ms.every("1 second"), late=ms.every(rows=1)),
            accumulate="discarding",
            lateness="1 day",
        ),
        f"{GROUPED} EMIT EARLY EVERY 1 SECOND ON WATERMARK LATE EVERY 1 ROW DISCARDING ALLOWED LATENESS INTERVAL 1 DAY",
    ),
]


def unordered(rows: Any) -> list[str]:
    return sorted(repr(list(row.items())) for row in rows)


def unshared(plan: list[str]) -> list[str]:
    """A plan without the names of those with which it shares: the two share with each other."""
    return [line for line in plan if "shares its aggregation" not in line and "merged together" not in line]


def test_the_builder_and_the_text_give_the_same_views(connect: Connect) -> None:
    clock = ms.ManualClock(0)
    db = connect(clock=clock)
    db.sql(STREAM)
    built = [build(db).create(f"built{i}") for i, (build, _) in enumerate(SAME)]
    for i, (_, text) in enumerate(SAME):
        db.sql(f"CREATE VIEW written{i} AS {text}")
    for epoch in EPOCHS:
        names = ("auction", "bidder", "price", "channel", "ts")
        db.insert("bids", [dict(zip(names, row, strict=True)) for row in epoch])
        db.drain()
        clock.advance(6)
        db.drain()
    for i, view in enumerate(built):
        text = db.sql(f"SHOW CREATE written{i}").rows()[0]["statement"].replace(f"written{i}", view.name)
        assert db.sql(f"SHOW CREATE {view.name}").rows()[0]["statement"] == text
        plan = [row["plan"].replace(f"written{i}", view.name) for row in db.sql(f"EXPLAIN written{i}").rows()]
        assert unshared(view.explain().splitlines()) == unshared(plan)
        assert unordered(view.query()) == unordered(db.query(f"SELECT * FROM written{i}")), SAME[i][1]
        assert unordered(view.changes()) == unordered(db.changes(f"written{i}")), SAME[i][1]
        assert len(view.changes()) > 0, SAME[i][1]


def test_a_view_is_read_followed_built_upon_and_dropped(connect: Connect) -> None:
    db = connect()
    db.sql(STREAM)
    db.sql("CREATE TABLE users (id BIGINT PRIMARY KEY, name STRING)")
    totals = db.stream("bids").group_by("bidder").agg(n=ms.count()).create("Totals", retain="7 days")
    assert totals.name == "Totals"
    db.insert("bids", [{"bidder": 7, "ts": 1}, {"bidder": 7, "ts": 2}, {"bidder": 8, "ts": 3}])
    db.insert("users", [{"id": 7, "name": "ada"}])
    db.drain()
    users = db.table("users")
    assert totals.order_by(ms.desc("n")).limit(1).query().rows() == [{"bidder": 7, "n": 2}]
    joined = totals.join(users, on=totals["bidder"] == users["id"]).select("name", totals["n"])
    assert joined.query().rows() == [{"name": "ada", "n": 2}]
    subscription = db.view("totals").subscribe()
    assert {next(subscription)["bidder"], next(subscription)["bidder"]} == {7, 8}
    assert totals.query().to_arrow().num_rows == 2
    totals.drop()
    assert db.sql("SHOW VIEWS").rows() == []
    totals.drop(if_exists=True)
    with pytest.raises(ms.MillstreamError) as caught:
        totals.query()
    assert caught.value.code == "UNKNOWN_RELATION"


def test_errors_of_the_planner_show_the_text_that_was_built(connect: Connect) -> None:
    db = connect()
    db.sql(STREAM)
    with pytest.raises(ms.MillstreamError) as caught:
        db.stream("bids").group_by("auction").agg(n=ms.count().filter(ms.col("pirce") > 1)).create("v")
    error = caught.value
    assert (error.code, error.hint) == ("UNKNOWN_COLUMN", "did you mean 'price'?")
    assert error.position is not None
    assert error.position.text[error.position.start : error.position.end] == "pirce"
    assert error.position.source == "<builder>"


def test_the_event_time_is_that_of_the_catalog(connect: Connect) -> None:
    db = connect()
    db.sql(STREAM)
    db.sql("CREATE STREAM plain (x INT, at TIMESTAMP)")
    db.sql("CREATE STREAM sales (auction BIGINT, sold_at TIMESTAMP, WATERMARK FOR sold_at AS sold_at)")
    assert "TUMBLE(bids, ts," in db.stream("BIDS").window(ms.Tumble("1 hour")).to_sql().replace("BIDS", "bids")
    assert "TUMBLE(plain, at," in db.stream("plain").window(ms.Tumble("1 hour", on="at")).to_sql()
    bound = db.stream("bids").join(db.stream("sales"), on="auction", within="1 minute")
    assert "sales.sold_at BETWEEN bids.ts - INTERVAL '1' MINUTE" in bound.to_sql()
    for stream, code in (("plain", "NO_EVENT_TIME"), ("bidz", "UNKNOWN_RELATION")):
        with pytest.raises(ms.MillstreamError) as caught:
            db.stream(stream).window(ms.Tumble("1 hour"))
        assert caught.value.code == code


def test_replacing_and_keeping(connect: Connect) -> None:
    db = connect()
    db.sql(STREAM)
    bids = db.stream("bids")
    bids.agg(n=ms.count()).create("v")
    with pytest.raises(ms.MillstreamError) as caught:
        bids.agg(m=ms.count()).create("v")
    assert caught.value.code == "ALREADY_EXISTS"
    bids.agg(m=ms.count()).create("v", if_not_exists=True)
    assert db.view("v").query().columns == ["n"]
    bids.agg(m=ms.count()).create("v", or_replace=True)
    assert db.view("v").query().columns == ["m"]
    with pytest.raises(ms.MillstreamError) as caught:
        bids.agg(n=ms.count()).create("w", retian="7 days")
    assert caught.value.code == "UNKNOWN_OPTION"


@pytest.mark.spark
def test_the_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "auctions" / "pipeline.py"))
    example["main"](str(tmp_path / "data"))
    text, changes, spenders = capsys.readouterr().out.strip().split("\n\n")
    assert text.startswith("CREATE MATERIALIZED VIEW hot_auctions WITH (\n  retain = '7 days'\n) AS\nSELECT")
    # The bids at 12 and 16 bring the watermark to 12 and close the first window; the one at 8 then corrects it.
    first, late = changes.splitlines()[:2], changes.splitlines()[2:]
    assert sorted(first) == ["2 on_time insert lamp 35 bob", "2 on_time insert vase 120 ada"]
    assert late == ["3 late retract lamp 35 bob", "3 late insert lamp 80 eve"]
    assert spenders.splitlines() == ["ada 190 1", "eve 170 0"]
