"""The Nexmark queries in the SQL of Polars: our text of each, as one batch query over all files.

Owns the columns of the three tables and the queries. Imports nothing but `fragments`, because it is read by the
Python of Polars' own environment. Every table has one column more than its files, `us`: event time in
microseconds, of which windows are arithmetic. All rows of a batch are processed in one instant, so q12
has one window, and is by bidder alone.
"""

from __future__ import annotations

from bench.nexmark.fragments import DISTINCT, RANKS

COLUMNS = {
    "person": {
        "id": "Int64",
        "name": "String",
        "email_address": "String",
        "credit_card": "String",
        "city": "String",
        "state": "String",
        "date_time": "Datetime",
        "extra": "String",
    },
    "auction": {
        "id": "Int64",
        "item_name": "String",
        "description": "String",
        "initial_bid": "Int64",
        "reserve": "Int64",
        "date_time": "Datetime",
        "expires": "Datetime",
        "seller": "Int64",
        "category": "Int64",
        "extra": "String",
    },
    "bid": {
        "auction": "Int64",
        "bidder": "Int64",
        "price": "Int64",
        "channel": "String",
        "url": "String",
        "date_time": "Datetime",
        "extra": "String",
    },
}
"""Of each kind, in the order of its files, with the types of Polars by name."""

_DAY = "strftime(date_time, '%Y-%m-%d')"
_WITHIN = "auction AS a JOIN bid AS b ON a.id = b.auction WHERE b.date_time BETWEEN a.date_time AND a.expires"
# Two-second panes first, each then counted in the five windows it belongs to.
_SPREAD = " UNION ALL ".join(
    f"SELECT auction, pane - {back} AS starts, n FROM panes" for back in range(0, 10_000_000, 2_000_000)
)

QUERIES: dict[str, str] = {
    "q0": "SELECT auction, bidder, price, date_time, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, date_time, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction IN (1007, 1020, 2001, 2019, 2087)",
    "q3": """
SELECT p.name, p.city, p.state, a.id
FROM auction AS a JOIN person AS p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('or', 'id', 'ca')""",
    "q4": f"""
SELECT category, avg(final) AS avg_final
FROM (SELECT a.id, a.category, max(b.price) AS final FROM {_WITHIN} GROUP BY a.id, a.category) AS won
GROUP BY category""",
    "q5": f"""
WITH panes AS (SELECT auction, us - us % 2000000 AS pane, count(*) AS n FROM bid GROUP BY auction, us - us % 2000000),
spread AS ({_SPREAD}),
counts AS (SELECT starts, auction, sum(n) AS num FROM spread GROUP BY starts, auction),
hottest AS (SELECT starts, max(num) AS most FROM counts GROUP BY starts)
SELECT CAST(counts.starts AS TIMESTAMP) AS window_start, CAST(counts.starts + 10000000 AS TIMESTAMP) AS window_end,
  counts.auction, counts.num
FROM counts JOIN hottest ON counts.starts = hottest.starts AND counts.num = hottest.most""",
    "q6": f"""
WITH won AS (
  SELECT a.id, a.seller, a.expires, max(b.price) AS price FROM {_WITHIN} GROUP BY a.id, a.seller, a.expires
), ranked AS (
  SELECT seller, price, row_number() OVER (PARTITION BY seller ORDER BY expires DESC, id DESC) AS recency FROM won
)
SELECT seller, avg(price) AS avg_price FROM ranked WHERE recency <= 10 GROUP BY seller""",
    "q7": """
WITH tops AS (SELECT us - us % 10000000 AS starts, max(price) AS top FROM bid GROUP BY us - us % 10000000)
SELECT b.auction, b.bidder, b.price, b.date_time, b.extra
FROM bid AS b JOIN tops ON b.price = tops.top
WHERE b.us BETWEEN tops.starts AND tops.starts + 10000000""",
    "q8": """
WITH people AS (SELECT DISTINCT id, name, us - us % 10000000 AS starts FROM person),
sellers AS (SELECT DISTINCT seller, us - us % 10000000 AS starts FROM auction)
SELECT p.id, p.name, CAST(p.starts AS TIMESTAMP) AS starttime
FROM people AS p JOIN sellers AS s ON p.id = s.seller AND p.starts = s.starts""",
    "q9": f"""
WITH ranked AS (
  SELECT a.id, a.item_name, a.description, a.initial_bid, a.reserve, a.date_time, a.expires, a.seller, a.category,
    a.extra, b.auction, b.bidder, b.price, b.date_time AS bid_date_time, b.extra AS bid_extra,
    row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.extra) AS place
  FROM {_WITHIN}
)
SELECT id, item_name, description, initial_bid, reserve, date_time, expires, seller, category, extra,
  auction, bidder, price, bid_date_time, bid_extra
FROM ranked WHERE place = 1""",
    "q11": """
WITH gaps AS (
  SELECT bidder, us, us - lag(us) OVER (PARTITION BY bidder ORDER BY us) AS gap FROM bid
), numbered AS (
  SELECT bidder, us, sum(CASE WHEN gap >= 10000000 THEN 1 ELSE 0 END) OVER (PARTITION BY bidder ORDER BY us) AS session
  FROM gaps
)
SELECT bidder, count(*) AS bid_count, CAST(min(us) AS TIMESTAMP) AS starttime,
  CAST(max(us) + 10000000 AS TIMESTAMP) AS endtime
FROM numbered GROUP BY bidder, session""",
    "q12": "SELECT bidder, count(*) AS bid_count FROM bid GROUP BY bidder",
    "q14": """
SELECT auction, bidder, 0.908 * price AS price,
  CASE
    WHEN extract(HOUR FROM date_time) BETWEEN 8 AND 18 THEN 'dayTime'
    WHEN extract(HOUR FROM date_time) <= 6 OR extract(HOUR FROM date_time) >= 20 THEN 'nightTime'
    ELSE 'otherTime'
  END AS bidtimetype,
  date_time, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"SELECT {_DAY} AS day, {RANKS}, {DISTINCT} FROM bid GROUP BY {_DAY}",
    "q16": f"""
SELECT channel, {_DAY} AS day, strftime(max(date_time), '%H:%M') AS minute, {RANKS}, {DISTINCT}
FROM bid GROUP BY channel, {_DAY}""",
    "q17": f"""
SELECT auction, {_DAY} AS day, {RANKS},
  min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
FROM bid GROUP BY auction, {_DAY}""",
    "q18": """
WITH ranked AS (
  SELECT auction, bidder, price, channel, url, date_time, extra,
    row_number() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC, price DESC, extra) AS place
  FROM bid
)
SELECT auction, bidder, price, channel, url, date_time, extra FROM ranked WHERE place = 1""",
    "q19": """
WITH ranked AS (
  SELECT auction, bidder, price, channel, url, date_time, extra,
    row_number() OVER (PARTITION BY auction ORDER BY price DESC, date_time, bidder, extra) AS rank_number
  FROM bid
)
SELECT * FROM ranked WHERE rank_number <= 10""",
    "q20": """
SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time AS bid_date_time, b.extra AS bid_extra,
  a.item_name, a.description, a.initial_bid, a.reserve, a.date_time AS auction_date_time, a.expires, a.seller,
  a.category, a.extra AS auction_extra
FROM bid AS b JOIN auction AS a ON b.auction = a.id
WHERE a.category = 10""",
    "q21": """
SELECT auction, bidder, price, channel,
  CASE lower(channel)
    WHEN 'apple' THEN '0'
    WHEN 'google' THEN '1'
    WHEN 'facebook' THEN '2'
    WHEN 'baidu' THEN '3'
    ELSE split_part(url, '&channel_id=', 2)
  END AS channel_id
FROM bid
WHERE lower(channel) IN ('apple', 'google', 'facebook', 'baidu') OR url LIKE '%&channel_id=%'""",
    "q22": """
SELECT auction, bidder, price, channel,
  split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3
FROM bid""",
}
