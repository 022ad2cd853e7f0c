-- An execution counts how often it was cut off, apart from its attempts: to be parked and to
-- go on with progress is no sign that something in it ends the process.
-- oldest: 41

-- +goose Up
SET LOCAL lock_timeout = '10s';
ALTER TABLE executions
  ADD COLUMN cuts        integer NOT NULL DEFAULT 0,
  ADD COLUMN parks       integer NOT NULL DEFAULT 0,
  ADD COLUMN resumed_seq integer NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE executions DROP COLUMN cuts, DROP COLUMN parks, DROP COLUMN resumed_seq;
