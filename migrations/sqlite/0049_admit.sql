-- A transaction says for which version of the schema its program was built, and ends at once
-- where the schema does not allow that: on Postgres a function asks it, on SQLite the engine.
-- oldest: 41

-- +goose Up
SELECT 1;

-- +goose Down
SELECT 1;
