-- Each schema version records the oldest build that may still run on it.
-- oldest: 37

-- +goose Up
SET LOCAL lock_timeout = '10s';
ALTER TABLE lk_schema_version ADD COLUMN oldest bigint; -- a build's own schema version; NULL: the row's version

-- lk_schema_oldest is the oldest build that may run on the versions later than p_build;
-- zero where there are none. A build asks it when the schema is newer than its own.
CREATE FUNCTION lk_schema_oldest(p_build bigint) RETURNS bigint LANGUAGE sql STABLE SECURITY DEFINER AS $$
  SELECT coalesce(max(coalesce(oldest, version_id)), 0) FROM lk_schema_version WHERE is_applied AND version_id > p_build
$$;
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_schema_oldest(bigint) SET search_path = %I, pg_temp', current_schema());
  REVOKE ALL ON FUNCTION lk_schema_oldest(bigint) FROM PUBLIC;
  GRANT EXECUTE ON FUNCTION lk_schema_oldest(bigint) TO lanekeeper_app;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION lk_schema_oldest(bigint);
ALTER TABLE lk_schema_version DROP COLUMN oldest;
