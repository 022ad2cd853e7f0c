-- The search on SQLite knows the workspace otherwise: nothing changes here.
-- oldest: 46

-- +goose Up
SELECT 1;

-- +goose Down
SELECT 1;
