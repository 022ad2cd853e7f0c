-- Whose words an objective and its plan are told in: the operator's own, or also
-- those of a run that had read text from outside.

-- +goose Up
ALTER TABLE agent_objectives ADD COLUMN trust TEXT NOT NULL DEFAULT 'operator' CHECK (trust IN ('operator', 'outside'));

-- +goose Down
ALTER TABLE agent_objectives DROP COLUMN trust;
