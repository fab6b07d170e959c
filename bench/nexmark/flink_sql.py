"""The Nexmark queries in Flink SQL: our text, after the definitions of the benchmark.

Owns the tables over the CSV files and one query for each of `examples/nexmark`, which answer the
same rows. Imports nothing but `fragments`, because it is read by the Python of Flink's own environment.

Event time has microseconds; Flink's has milliseconds, so it is a column of its own, and only windows
use it. Flink completes a window when the watermark passes it, and at the end of the input.
"""

from __future__ import annotations

from bench.nexmark.fragments import DISTINCT, RANKS, WITHIN

_SLACK = "WATERMARK FOR event_time AS event_time - INTERVAL '4' SECOND"
_EVENT_TIME = "event_time AS CAST(date_time AS TIMESTAMP(3))"

COLUMNS = {
    "person": "id BIGINT, name STRING, email_address STRING, credit_card STRING, city STRING, state STRING, "
    "date_time TIMESTAMP(6), extra STRING",
    "auction": "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, "
    "date_time TIMESTAMP(6), expires TIMESTAMP(6), seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP(6), "
    "extra STRING",
}


def tables(path: str) -> list[str]:
    """The statements that make the three tables over a directory of CSV files."""
    return [
        f"CREATE TEMPORARY TABLE {kind} ({columns}, arrived_at AS PROCTIME(), {_EVENT_TIME}, {_SLACK}) "
        f"WITH ('connector' = 'filesystem', 'path' = 'file://{path}/{kind}', 'format' = 'csv')"
        for kind, columns in COLUMNS.items()
    ]


_DAY = "DATE_FORMAT(date_time, 'yyyy-MM-dd')"
_COUNTS = """
  SELECT window_start, window_end, auction, count(*) AS num
  FROM TABLE(HOP(TABLE bid, DESCRIPTOR(event_time), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
  GROUP BY window_start, window_end, auction"""

QUERIES: dict[str, str] = {
    "q0": "SELECT auction, bidder, price, date_time, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, date_time, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction IN (1007, 1020, 2001, 2019, 2087)",
    "q3": """
SELECT p.name, p.city, p.state, a.id
FROM auction AS a JOIN person AS p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('or', 'id', 'ca')""",
    "q4": f"""
SELECT category, avg(CAST(final AS DOUBLE)) AS avg_final
FROM (SELECT a.id, a.category, max(b.price) AS final FROM {WITHIN} GROUP BY a.id, a.category)
GROUP BY category""",
    "q5": f"""
SELECT counts.window_start, counts.window_end, counts.auction, counts.num
FROM ({_COUNTS}) AS counts
JOIN (
  SELECT window_start, window_end, max(num) AS most FROM ({_COUNTS}) GROUP BY window_start, window_end
) AS hottest
ON counts.window_start = hottest.window_start AND counts.window_end = hottest.window_end
  AND counts.num = hottest.most""",
    "q6": f"""
SELECT seller, avg(CAST(price AS DOUBLE)) AS avg_price
FROM (
  SELECT seller, price, ROW_NUMBER() OVER (PARTITION BY seller ORDER BY expires DESC, id DESC) AS recency
  FROM (SELECT a.id, a.seller, a.expires, max(b.price) AS price FROM {WITHIN} GROUP BY a.id, a.seller, a.expires)
)
WHERE recency <= 10
GROUP BY seller""",
    "q7": """
SELECT b.auction, b.bidder, b.price, b.date_time, b.extra
FROM bid AS b
JOIN (
  SELECT window_start, window_end, max(price) AS top
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(event_time), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end
) AS highest
ON b.price = highest.top AND b.date_time BETWEEN highest.window_start AND highest.window_end""",
    "q8": """
SELECT p.id, p.name, p.window_start AS starttime
FROM (
  SELECT window_start, window_end, id, name
  FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(event_time), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end, id, name
) AS p
JOIN (
  SELECT window_start, window_end, seller
  FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(event_time), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end, seller
) AS a
ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end""",
    "q9": f"""
SELECT id, item_name, description, initial_bid, reserve, date_time, expires, seller, category, extra,
  auction, bidder, price, bid_date_time, bid_extra
FROM (
  SELECT a.id, a.item_name, a.description, a.initial_bid, a.reserve, a.date_time, a.expires, a.seller, a.category,
    a.extra, b.auction, b.bidder, b.price, b.date_time AS bid_date_time, b.extra AS bid_extra,
    ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.extra) AS place
  FROM {WITHIN}
)
WHERE place <= 1""",
    "q11": """
SELECT bidder, count(*) AS bid_count, window_start AS starttime, window_end AS endtime
FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(event_time), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end""",
    "q12": """
SELECT bidder, count(*) AS bid_count, window_start AS starttime, window_end AS endtime
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(arrived_at), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end""",
    "q14": """
SELECT auction, bidder, 0.908 * price AS price,
  CASE
    WHEN EXTRACT(HOUR FROM date_time) BETWEEN 8 AND 18 THEN 'dayTime'
    WHEN EXTRACT(HOUR FROM date_time) <= 6 OR EXTRACT(HOUR FROM date_time) >= 20 THEN 'nightTime'
    ELSE 'otherTime'
  END AS bidtimetype,
  date_time, extra, CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS c_counts
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"SELECT {_DAY} AS `day`, {RANKS}, {DISTINCT} FROM bid GROUP BY {_DAY}",
    "q16": f"""
SELECT channel, {_DAY} AS `day`, max(DATE_FORMAT(date_time, 'HH:mm')) AS `minute`, {RANKS}, {DISTINCT}
FROM bid GROUP BY channel, {_DAY}""",
    "q17": f"""
SELECT auction, {_DAY} AS `day`, {RANKS},
  min(price) AS min_price, max(price) AS max_price, avg(CAST(price AS DOUBLE)) AS avg_price, sum(price) AS sum_price
FROM bid GROUP BY auction, {_DAY}""",
    "q18": """
SELECT auction, bidder, price, channel, url, date_time, extra
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC, price DESC, extra) AS place
  FROM bid
)
WHERE place <= 1""",
    "q19": """
SELECT auction, bidder, price, channel, url, date_time, extra, rank_number
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, date_time, bidder, extra) AS rank_number
  FROM bid
)
WHERE rank_number <= 10""",
    "q20": """
SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time AS bid_date_time, b.extra AS bid_extra,
  a.item_name, a.description, a.initial_bid, a.reserve, a.date_time AS auction_date_time, a.expires, a.seller,
  a.category, a.extra AS auction_extra
FROM bid AS b JOIN auction AS a ON b.auction = a.id
WHERE a.category = 10""",
    "q21": """
SELECT auction, bidder, price, channel,
  CASE LOWER(channel)
    WHEN 'apple' THEN '0'
    WHEN 'google' THEN '1'
    WHEN 'facebook' THEN '2'
    WHEN 'baidu' THEN '3'
    ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)
  END AS channel_id
FROM bid
WHERE LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu') OR REGEXP(url, '(&|^)channel_id=')""",
    "q22": """
SELECT auction, bidder, price, channel,
  SPLIT_INDEX(url, '/', 3) AS dir1, SPLIT_INDEX(url, '/', 4) AS dir2, SPLIT_INDEX(url, '/', 5) AS dir3
FROM bid""",
}
