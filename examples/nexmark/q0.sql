-- Pass through: every bid as it is. What everything else costs on top of.
CREATE MATERIALIZED VIEW q0 AS
SELECT auction, bidder, price, date_time, extra FROM bid;
