"""The views that the random streams are tried on, each with its batch query."""

from __future__ import annotations

from .model import Case, Windows

TUMBLE_10 = "TUMBLE(s, ts, INTERVAL 10 SECONDS)"
WINDOW = ("window_start", "window_end")

CASES = (
    Case(
        "tumbling",
        f"SELECT window_start, window_end, k, count(*) AS n, count(v) AS nv, sum(v) AS sv, min(v) AS low, "
        f"max(v) AS high, avg(v) AS mean, sum(x) AS sx, max(v) - min(x) AS spread FROM {TUMBLE_10} "
        "GROUP BY window_start, window_end, k",
        "SELECT window_start, window_end, k, count(*) AS n, count(v) AS nv, sum(v) AS sv, min(v) AS low, "
        "max(v) AS high, avg(v) AS mean, sum(x) AS sx, max(v) - min(x) AS spread FROM used GROUP BY ALL",
        (*WINDOW, "k"),
        Windows(10, 10),
    ),
    Case(
        "hopping",
        "SELECT window_start, window_end, k, count(*) AS n, sum(v) AS sv, avg(x) AS mean, min(k) AS low, "
        "var_pop(x) AS spread FROM HOP(s, ts, INTERVAL 3 SECONDS, INTERVAL 10 SECONDS) "
        "GROUP BY window_start, window_end, k",
        "SELECT window_start, window_end, k, count(*) AS n, sum(v) AS sv, avg(x) AS mean, min(k) AS low, "
        "var_pop(x) AS spread FROM used GROUP BY ALL",
        (*WINDOW, "k"),
        Windows(10, 3),
    ),
    Case(
        "sparse",
        "SELECT window_start, count(*) AS n, collect_set(v) AS vs "
        "FROM HOP(s, ts, INTERVAL 10 SECONDS, INTERVAL 4 SECONDS) GROUP BY window_start",
        "SELECT window_start, count(*) AS n, "
        "coalesce(list_sort(list(DISTINCT v) FILTER (WHERE v IS NOT NULL)), []) AS vs FROM used GROUP BY ALL",
        ("window_start",),
        Windows(4, 10),
    ),
    Case(
        "per_key",
        "SELECT k, count(*) AS n, count(DISTINCT v) AS vs, sum(DISTINCT v) AS sv, bool_and(b) AS every_b, "
        "bool_or(b) AS some_b, stddev(x) AS dev, approx_count_distinct(v) AS about FROM s GROUP BY k",
        "SELECT k, count(*) AS n, count(DISTINCT v) AS vs, sum(DISTINCT v) AS sv, bool_and(b) AS every_b, "
        "bool_or(b) AS some_b, stddev(x) AS dev, count(DISTINCT v) AS about FROM used GROUP BY ALL",
        ("k",),
    ),
    Case(
        "total",
        "SELECT count(*) AS n, sum(v) AS sv, max(ts) AS newest, variance(x) AS spread, max(k) AS high "
        "FROM s WHERE v > 0 OR b",
        "SELECT count(*) AS n, sum(v) AS sv, max(ts) AS newest, var_samp(x) AS spread, max(k) AS high FROM used",
        (),
        where="v > 0 OR b",
    ),
    Case(
        "some_groups",
        "SELECT window_start, v % 3 AS r, count(*) AS n, count(*) FILTER (WHERE b) AS bs, "
        "sum(v) FILTER (WHERE x > 0) AS sv FROM TUMBLE(s, ts, INTERVAL 7 SECONDS) "
        "WHERE x IS NOT NULL AND v <> 2 GROUP BY window_start, v % 3 HAVING count(*) > 1 AND n < 5",
        "SELECT window_start, v % 3 AS r, count(*) AS n, count(*) FILTER (WHERE b) AS bs, "
        "sum(v) FILTER (WHERE x > 0) AS sv FROM used GROUP BY ALL HAVING count(*) > 1 AND count(*) < 5",
        ("window_start", "r"),
        Windows(7, 7),
        where="x IS NOT NULL AND v <> 2",
    ),
    Case(
        "in_order",
        f"SELECT window_start, b, first(v) AS opening, last(v) AS closing, max_by(k, id) AS top, "
        f"min_by(k, id) AS bottom, collect_list(id) AS ids, any_value(x) AS some FROM {TUMBLE_10} "
        "GROUP BY window_start, b",
        "SELECT window_start, b, list(v ORDER BY ts, p, o)[1] AS opening, "
        "list(v ORDER BY ts DESC, p DESC, o DESC)[1] AS closing, list(k ORDER BY id DESC)[1] AS top, "
        "list(k ORDER BY id)[1] AS bottom, list(id ORDER BY ts, p, o) AS ids, "
        "(list(x ORDER BY ts, p, o) FILTER (WHERE x IS NOT NULL))[1] AS some FROM used GROUP BY ALL",
        ("window_start", "b"),
        Windows(10, 10),
    ),
    Case(
        "passing",
        "SELECT id, upper(k) AS name, v % 100 AS rest, ts FROM s WHERE v IS NOT NULL AND coalesce(b, true)",
        "SELECT id, upper(k) AS name, v % 100 AS rest, ts FROM used",
        (),
        where="v IS NOT NULL AND coalesce(b, true)",
    ),
    Case(
        "passing_by_window",
        f"SELECT id, window_start, window_end, x FROM {TUMBLE_10} WHERE id >= 3",
        "SELECT id, window_start, window_end, x FROM used",
        (),
        Windows(10, 10),
        where="id >= 3",
    ),
    Case(
        "distinct_pairs",
        "SELECT DISTINCT k, b FROM s",
        "SELECT DISTINCT k, b FROM used",
        ("k", "b"),
    ),
    Case(
        "complete",
        f"SELECT window_start, k, count(*) AS n, sum(v) AS sv FROM {TUMBLE_10} GROUP BY window_start, k "
        "EMIT ON WATERMARK",
        "SELECT window_start, k, count(*) AS n, sum(v) AS sv FROM used GROUP BY ALL",
        ("window_start", "k"),
        Windows(10, 10),
        live=False,
    ),
    Case(
        "complete_hops",
        "SELECT window_start, b, count(*) AS n, sum(v) AS sv "
        "FROM HOP(s, ts, INTERVAL 5 SECONDS, INTERVAL 15 SECONDS) GROUP BY window_start, b "
        "EMIT ON WATERMARK RETRACTING ALLOWED LATENESS INTERVAL 5 SECONDS",
        "SELECT window_start, b, count(*) AS n, sum(v) AS sv FROM used GROUP BY ALL",
        ("window_start", "b"),
        Windows(15, 5),
        lateness=5,
        live=False,
    ),
    Case(
        "live_retracting",
        f"SELECT window_start, k, count(*) AS n, sum(v) AS sv FROM {TUMBLE_10} GROUP BY window_start, k "
        "HAVING sum(v) > 0 EMIT ON EPOCH RETRACTING ALLOWED LATENESS INTERVAL 8 SECONDS",
        "SELECT window_start, k, count(*) AS n, sum(v) AS sv FROM used GROUP BY ALL HAVING sum(v) > 0",
        ("window_start", "k"),
        Windows(10, 10),
        lateness=8,
    ),
    Case(
        "refined",
        f"SELECT window_start, k, count(*) AS n, sum(v) AS sv FROM {TUMBLE_10} WHERE v > -3 "
        "GROUP BY window_start, k "
        "EMIT EARLY EVERY 2 ROWS ON WATERMARK LATE EVERY 1 ROW RETRACTING ALLOWED LATENESS INTERVAL 6 SECONDS",
        "SELECT window_start, k, count(*) AS n, sum(v) AS sv FROM used GROUP BY ALL",
        ("window_start", "k"),
        Windows(10, 10),
        where="v > -3",
        lateness=6,
        live=False,
        early=True,
    ),
    Case(
        "refined_in_place",
        f"SELECT window_start, b, count(*) AS n, max(v) AS high FROM {TUMBLE_10} GROUP BY window_start, b "
        "EMIT EARLY ON EPOCH ON WATERMARK LATE ON EPOCH ALLOWED LATENESS INTERVAL 3 SECONDS",
        "SELECT window_start, b, count(*) AS n, max(v) AS high FROM used GROUP BY ALL",
        ("window_start", "b"),
        Windows(10, 10),
        lateness=3,
        live=True,
    ),
)

# Panes that hold what came since the last one: they must add up to the batch query.
DISCARDING = Case(
    "discarding",
    f"SELECT window_start, k, count(*) AS n, sum(v) AS sv FROM {TUMBLE_10} GROUP BY window_start, k "
    "EMIT EARLY EVERY 3 ROWS ON WATERMARK LATE ON EPOCH DISCARDING ALLOWED LATENESS INTERVAL 6 SECONDS",
    "SELECT window_start, k, count(*) AS n, sum(v) AS sv FROM used GROUP BY ALL",
    ("window_start", "k"),
    Windows(10, 10),
    lateness=6,
    live=False,
)
