-- Top ten: the highest bids of every auction. `date_time`, `bidder` and `extra` settle ties, so that there is one answer.
CREATE MATERIALIZED VIEW q19 AS
SELECT auction, bidder, price, channel, url, date_time, extra, rank_number
FROM (
  SELECT auction, bidder, price, channel, url, date_time, extra,
    ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, date_time, bidder, extra) AS rank_number
  FROM bid
) AS ranked
WHERE rank_number <= 10;
