-- The same streams over files, as `millstream datagen nexmark --events 1000000 --out nexmark-data` writes them.
-- Paths are relative to where Millstream runs. For --format csv or json, say so here too.

CREATE STREAM person (
  id BIGINT, name STRING, email_address STRING, credit_card STRING, city STRING, state STRING,
  date_time TIMESTAMP, extra STRING,
  WATERMARK FOR date_time AS date_time - INTERVAL 4 SECONDS
) WITH (source = 'files', path = 'nexmark-data/person', format = 'parquet');

CREATE STREAM auction (
  id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT,
  date_time TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING,
  WATERMARK FOR date_time AS date_time - INTERVAL 4 SECONDS
) WITH (source = 'files', path = 'nexmark-data/auction', format = 'parquet');

CREATE STREAM bid (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP, extra STRING,
  WATERMARK FOR date_time AS date_time - INTERVAL 4 SECONDS
) WITH (source = 'files', path = 'nexmark-data/bid', format = 'parquet');
