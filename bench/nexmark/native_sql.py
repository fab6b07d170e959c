"""The Nexmark queries for Structured Streaming, where it can express them, and why not where it cannot.

Owns the Spark SQL over streaming views `person`, `auction` and `bid` that have watermarks. Rows of
windows come in append mode, when the watermark has passed the window; groups without one in update mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench.nexmark.fragments import RANKS

# Structured Streaming has no DISTINCT aggregates; the size of a set is the same number.
_DISTINCT = ",".join(
    f"""
  size(collect_set({column})) AS total_{column}s,
  size(collect_set({column}) FILTER (WHERE price < 10000)) AS rank1_{column}s,
  size(collect_set({column}) FILTER (WHERE price >= 10000 AND price < 1000000)) AS rank2_{column}s,
  size(collect_set({column}) FILTER (WHERE price >= 1000000)) AS rank3_{column}s"""
    for column in ("bidder", "auction")
)
_DAY = "date_format(date_time, 'yyyy-MM-dd')"


@dataclass(frozen=True, slots=True)
class NativeQuery:
    """A streaming query and how to tell whether its result is right."""

    text: str
    mode: Literal["append", "update"] = "append"
    keys: tuple[str, ...] = ()
    """What identifies a row of the result, of which update mode writes several versions."""
    complete: str = "true"
    """Which rows of the truth are there once the watermark is at {watermark}: the others' windows are still open."""


QUERIES: dict[str, NativeQuery] = {
    "q0": NativeQuery("SELECT auction, bidder, price, date_time, extra FROM bid"),
    "q1": NativeQuery("SELECT auction, bidder, 0.908 * price AS price, date_time, extra FROM bid"),
    "q2": NativeQuery("SELECT auction, price FROM bid WHERE auction IN (1007, 1020, 2001, 2019, 2087)"),
    "q3": NativeQuery("""
SELECT p.name, p.city, p.state, a.id
FROM auction AS a JOIN person AS p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('or', 'id', 'ca')"""),
    "q5": NativeQuery(
        """
SELECT window.start AS window_start, window.end AS window_end, top.auction, top.num
FROM (
  SELECT window, explode(filter(counts, c -> c.num = most)) AS top
  FROM (
    SELECT window, collect_list(struct(auction, num)) AS counts, max(num) AS most
    FROM (
      SELECT window(date_time, '10 seconds', '2 seconds') AS window, auction, count(*) AS num
      FROM bid GROUP BY window(date_time, '10 seconds', '2 seconds'), auction
    )
    GROUP BY window
  )
)""",
        complete="window_end <= {watermark}",
    ),
    "q7": NativeQuery(
        """
SELECT b.auction, b.bidder, b.price, b.date_time, b.extra
FROM bid AS b
JOIN (
  SELECT window(date_time, '10 seconds') AS window, max(price) AS top
  FROM bid GROUP BY window(date_time, '10 seconds')
) AS highest
ON b.price = highest.top AND b.date_time BETWEEN highest.window.start AND highest.window.end""",
        complete="time_bucket(INTERVAL 10 SECONDS, date_time) + INTERVAL 10 SECONDS <= {watermark}",
    ),
    "q8": NativeQuery(
        """
SELECT p.id, p.name, p.window.start AS starttime
FROM (
  SELECT window(date_time, '10 seconds') AS window, id, name
  FROM person GROUP BY window(date_time, '10 seconds'), id, name
) AS p
JOIN (
  SELECT window(date_time, '10 seconds') AS window, seller
  FROM auction GROUP BY window(date_time, '10 seconds'), seller
) AS a
ON p.id = a.seller AND p.window = a.window""",
        complete="starttime + INTERVAL 10 SECONDS <= {watermark}",
    ),
    "q11": NativeQuery(
        """
SELECT bidder, count(*) AS bid_count, session_window.start AS starttime, session_window.end AS endtime
FROM bid GROUP BY session_window(date_time, '10 seconds'), bidder""",
        complete="endtime <= {watermark}",
    ),
    "q12": NativeQuery(
        """
SELECT bidder, count(*) AS bid_count, window.start AS starttime, window.end AS endtime
FROM bid GROUP BY window(current_timestamp(), '10 seconds'), bidder""",
        "update",
        ("bidder", "starttime"),
    ),
    "q14": NativeQuery("""
SELECT auction, bidder, 0.908 * price AS price,
  CASE
    WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'dayTime'
    WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime'
    ELSE 'otherTime'
  END AS bidtimetype,
  date_time, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000"""),
    "q15": NativeQuery(f"SELECT {_DAY} AS day, {RANKS}, {_DISTINCT} FROM bid GROUP BY {_DAY}", "update", ("day",)),
    "q16": NativeQuery(
        f"""
SELECT channel, {_DAY} AS day, max(date_format(date_time, 'HH:mm')) AS minute, {RANKS}, {_DISTINCT}
FROM bid GROUP BY channel, {_DAY}""",
        "update",
        ("channel", "day"),
    ),
    "q17": NativeQuery(
        f"""
SELECT auction, {_DAY} AS day, {RANKS},
  min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
FROM bid GROUP BY auction, {_DAY}""",
        "update",
        ("auction", "day"),
    ),
    "q18": NativeQuery(
        """
SELECT auction, bidder, last.*
FROM (
  SELECT auction, bidder,
    max_by(struct(price, channel, url, date_time, extra), struct(date_time, price)) AS last
  FROM bid GROUP BY auction, bidder
)""",
        "update",
        ("bidder", "auction"),
    ),
    "q20": NativeQuery("""
SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time AS bid_date_time, b.extra AS bid_extra,
  a.item_name, a.description, a.initial_bid, a.reserve, a.date_time AS auction_date_time, a.expires, a.seller,
  a.category, a.extra AS auction_extra
FROM bid AS b JOIN auction AS a ON b.auction = a.id
WHERE a.category = 10"""),
    "q21": NativeQuery("""
SELECT auction, bidder, price, channel,
  CASE lower(channel)
    WHEN 'apple' THEN '0'
    WHEN 'google' THEN '1'
    WHEN 'facebook' THEN '2'
    WHEN 'baidu' THEN '3'
    ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)
  END AS channel_id
FROM bid
WHERE lower(channel) IN ('apple', 'google', 'facebook', 'baidu') OR regexp_like(url, '(&|^)channel_id=')"""),
    "q22": NativeQuery("""
SELECT auction, bidder, price, channel,
  split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3
FROM bid"""),
}

REFUSED = {
    "q4": "a join and two aggregations without a window: several stateful operators need append mode, and such "
    "groups never end",
    "q6": "no ranks over streams, and groups without a window after a join never end in append mode",
    "q9": "no ranks over streams, and groups without a window after a join never end in append mode",
    "q19": "no ranks over streams",
}
