-- Readings of two sensors. One of them is out of reach now and then and sends its readings late.
CREATE STREAM readings (
  sensor STRING, celsius DOUBLE, read_at TIMESTAMP,
  WATERMARK FOR read_at AS read_at - INTERVAL 10 SECONDS
);

-- The highest value per minute. A late reading corrects its minute for five minutes more:
-- the old value is retracted and the new one published (SUBSCRIBE peaks shows both).
CREATE MATERIALIZED VIEW peaks AS
SELECT window_start, window_end, sensor, max(celsius) AS peak, count(*) AS readings
FROM TUMBLE(readings, read_at, INTERVAL 1 MINUTE)
GROUP BY window_start, window_end, sensor
EMIT ON WATERMARK LATE EVERY 1 ROW RETRACTING ALLOWED LATENESS INTERVAL 5 MINUTES;

INSERT INTO readings VALUES
  ('cellar', 11.5, TIMESTAMP '2025-06-01 12:00:05'),
  ('roof',   24.0, TIMESTAMP '2025-06-01 12:00:20'),
  ('cellar', 11.9, TIMESTAMP '2025-06-01 12:00:50'),
  ('cellar', 11.7, TIMESTAMP '2025-06-01 12:01:30');

-- The first minute is complete now.
SELECT sensor, peak, readings FROM peaks ORDER BY sensor;

-- The roof reports a hotter moment of that minute, and time goes on.
INSERT INTO readings VALUES
  ('roof',   26.5, TIMESTAMP '2025-06-01 12:00:40'),
  ('cellar', 11.6, TIMESTAMP '2025-06-01 12:09:00');

SELECT window_start, sensor, peak, readings FROM peaks ORDER BY window_start, sensor;

-- Nine minutes are too late: the reading is kept aside, with the view that could not use it.
INSERT INTO readings VALUES ('roof', 30.0, TIMESTAMP '2025-06-01 12:00:30');

SELECT _view, sensor, celsius, read_at FROM readings__late;
