-- Last bid: of every bidder on every auction. `price` and `extra` settle ties, so that there is one answer.
CREATE MATERIALIZED VIEW q18 AS
SELECT auction, bidder, price, channel, url, date_time, extra
FROM (
  SELECT auction, bidder, price, channel, url, date_time, extra,
    ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC, price DESC, extra) AS place
  FROM bid
) AS ranked
WHERE place <= 1;
