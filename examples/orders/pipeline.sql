-- Orders land as files of JSON lines in a directory; each file is read once.
CREATE STREAM orders (
  id BIGINT, customer STRING, country STRING, amount DECIMAL(10, 2), ordered_at TIMESTAMP,
  WATERMARK FOR ordered_at AS ordered_at - INTERVAL 5 MINUTES
) WITH (source = 'files', path = 'examples/orders/incoming', format = 'json', pattern = '*.jsonl');

-- Revenue per hour and country; an hour appears when it is complete.
CREATE MATERIALIZED VIEW revenue_per_hour AS
SELECT window_start, window_end, country, count(*) AS orders, sum(amount) AS revenue
FROM TUMBLE(orders, ordered_at, INTERVAL 1 HOUR)
GROUP BY window_start, window_end, country
EMIT ON WATERMARK;

-- Every customer so far, live; only those who came back.
CREATE MATERIALIZED VIEW loyal_customers AS
SELECT customer, count(*) AS orders, sum(amount) AS spent, max(ordered_at) AS last_order_at
FROM orders
GROUP BY customer
HAVING count(*) > 1;
