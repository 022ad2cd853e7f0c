-- Whether a skill changes anything, where its definition says so.

-- +goose Up
SET LOCAL lock_timeout = '10s';
ALTER TABLE agent_skills ADD COLUMN effect text CHECK (effect IN ('read', 'write')); -- null: its kind's

-- +goose Down
ALTER TABLE agent_skills DROP COLUMN effect;
