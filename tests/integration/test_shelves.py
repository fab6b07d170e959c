"""Views that the store keeps together, from the outside: they come, go, change and feed others one by one."""

from __future__ import annotations

from collections.abc import Callable

import millstream as ms

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
    return [row["plan"].strip() for row in db.sql(f"EXPLAIN {name}").rows() if "merged together" in row["plan"]]


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
