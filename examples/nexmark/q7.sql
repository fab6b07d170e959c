-- Highest bid: the bids with the highest price of every 10 seconds. A bid right at the end of a window is compared with that window too.
CREATE MATERIALIZED VIEW q7 AS
SELECT b.auction, b.bidder, b.price, b.date_time, b.extra
FROM bid AS b
JOIN (
  SELECT window_start, window_end, max(price) AS top
  FROM TUMBLE(bid, date_time, INTERVAL 10 SECONDS)
  GROUP BY window_start, window_end
) AS highest
ON b.price = highest.top AND b.date_time BETWEEN highest.window_start AND highest.window_end;
