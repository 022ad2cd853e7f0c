-- A workspace is not due for an execution of which nothing was heard while something is heard
-- of one below it: on Postgres a function says so, here the statement itself.
-- oldest: 41

-- +goose Up
SELECT 1;

-- +goose Down
SELECT 1;
