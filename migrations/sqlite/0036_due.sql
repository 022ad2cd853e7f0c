-- What is due, of all workspaces at once: for the schedule's tick, and for whoever tends
-- what waits between beats.

-- +goose Up
ALTER TABLE executions ADD COLUMN timeout_seconds INTEGER CHECK (timeout_seconds > 0); -- of an execution that no lane protects; NULL: a week

-- +goose Down
ALTER TABLE executions DROP COLUMN timeout_seconds;
