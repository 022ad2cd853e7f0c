-- Workspaces whose beats a kill switch stops come last in the order of a tick: on Postgres a
-- function says so, here the statement itself.
-- oldest: 41

-- +goose Up
SELECT 1;

-- +goose Down
SELECT 1;
