-- A transaction says for which version of the schema its program was built, and ends at once
-- where the schema does not allow that: on Postgres a function asks it, on SQLite the engine.
-- oldest: 41

-- +goose Up
-- lk_admit ends a transaction of a build that the schema does not allow. The detail of its error
-- is the schema's version and the oldest build that it allows.
-- +goose StatementBegin
CREATE FUNCTION lk_admit(p_build bigint) RETURNS void LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
  have   bigint;
  oldest bigint;
BEGIN
  SELECT max(v.version_id), max(coalesce(v.oldest, v.version_id)) FILTER (WHERE v.version_id > p_build)
    INTO have, oldest
    FROM lk_schema_version v
   WHERE v.is_applied AND v.version_id >= p_build;
  IF have IS NULL OR oldest > p_build THEN
    SELECT max(v.version_id) INTO have FROM lk_schema_version v WHERE v.is_applied;
    RAISE EXCEPTION USING ERRCODE = 'LK001', MESSAGE = 'the schema does not allow this build', DETAIL = concat(coalesce(have, 0), ' ', coalesce(oldest, 0));
  END IF;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_admit(bigint) SET search_path = %I, pg_temp', current_schema());
  REVOKE ALL ON FUNCTION lk_admit(bigint) FROM PUBLIC;
  GRANT EXECUTE ON FUNCTION lk_admit(bigint) TO lanekeeper_app;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION lk_admit(bigint);
