CREATE TABLE sink_t (total DECIMAL(30,4), seen TIMESTAMP(6), n BIGINT)
WITH ('connector'='blackhole');
INSERT INTO sink_t
SELECT total, seen, COUNT(*)
FROM orders
GROUP BY total, seen
