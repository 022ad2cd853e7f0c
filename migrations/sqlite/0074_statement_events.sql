-- Triggers for a statement exist on Postgres alone. SQLite knows only those for a row, and keeps them.
-- oldest: 46

-- +goose Up
SELECT 1;

-- +goose Down
SELECT 1;
