-- The input of an execution as it was given, where it has secrets: sealed, for its own agent
-- alone, and until the end. The column input leaves them out.
-- oldest: 37

-- +goose Up
SET LOCAL lock_timeout = '10s';
ALTER TABLE executions ADD COLUMN sealed_input bytea;

-- +goose Down
ALTER TABLE executions DROP COLUMN sealed_input;
