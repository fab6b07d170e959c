"""Views that the store keeps together, from the outside: they come, go, change and feed others one by one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import millstream as ms
from tests.answers import rows_of

Connect = Callable[..., ms.Database]

VIEW = (
    "CREATE {or_replace} MATERIALIZED VIEW v{number} AS "
    "SELECT k, count(*) AS n, sum(x) AS s FROM e WHERE {where} GROUP BY k"
)


def create(db: ms.Database, number: int, where: str = "", or_replace: str = "") -> None:
    db.sql(VIEW.format(number=number, where=where or f"x % {number + 1} = 0", or_replace=or_replace))


def expected(rows: list[dict[str, int]], divisor: int) -> list[tuple[int, int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for row in rows:
        if row["x"] % divisor == 0:
            n, s = found.get(row["k"], (0, 0))
            found[row["k"]] = n + 1, s + row["x"]
    return sorted((k, n, s) for k, (n, s) in found.items())


def shown(db: ms.Database, name: str) -> list[tuple[int, ...]]:
    return sorted(tuple(row.values()) for row in db.query(f"SELECT k, n, s FROM {name}").rows())


def together(db: ms.Database, name: str) -> list[str]:
    return [row["plan"].strip() for row in rows_of(db, f"EXPLAIN {name}") if "merged together" in row["plan"]]


def test_views_come_and_go_on_a_shelf(connect: Connect) -> None:
    db = connect()
    db.sql("CREATE STREAM e (k BIGINT, x BIGINT)")
    rows: list[dict[str, int]] = []

    def epoch() -> None:
        more = [{"k": x % 3, "x": x} for x in range(len(rows), len(rows) + 40)]
        rows.extend(more)
        db.insert("e", more)
        db.drain()

    for number in range(3):
        create(db, number)
    epoch()
    assert together(db, "v0") == ["merged together with v1, v2"]
    assert [shown(db, f"v{number}") for number in range(3)] == [expected(rows, divisor) for divisor in (1, 2, 3)]

    db.sql("DROP VIEW v1")
    # This one reads what there is before it joins the others.
    create(db, 3)
    epoch()
    assert together(db, "v3") == ["merged together with v0, v2"]
    assert shown(db, "v3") == expected(rows, 4)

    # The same text with other rows: built anew, and back in its place.
    create(db, 2, where="x % 5 = 0", or_replace="OR REPLACE")
    epoch()
    epoch()
    assert shown(db, "v2") == expected(rows, 5)
    assert together(db, "v0") == ["merged together with v3, v2"]

    # One that others are computed from has a place of its own.
    db.sql("CREATE MATERIALIZED VIEW total AS SELECT sum(n) AS n FROM v3")
    epoch()
    assert together(db, "v3") == []
    assert db.query("SELECT n FROM total").rows() == [{"n": sum(n for _, n, _ in expected(rows, 4))}]

    db.close()
    db = connect()
    epoch()
    assert [shown(db, f"v{number}") for number in (0, 2, 3)] == [expected(rows, divisor) for divisor in (1, 5, 4)]
    assert db.query("SELECT n FROM total").rows() == [{"n": sum(n for _, n, _ in expected(rows, 4))}]
    replayed = {change["k"]: change["n"] for change in db.changes("v2").rows() if change["op"] == "upsert"}
    assert sorted(replayed.items()) == [(k, n) for k, n, _ in expected(rows, 5)]


WINDOWS = {
    "closed": "SELECT window_start, window_end, k, count(*) AS n, sum(x) AS s FROM TUMBLE(e, ts, INTERVAL 10 SECONDS) "
    "WHERE x % {d} = 0 GROUP BY window_start, window_end, k EMIT ON WATERMARK",
    "panes": "SELECT window_start, window_end, k, count(*) AS n, sum(x) AS s "
    "FROM HOP(e, ts, INTERVAL 5 SECONDS, INTERVAL 10 SECONDS) WHERE x % {d} = 0 GROUP BY window_start, window_end, k "
    "EMIT EARLY EVERY 3 ROWS ON WATERMARK LATE EVERY 1 ROW RETRACTING ALLOWED LATENESS INTERVAL 20 SECONDS",
    "pieces": "SELECT k, count(*) AS n, sum(x) AS s FROM e WHERE x % {d} = 0 GROUP BY k EMIT EVERY 5 ROWS DISCARDING",
    "timed": "SELECT k, count(*) AS n, sum(x) AS s FROM e WHERE x % {d} = 0 GROUP BY k EMIT EVERY 5 SECONDS",
    "sessions": "SELECT window_start, window_end, k, count(*) AS n, sum(x) AS s "
    "FROM SESSION(e PARTITION BY k, ts, INTERVAL 3 SECONDS) WHERE x % {d} = 0 GROUP BY window_start, window_end, k",
    "slides": "SELECT window_start, window_end, k, count(*) AS n, sum(x) AS s "
    "FROM SLIDE(e PARTITION BY k, ts, INTERVAL 4 SECONDS) WHERE x % {d} = 0 "
    "GROUP BY window_start, window_end, k EMIT ON WATERMARK",
    "fours": "SELECT window_start, window_end, k, count(*) AS n, sum(x) AS s "
    "FROM COUNT_WINDOW(e PARTITION BY k, 4) WHERE x % {d} = 0 GROUP BY window_start, window_end, k",
}
"""Every kind of aggregating view but live ones."""


def test_views_of_every_kind_are_kept_together(connect: Connect) -> None:
    """Three of a kind with different filters, beside each alone in a database of its own: what readers and subscribers
    see is the same, whatever fires, and after a restart."""
    seen = []
    for alone in (False, True):
        found: dict[str, tuple[list[str], list[dict[str, Any]]]] = {}
        for divisors in ([1], [2], [3]) if alone else ([1, 2, 3],):
            clock, name = ms.ManualClock(0), f"db{len(divisors)}{divisors[0]}"
            db = open_with_views(connect, name, clock, divisors)
            for step in range(6):
                base = 6_000_000 * step
                rows = [
                    {"k": x % 3, "x": x, "ts": base + (x * 977_777) % 9_000_000 - (9_000_000 if x % 7 == step else 0)}
                    for x in range(step * 31, step * 31 + 31)
                ]
                db.insert("e", [{**row, "ts": instant(row["ts"])} for row in rows])
                db.drain()
                clock.advance(4)
                db.drain()
                if step == 3:
                    db.close()
                    db = connect(name, clock=clock)
            for view in [f"{kind}{divisor}" for kind in WINDOWS for divisor in divisors]:
                changes = db.changes(view).rows()
                order = {"retract": 0, "delete": 0, "insert": 1, "upsert": 1}
                changes.sort(key=lambda row: (row["epoch"], order[row["op"]], repr(row)))
                found[view] = (sorted(map(repr, db.query(f"SELECT * FROM {view}").rows())), changes)
                kind = view[:-1]
                expected = [f"merged together with {', '.join(f'{kind}{d}' for d in divisors if f'{kind}{d}' != view)}"]
                assert together(db, view) == ([] if alone else expected)
            db.close()
        seen.append(dict(sorted(found.items())))
    assert all(rows for rows, _ in seen[0].values()), "every view has something to show"
    assert seen[0] == seen[1]


def open_with_views(connect: Connect, name: str, clock: ms.ManualClock, divisors: list[int]) -> ms.Database:
    db = connect(name, clock=clock)
    db.sql("CREATE STREAM e (k BIGINT, x BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND)")
    for kind, text in WINDOWS.items():
        for divisor in divisors:
            db.sql(f"CREATE MATERIALIZED VIEW {kind}{divisor} AS {text.format(d=divisor)}")
    return db


def instant(micros: int) -> datetime:
    return datetime(2025, 1, 1) + timedelta(microseconds=micros)
