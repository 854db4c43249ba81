CREATE TABLE sink_t (customer INT, note STRING, amount DECIMAL(10,2))
WITH ('connector'='blackhole');
INSERT INTO sink_t
SELECT customer, note, amount
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY ts DESC) AS rn FROM orders) WHERE rn = 1
