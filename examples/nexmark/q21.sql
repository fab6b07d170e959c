-- Channel ids: the four large channels by name, the others by what their address says; bids of neither kind are left out.
CREATE MATERIALIZED VIEW q21 AS
SELECT auction, bidder, price, channel,
  CASE lower(channel)
    WHEN 'apple' THEN '0'
    WHEN 'google' THEN '1'
    WHEN 'facebook' THEN '2'
    WHEN 'baidu' THEN '3'
    ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)
  END AS channel_id
FROM bid
WHERE lower(channel) IN ('apple', 'google', 'facebook', 'baidu') OR regexp_like(url, '(&|^)channel_id=');
