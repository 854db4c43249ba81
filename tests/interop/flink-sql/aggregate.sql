CREATE TABLE sink_t (customer INT, `day` DATE, n BIGINT, s DECIMAL(38,2), m STRING, a DOUBLE, d BIGINT, f TIMESTAMP(3))
WITH ('connector'='blackhole');
INSERT INTO sink_t
SELECT customer, `day`, COUNT(*), SUM(amount), MAX(note), AVG(price), COUNT(DISTINCT note), MIN(ts)
FROM orders
GROUP BY customer, `day`
