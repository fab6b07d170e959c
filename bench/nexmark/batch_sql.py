"""The Nexmark queries in Spark SQL as one batch query over all files.

Owns the text of what streaming cannot express; the rest is word for word that of `native_sql`, which means the same
of a table. The clock of a batch stands still, so that q12 has one window.
"""

from __future__ import annotations

from bench.nexmark import native_sql
from bench.nexmark.fragments import WITHIN

QUERIES: dict[str, str] = {name: query.text for name, query in native_sql.QUERIES.items()} | {
    "q4": f"""
SELECT category, avg(final) AS avg_final
FROM (SELECT a.id, a.category, max(b.price) AS final FROM {WITHIN} GROUP BY a.id, a.category)
GROUP BY category""",
    "q6": f"""
SELECT seller, avg(price) AS avg_price
FROM (
  SELECT seller, price, row_number() OVER (PARTITION BY seller ORDER BY expires DESC, id DESC) AS recency
  FROM (SELECT a.id, a.seller, a.expires, max(b.price) AS price FROM {WITHIN} GROUP BY a.id, a.seller, a.expires)
)
WHERE recency <= 10
GROUP BY seller""",
    "q9": f"""
SELECT id, item_name, description, initial_bid, reserve, date_time, expires, seller, category, extra,
  auction, bidder, price, bid_date_time, bid_extra
FROM (
  SELECT a.*, b.auction, b.bidder, b.price, b.date_time AS bid_date_time, b.extra AS bid_extra,
    row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.extra) AS place
  FROM {WITHIN}
)
WHERE place = 1""",
    "q19": """
SELECT *
FROM (
  SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, date_time, bidder, extra) AS rank_number
  FROM bid
)
WHERE rank_number <= 10""",
}
