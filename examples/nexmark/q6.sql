-- Average selling price by seller: the mean of the winning prices of the ten auctions that expire last.
CREATE MATERIALIZED VIEW q6 AS
SELECT seller, avg(price) AS avg_price
FROM (
  SELECT seller, price, ROW_NUMBER() OVER (PARTITION BY seller ORDER BY expires DESC, id DESC) AS recency
  FROM (
    SELECT a.id, a.seller, a.expires, max(b.price) AS price
    FROM auction AS a
    JOIN bid AS b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
    GROUP BY a.id, a.seller, a.expires
  ) AS won
) AS ranked
WHERE recency <= 10
GROUP BY seller;
