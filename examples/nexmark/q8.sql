-- New users: who entered and opened an auction in the same 10 seconds?
CREATE MATERIALIZED VIEW q8 AS
SELECT p.id, p.name, p.window_start AS starttime
FROM (
  SELECT window_start, window_end, id, name
  FROM TUMBLE(person, date_time, INTERVAL 10 SECONDS)
  GROUP BY window_start, window_end, id, name
) AS p
JOIN (
  SELECT window_start, window_end, seller
  FROM TUMBLE(auction, date_time, INTERVAL 10 SECONDS)
  GROUP BY window_start, window_end, seller
) AS a
ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end;
