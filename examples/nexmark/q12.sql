-- Processing time: how often did someone bid within 10 seconds on our clock?
CREATE MATERIALIZED VIEW q12 AS
SELECT bidder, count(*) AS bid_count, window_start AS starttime, window_end AS endtime
FROM TUMBLE(bid, PROCTIME(), INTERVAL 10 SECONDS)
GROUP BY bidder, window_start, window_end;
