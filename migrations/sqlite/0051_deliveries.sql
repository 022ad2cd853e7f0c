-- A delivery whose kick is gone is found, one that is done again knows what its tries asked for, and
-- a source of GitHub catches up with what it missed.
-- oldest: 41

-- +goose Up
ALTER TABLE inbox ADD COLUMN kicks INTEGER NOT NULL DEFAULT 0;
ALTER TABLE inbox ADD COLUMN asked TEXT CHECK (length(asked) = 64);
ALTER TABLE inbox ADD COLUMN effect INTEGER NOT NULL DEFAULT 1 CHECK (effect IN (0, 1));
ALTER TABLE webhook_sources ADD COLUMN github TEXT CHECK (length(github) BETWEEN 2 AND 2048);
ALTER TABLE webhook_sources ADD COLUMN catch_up TEXT CHECK (length(catch_up) BETWEEN 2 AND 65536);
CREATE INDEX inbox_open ON inbox (workspace_id, id) WHERE status IN ('received', 'working', 'failed');

-- +goose Down
DROP INDEX inbox_open;
ALTER TABLE webhook_sources DROP COLUMN catch_up;
ALTER TABLE webhook_sources DROP COLUMN github;
ALTER TABLE inbox DROP COLUMN effect;
ALTER TABLE inbox DROP COLUMN asked;
ALTER TABLE inbox DROP COLUMN kicks;
