CREATE TABLE sink_t (id BIGINT, amount DECIMAL(10,2), total DECIMAL(30,4), note STRING, flag BOOLEAN, name STRING, city STRING, score DECIMAL(38,10), seen TIMESTAMP(6))
WITH ('connector'='blackhole');
INSERT INTO sink_t
SELECT o.id, o.amount, o.total, o.note, o.flag, c.name, c.city, c.score, c.seen
FROM orders o
JOIN customers c ON o.customer = c.id
