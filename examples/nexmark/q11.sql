-- User sessions: how often did someone bid before pausing for 10 seconds?
CREATE MATERIALIZED VIEW q11 AS
SELECT bidder, count(*) AS bid_count, window_start AS starttime, window_end AS endtime
FROM SESSION(bid PARTITION BY bidder, date_time, INTERVAL 10 SECONDS)
GROUP BY bidder, window_start, window_end;
