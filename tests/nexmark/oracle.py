"""What each query answers: the batch query in plain DuckDB over the same rows.

Written from the meaning of the queries and not from Millstream's text of them: windows are
arithmetic on microseconds, sessions are gaps between neighbours, top lists are `DISTINCT ON`, lists
and `QUALIFY`. `bid` has one column more than the stream, `arrived_at`, the processing time of the
row, for q12.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa

_RANKS = """
    count(*) AS total_bids,
    sum((price < 10000)::INT)::BIGINT AS rank1_bids,
    sum((price BETWEEN 10000 AND 999999)::INT)::BIGINT AS rank2_bids,
    sum((price > 999999)::INT)::BIGINT AS rank3_bids
"""
_DISTINCT = ",".join(
    f"""
    len(list_distinct(list({column}))) AS total_{column}s,
    len(list_distinct(list(CASE WHEN price < 10000 THEN {column} END))) AS rank1_{column}s,
    len(list_distinct(list(CASE WHEN price BETWEEN 10000 AND 999999 THEN {column} END))) AS rank2_{column}s,
    len(list_distinct(list(CASE WHEN price > 999999 THEN {column} END))) AS rank3_{column}s
"""
    for column in ("bidder", "auction")
)
_WON = """
    won AS (
      SELECT a.id, a.seller, a.category, a.expires, max(b.price) AS price
      FROM bid b, auction a
      WHERE b.auction = a.id AND b.date_time >= a.date_time AND b.date_time <= a.expires
      GROUP BY ALL
    )
"""

ORACLE: dict[str, str] = {
    "q0": "SELECT auction, bidder, price, date_time, extra FROM bid",
    "q1": "SELECT auction, bidder, price * 908 / 1000.0 AS price, date_time, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE list_contains([1007, 1020, 2001, 2019, 2087], auction)",
    "q3": """
        SELECT name, city, state, a.id
        FROM person, (SELECT * FROM auction WHERE category = 10) a
        WHERE person.id = a.seller AND (state = 'or' OR state = 'id' OR state = 'ca')
    """,
    "q4": f"WITH {_WON} SELECT category, sum(price) / count(price) AS avg_final FROM won GROUP BY category",
    "q5": """
        WITH counts AS (
          SELECT (epoch_us(date_time) // 2000000 - back) * 2000000 AS starts, auction, count(*) AS num
          FROM bid, (SELECT unnest(range(5)) AS back)
          GROUP BY ALL
        )
        SELECT make_timestamp(starts) AS window_start, make_timestamp(starts + 10000000) AS window_end, auction, num
        FROM counts
        QUALIFY num = max(num) OVER (PARTITION BY starts)
    """,
    "q6": f"""
        WITH {_WON},
          lists AS (SELECT seller, list(price ORDER BY expires DESC, id DESC)[:10] AS prices FROM won GROUP BY 1)
        SELECT seller, list_sum(prices) / len(prices) AS avg_price FROM lists
    """,
    "q7": """
        WITH tops AS (SELECT epoch_us(date_time) // 10000000 AS number, max(price) AS top FROM bid GROUP BY 1)
        SELECT auction, bidder, price, date_time, extra FROM bid, tops
        WHERE price = top
          AND epoch_us(date_time) >= number * 10000000 AND epoch_us(date_time) <= (number + 1) * 10000000
    """,
    "q8": """
        SELECT DISTINCT id, name, make_timestamp(epoch_us(date_time) // 10000000 * 10000000) AS starttime
        FROM person p
        WHERE EXISTS (
          FROM auction a
          WHERE a.seller = p.id AND epoch_us(a.date_time) // 10000000 = epoch_us(p.date_time) // 10000000
        )
    """,
    "q9": """
        SELECT DISTINCT ON (a.id) a.*, b.auction, b.bidder, b.price, b.date_time AS bid_date_time, b.extra AS bid_extra
        FROM auction a, bid b
        WHERE b.auction = a.id AND b.date_time >= a.date_time AND b.date_time <= a.expires
        ORDER BY a.id, b.price DESC, b.date_time, b.extra
    """,
    # An end is exclusive: whoever bids again just 10 seconds later begins another session.
    "q11": """
        WITH gaps AS (
          SELECT bidder, date_time, date_time - lag(date_time) OVER mine >= INTERVAL 10 SECONDS AS begins
          FROM bid WINDOW mine AS (PARTITION BY bidder ORDER BY date_time)
        ), numbered AS (
          SELECT *, count(*) FILTER (begins) OVER (PARTITION BY bidder ORDER BY date_time) AS session FROM gaps
        )
        SELECT bidder, count(*) AS bid_count,
          min(date_time) AS starttime, max(date_time) + INTERVAL 10 SECONDS AS endtime
        FROM numbered GROUP BY bidder, session
    """,
    "q12": """
        SELECT bidder, count(*) AS bid_count,
          make_timestamp(epoch_us(arrived_at) // 10000000 * 10000000) AS starttime,
          make_timestamp(epoch_us(arrived_at) // 10000000 * 10000000 + 10000000) AS endtime
        FROM bid GROUP BY ALL
    """,
    "q14": """
        SELECT auction, bidder, price * 908 / 1000.0 AS price,
          CASE
            WHEN date_part('hour', date_time) IN (8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18) THEN 'dayTime'
            WHEN date_part('hour', date_time) IN (7, 19) THEN 'otherTime'
            ELSE 'nightTime'
          END AS bidtimetype,
          date_time, extra, len(regexp_extract_all(extra, 'c')) AS c_counts
        FROM bid WHERE price * 908 > 1000000000 AND price * 908 < 50000000000
    """,
    "q15": f"SELECT date_time::DATE::VARCHAR AS day, {_RANKS}, {_DISTINCT} FROM bid GROUP BY 1",
    "q16": f"""
        SELECT channel, date_time::DATE::VARCHAR AS day, strftime(max(date_time), '%H:%M') AS minute,
          {_RANKS}, {_DISTINCT}
        FROM bid GROUP BY 1, 2
    """,
    "q17": f"""
        SELECT auction, date_time::DATE::VARCHAR AS day, {_RANKS},
          min(price) AS min_price, max(price) AS max_price,
          sum(price) / count(*) AS avg_price, sum(price)::BIGINT AS sum_price
        FROM bid GROUP BY 1, 2
    """,
    "q18": """
        SELECT DISTINCT ON (bidder, auction) auction, bidder, price, channel, url, date_time, extra
        FROM bid ORDER BY bidder, auction, date_time DESC, price DESC, extra
    """,
    "q19": """
        SELECT auction, bidder, price, channel, url, date_time, extra,
          row_number() OVER (PARTITION BY auction ORDER BY price DESC, date_time, bidder, extra) AS rank_number
        FROM bid QUALIFY rank_number < 11
    """,
    "q20": """
        SELECT b.auction, bidder, price, channel, url, b.date_time AS bid_date_time, b.extra AS bid_extra,
          item_name, description, initial_bid, reserve, a.date_time AS auction_date_time, expires, seller,
          category, a.extra AS auction_extra
        FROM auction a, bid b WHERE a.id = b.auction AND category = 10
    """,
    "q21": """
        WITH known(name, id) AS (VALUES ('Apple', '0'), ('Google', '1'), ('Facebook', '2'), ('Baidu', '3'))
        SELECT auction, bidder, price, channel, coalesce(id, string_split(url, '&channel_id=')[2]) AS channel_id
        FROM bid LEFT JOIN known ON name = channel
        WHERE id IS NOT NULL OR url LIKE '%&channel_id=%'
    """,
    "q22": """
        SELECT auction, bidder, price, channel, dirs[4] AS dir1, dirs[5] AS dir2, dirs[6] AS dir3
        FROM (SELECT *, string_split(url, '/') AS dirs FROM bid)
    """,
}


def answer(query: str, tables: dict[str, pa.Table]) -> pa.Table:
    """The rows that a query has over some rows of `person`, `auction` and `bid`."""
    with duckdb.connect(config={"threads": 2}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(ORACLE[query]).to_arrow_table()
