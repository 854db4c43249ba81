CREATE TABLE sink_t (customer INT, id BIGINT, price DOUBLE, rn BIGINT)
WITH ('connector'='blackhole');
INSERT INTO sink_t
SELECT customer, id, price, rn
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY price DESC) AS rn FROM orders) WHERE rn <= 3
