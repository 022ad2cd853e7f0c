-- An execution counts how often it was cut off, apart from its attempts: to be parked and to
-- go on with progress is no sign that something in it ends the process.
-- oldest: 41

-- +goose Up
ALTER TABLE executions ADD COLUMN cuts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE executions ADD COLUMN parks INTEGER NOT NULL DEFAULT 0;
ALTER TABLE executions ADD COLUMN resumed_seq INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE executions DROP COLUMN cuts;
ALTER TABLE executions DROP COLUMN parks;
ALTER TABLE executions DROP COLUMN resumed_seq;
