-- Names of skills may have capitals and -. That two differ in more than case and
-- separators is decided under the lock of the workspace's row when one is made: rows of
-- before that don't are kept.
-- oldest: 37

-- +goose Up
SET LOCAL lock_timeout = '10s';
ALTER TABLE agent_skills DROP CONSTRAINT agent_skills_name_check, ADD CONSTRAINT agent_skills_name_check
  CHECK (length(name) BETWEEN 1 AND 64 AND ltrim(name, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-') = ''
         AND ltrim(substr(name, 1, 1), 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz') = '');

-- +goose Down
-- Names that are there stay.
ALTER TABLE agent_skills DROP CONSTRAINT agent_skills_name_check, ADD CONSTRAINT agent_skills_name_check
  CHECK (length(name) BETWEEN 1 AND 64 AND ltrim(name, 'abcdefghijklmnopqrstuvwxyz0123456789_') = ''
         AND ltrim(substr(name, 1, 1), 'abcdefghijklmnopqrstuvwxyz') = '') NOT VALID;
