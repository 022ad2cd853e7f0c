-- By whose words an agent works. Executions keep the version that they began with.
-- oldest: 41

-- +goose Up
CREATE TABLE personas (
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  name         TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 63),
  version      INTEGER NOT NULL CHECK (version > 0),
  display_name TEXT NOT NULL CHECK (length(display_name) BETWEEN 1 AND 100),
  instructions TEXT NOT NULL CHECK (length(CAST(instructions AS BLOB)) <= 16384),
  model        TEXT CHECK (length(model) BETWEEN 1 AND 255),
  temperature  REAL CHECK (temperature BETWEEN 0 AND 2),
  skills       TEXT CHECK (length(skills) <= 16384), -- a JSON array; NULL: all that the surface offers
  language     TEXT CHECK (length(language) BETWEEN 2 AND 35),
  time_zone    TEXT CHECK (length(time_zone) BETWEEN 1 AND 64),
  surfaces     TEXT NOT NULL CHECK (length(surfaces) <= 255), -- a JSON array
  created_by   TEXT NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at   INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, name, version)
) STRICT;
ALTER TABLE executions ADD COLUMN persona TEXT CHECK (length(persona) BETWEEN 1 AND 63);
ALTER TABLE executions ADD COLUMN persona_version INTEGER CHECK (persona_version >= 0);

-- +goose Down
ALTER TABLE executions DROP COLUMN persona_version;
ALTER TABLE executions DROP COLUMN persona;
DROP TABLE personas;
