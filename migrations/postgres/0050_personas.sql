-- By whose words an agent works. Executions keep the version that they began with.
-- oldest: 41

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE TABLE personas (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  name         text COLLATE "C" NOT NULL CHECK (length(name) BETWEEN 1 AND 63),
  version      integer NOT NULL CHECK (version > 0),
  display_name text NOT NULL CHECK (length(display_name) BETWEEN 1 AND 100),
  instructions text NOT NULL CHECK (octet_length(instructions) <= 16384),
  model        text CHECK (length(model) BETWEEN 1 AND 255),
  temperature  double precision CHECK (temperature BETWEEN 0 AND 2),
  skills       text CHECK (length(skills) <= 16384), -- a JSON array; NULL: all that the surface offers
  language     text CHECK (length(language) BETWEEN 2 AND 35),
  time_zone    text CHECK (length(time_zone) BETWEEN 1 AND 64),
  surfaces     text NOT NULL CHECK (length(surfaces) <= 255), -- a JSON array
  created_by   text NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at   timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, name, version)
);
CALL lk_protect('personas');
-- The checks are not validated: no row has a value yet, and nobody waits while the table is read.
ALTER TABLE executions
  ADD COLUMN persona text,
  ADD COLUMN persona_version integer,
  ADD CONSTRAINT executions_persona_check CHECK (length(persona) BETWEEN 1 AND 63) NOT VALID,
  ADD CONSTRAINT executions_persona_version_check CHECK (persona_version >= 0) NOT VALID;

-- +goose Down
ALTER TABLE executions DROP COLUMN persona_version;
ALTER TABLE executions DROP COLUMN persona;
DROP TABLE personas;
