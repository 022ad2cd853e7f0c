-- Whose words an automation, and a call that waits for approval, are told in: the
-- operator's own, or also those of a run that had read text from outside.

-- +goose Up
ALTER TABLE agent_automations ADD COLUMN trust TEXT NOT NULL DEFAULT 'operator' CHECK (trust IN ('operator', 'outside'));
ALTER TABLE approvals ADD COLUMN trust TEXT NOT NULL DEFAULT 'operator' CHECK (trust IN ('operator', 'outside'));

-- +goose Down
ALTER TABLE approvals DROP COLUMN trust;
ALTER TABLE agent_automations DROP COLUMN trust;
