-- Local items: who sells in category 10 from Oregon, Idaho or California?
-- A join without a bound in time: either side may come first, and both are kept.
CREATE MATERIALIZED VIEW q3 AS
SELECT p.name, p.city, p.state, a.id
FROM auction AS a
JOIN person AS p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('or', 'id', 'ca');
