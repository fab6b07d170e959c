-- The auction house of the Nexmark benchmark: people enter, open auctions, and bid.
-- Rows come through the log: INSERT INTO, db.insert, or `millstream produce`.

CREATE STREAM person (
  id BIGINT, name STRING, email_address STRING, credit_card STRING, city STRING, state STRING,
  date_time TIMESTAMP, extra STRING,
  WATERMARK FOR date_time AS date_time - INTERVAL 4 SECONDS
) WITH (source = 'log');

CREATE STREAM auction (
  id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT,
  date_time TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING,
  WATERMARK FOR date_time AS date_time - INTERVAL 4 SECONDS
) WITH (source = 'log');

CREATE STREAM bid (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP, extra STRING,
  WATERMARK FOR date_time AS date_time - INTERVAL 4 SECONDS
) WITH (source = 'log');
