"""Pieces of Nexmark's queries that mean the same in every engine's SQL.

Imports nothing, because Flink and Polars read it by Pythons of their own.
"""

from __future__ import annotations

RANKS = """
  count(*) AS total_bids,
  count(*) FILTER (WHERE price < 10000) AS rank1_bids,
  count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
  count(*) FILTER (WHERE price >= 1000000) AS rank3_bids"""
DISTINCT = ",".join(
    f"""
  count(DISTINCT {column}) AS total_{column}s,
  count(DISTINCT {column}) FILTER (WHERE price < 10000) AS rank1_{column}s,
  count(DISTINCT {column}) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_{column}s,
  count(DISTINCT {column}) FILTER (WHERE price >= 1000000) AS rank3_{column}s"""
    for column in ("bidder", "auction")
)
WITHIN = "auction AS a JOIN bid AS b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires"
"""The bids of an auction while it was open."""
