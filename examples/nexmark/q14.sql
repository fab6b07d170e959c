-- Calculation: bids of some size in euros, the part of the day they were made in, and how often `extra` has the letter c.
CREATE MATERIALIZED VIEW q14 AS
SELECT auction, bidder, 0.908 * price AS price,
  CASE
    WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'dayTime'
    WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime'
    ELSE 'otherTime'
  END AS bidtimetype,
  date_time, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000;
