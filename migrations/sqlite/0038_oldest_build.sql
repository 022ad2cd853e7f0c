-- Each schema version records the oldest build that may still run on it.
-- oldest: 37

-- +goose Up
ALTER TABLE lk_schema_version ADD COLUMN oldest INTEGER; -- a build's own schema version; NULL: the row's version

-- +goose Down
ALTER TABLE lk_schema_version DROP COLUMN oldest;
