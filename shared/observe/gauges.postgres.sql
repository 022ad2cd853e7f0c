-- why: without a workspace the rows of all are read, which a function of their owner may do.
-- name: Read
-- global: of the workspace that the transaction has entered, else of all; $1 is that workspace
SELECT name, label, value FROM lk_gauges() WHERE CAST($1 AS text) IS NOT NULL;
