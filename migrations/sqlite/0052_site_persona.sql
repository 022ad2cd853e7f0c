-- A site key names the persona that its visitors talk with.
-- oldest: 41

-- +goose Up
ALTER TABLE api_keys ADD COLUMN persona TEXT CHECK (length(persona) BETWEEN 1 AND 63);

-- +goose Down
ALTER TABLE api_keys DROP COLUMN persona;
