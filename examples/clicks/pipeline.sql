-- Twenty thousand generated clicks, the same ones every time: skewed, in disorder, a few of them late.
CREATE STREAM clicks (
  visitor BIGINT, page STRING, seconds_spent INT, clicked_at TIMESTAMP,
  WATERMARK FOR clicked_at AS clicked_at - INTERVAL 5 SECONDS
) WITH (
  source = 'datagen', seed = '7', rows = '20000', start = '2025-06-01 12:00:00', interval = '20 milliseconds',
  disorder = '4 seconds', late_share = '0.002', late_by = '2 minutes',
  'fields.visitor.cardinality' = '500', 'fields.visitor.skew' = '2',
  'fields.page.values' = 'home,search,product,cart,checkout', 'fields.page.skew' = '1.5',
  'fields.seconds_spent.min' = '1', 'fields.seconds_spent.max' = '90'
);

-- Visitors per page over the last minute, every 30 seconds.
CREATE MATERIALIZED VIEW page_traffic AS
SELECT window_start, window_end, page,
       count(*) AS clicks, approx_count_distinct(visitor) AS visitors, avg(seconds_spent) AS seconds_spent
FROM HOP(clicks, clicked_at, INTERVAL 30 SECONDS, INTERVAL 1 MINUTE)
GROUP BY window_start, window_end, page
EMIT ON WATERMARK;

-- How many long visits each page has had in all.
CREATE MATERIALIZED VIEW page_totals AS
SELECT page, count(*) AS clicks, count(*) FILTER (WHERE seconds_spent > 60) AS long_visits, max(clicked_at) AS last_click_at
FROM clicks
GROUP BY page;
