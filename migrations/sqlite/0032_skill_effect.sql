-- Whether a skill changes anything, where its definition says so.

-- +goose Up
ALTER TABLE agent_skills ADD COLUMN effect TEXT CHECK (effect IN ('read', 'write')); -- null: its kind's

-- +goose Down
ALTER TABLE agent_skills DROP COLUMN effect;
