-- Hot items: which auctions had the most bids in the last 10 seconds? Looked at every 2 seconds; ties are all shown.
CREATE MATERIALIZED VIEW q5 AS
SELECT counts.window_start, counts.window_end, counts.auction, counts.num
FROM (
  SELECT window_start, window_end, auction, count(*) AS num
  FROM HOP(bid, date_time, INTERVAL 2 SECONDS, INTERVAL 10 SECONDS)
  GROUP BY window_start, window_end, auction
) AS counts
JOIN (
  SELECT window_start, window_end, max(num) AS most
  FROM (
    SELECT window_start, window_end, auction, count(*) AS num
    FROM HOP(bid, date_time, INTERVAL 2 SECONDS, INTERVAL 10 SECONDS)
    GROUP BY window_start, window_end, auction
  ) AS per_auction
  GROUP BY window_start, window_end
) AS hottest
ON counts.window_start = hottest.window_start AND counts.window_end = hottest.window_end AND counts.num = hottest.most;
