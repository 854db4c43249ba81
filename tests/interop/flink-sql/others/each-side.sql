CREATE TABLE sink_t (id BIGINT, customer INT)
WITH ('connector'='filesystem', 'path'='@SINK@', 'format'='csv');
INSERT INTO sink_t
SELECT o.id, c.id
FROM orders o JOIN customers c ON o.customer = c.id
