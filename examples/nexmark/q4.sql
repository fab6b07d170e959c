-- Average price for a category: the mean of the winning prices.
-- An auction is won by its highest bid between opening and expiry.
CREATE MATERIALIZED VIEW q4 AS
SELECT category, avg(final) AS avg_final
FROM (
  SELECT a.id, a.category, max(b.price) AS final
  FROM auction AS a
  JOIN bid AS b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
  GROUP BY a.id, a.category
) AS won
GROUP BY category;
