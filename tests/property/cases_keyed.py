"""Views with session, sliding and count windows, each with its batch query over the windows of the model."""

from __future__ import annotations

from .keyed import Counts, Keyed, Sessions, Slides
from .model import Case

WINDOW = ("window_start", "window_end")
_PASSED = "epoch_us(window_end) < {watermark}"

KEYED_CASES = (
    Case(
        "sessions",
        "SELECT window_start, window_end, k, count(*) AS n, sum(v) AS sv, avg(x) AS mean, collect_list(id) AS ids, "
        "count(DISTINCT v) AS vs, var_pop(x) AS spread FROM SESSION(s PARTITION BY k, ts, INTERVAL 5 SECONDS) "
        "GROUP BY window_start, window_end, k",
        "SELECT window_start, window_end, k, count(*) AS n, sum(v) AS sv, avg(x) AS mean, "
        "list(id ORDER BY ts, p, o) AS ids, count(DISTINCT v) AS vs, var_pop(x) AS spread FROM used GROUP BY ALL",
        (*WINDOW, "k"),
        Keyed(lambda: Sessions(5)),
    ),
    Case(
        "sessions_corrected",
        "SELECT window_start, window_end, b, count(*) AS n, max(v) AS high, last(id) AS newest "
        "FROM SESSION(s PARTITION BY b, ts, INTERVAL 3 SECONDS) WHERE x IS NOT NULL "
        "GROUP BY window_start, window_end, b HAVING count(*) <> 2 "
        "EMIT ON EPOCH RETRACTING ALLOWED LATENESS INTERVAL 6 SECONDS",
        "SELECT window_start, window_end, b, count(*) AS n, max(v) AS high, list(id ORDER BY ts, p, o)[-1] AS newest "
        "FROM used GROUP BY ALL HAVING count(*) <> 2",
        (*WINDOW, "b"),
        Keyed(lambda: Sessions(3, "b")),
        where="x IS NOT NULL",
        lateness=6,
    ),
    Case(
        "sessions_complete",
        "SELECT window_start, window_end, count(*) AS n, sum(v) AS sv FROM SESSION(s, ts, INTERVAL 2 SECONDS) "
        "GROUP BY window_start, window_end EMIT ON WATERMARK",
        "SELECT window_start, window_end, count(*) AS n, sum(v) AS sv FROM used GROUP BY ALL",
        WINDOW,
        Keyed(lambda: Sessions(2, None)),
        live=False,
    ),
    Case(
        "slides",
        "SELECT window_end, k, count(*) AS n, sum(v) AS sv, min(x) AS low, stddev(x) AS dev, max_by(id, ts) AS newest, "
        "collect_set(b) AS bs FROM SLIDE(s PARTITION BY k, ts, INTERVAL 6 SECONDS) GROUP BY window_end, k",
        "SELECT window_end, k, count(*) AS n, sum(v) AS sv, min(x) AS low, stddev(x) AS dev, "
        "list(id ORDER BY ts DESC, id DESC)[1] AS newest, "
        "coalesce(list_sort(list(DISTINCT b) FILTER (WHERE b IS NOT NULL)), []) AS bs FROM used GROUP BY ALL",
        ("window_end", "k"),
        Keyed(lambda: Slides(6)),
    ),
    Case(
        "slides_complete",
        "SELECT window_start, window_end, k, count(*) AS n, sum(v) AS sv "
        "FROM SLIDE(s PARTITION BY k, ts, INTERVAL 4 SECONDS) GROUP BY window_start, window_end, k "
        "EMIT ON WATERMARK RETRACTING ALLOWED LATENESS INTERVAL 5 SECONDS",
        "SELECT window_start, window_end, k, count(*) AS n, sum(v) AS sv FROM used GROUP BY ALL",
        (*WINDOW, "k"),
        Keyed(lambda: Slides(4), _PASSED),
        lateness=5,
        live=False,
    ),
    Case(
        "counts",
        "SELECT window_start, window_end, k, sum(v) AS sv, sum(x) AS sx, max(id) AS newest "
        "FROM COUNT_WINDOW(s PARTITION BY k, 3) WHERE v > -3 GROUP BY window_start, window_end, k",
        "SELECT window_start, window_end, k, sum(v) AS sv, sum(x) AS sx, max(id) AS newest FROM used "
        "GROUP BY w, window_start, window_end, k",
        (),
        Keyed(lambda: Counts(3, 3)),
        where="v > -3",
    ),
)
