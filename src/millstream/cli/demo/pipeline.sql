-- A social feed. Posts come out of order; some come late, a few far too late.
CREATE STREAM posts (
  id BIGINT, author STRING, topic STRING, language STRING, likes BIGINT, posted_at TIMESTAMP,
  WATERMARK FOR posted_at AS posted_at - INTERVAL 10 SECONDS
) WITH (source = 'log', partitions = '2');

-- What is trending: the last minute, every ten seconds. Early values appear within a second and are refined;
-- what a late post changes is retracted and published again.
CREATE MATERIALIZED VIEW trending AS
SELECT window_start, window_end, topic, count(*) AS posts, sum(likes) AS likes
FROM HOP(posts, posted_at, INTERVAL 10 SECONDS, INTERVAL 1 MINUTE)
GROUP BY window_start, window_end, topic
EMIT EARLY EVERY 1 SECOND ON WATERMARK LATE EVERY 1 ROW RETRACTING ALLOWED LATENESS INTERVAL 1 MINUTE;

-- Posts per minute by language: a minute appears once, when it is complete.
CREATE MATERIALIZED VIEW posts_per_minute AS
SELECT window_start, window_end, language, count(*) AS posts, count(DISTINCT author) AS authors
FROM TUMBLE(posts, posted_at, INTERVAL 1 MINUTE)
GROUP BY window_start, window_end, language
EMIT ON WATERMARK;

-- Authors, live: up to date after every epoch. Read the top of it with ORDER BY … LIMIT.
CREATE MATERIALIZED VIEW authors AS
SELECT author, count(*) AS posts, sum(likes) AS likes, max(posted_at) AS last_post_at
FROM posts
GROUP BY author
EMIT ON EPOCH;
