-- The input of a task as it was given, if it holds secrets: encrypted, for the agents of its attempts.
-- The column input_context has it without them.
-- oldest: 46

-- +goose Up
ALTER TABLE agent_tasks ADD COLUMN sealed_input BLOB;

-- +goose Down
ALTER TABLE agent_tasks DROP COLUMN sealed_input;
