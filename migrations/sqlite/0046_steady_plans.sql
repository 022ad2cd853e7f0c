-- How long a statement takes does not depend on what Postgres estimates about its tables: on
-- SQLite nothing changes.
-- oldest: 41

-- +goose Up
SELECT 1;

-- +goose Down
SELECT 1;
