-- name: Put
-- Adds the version after the present one. Of two at once, the second one violates the key.
INSERT INTO personas (workspace_id, name, version, display_name, instructions, model, temperature, skills, language, time_zone, output_check, surfaces, created_by, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, lk_now())
RETURNING created_at;

-- name: Version
SELECT coalesce(max(version), 0) FROM personas WHERE workspace_id = $1 AND name = $2;

-- name: Newest
SELECT name, version, display_name, instructions, model, temperature, skills, language, time_zone, output_check, surfaces, created_by, created_at
  FROM personas
 WHERE workspace_id = $1 AND name = $2
 ORDER BY version DESC
 LIMIT 1;

-- name: Of
-- The version that an execution keeps.
SELECT p.name, p.version, p.display_name, p.instructions, p.model, p.temperature, p.skills, p.language, p.time_zone, p.output_check, p.surfaces, p.created_by, p.created_at
  FROM executions e
  JOIN personas p ON p.workspace_id = $1 AND p.name = e.persona AND p.version = e.persona_version
 WHERE e.workspace_id = $1 AND e.id = $2;

-- name: Versions
SELECT name, version, display_name, instructions, model, temperature, skills, language, time_zone, output_check, surfaces, created_by, created_at
  FROM personas
 WHERE workspace_id = $1 AND name = $2 AND version < $3
 ORDER BY version DESC
 LIMIT $4;

-- name: List
-- The newest version of each, by name.
SELECT name, version, display_name, instructions, model, temperature, skills, language, time_zone, output_check, surfaces, created_by, created_at
  FROM personas p
 WHERE workspace_id = $1 AND name > $2
   AND version = (SELECT max(n.version) FROM personas n WHERE n.workspace_id = $1 AND n.name = p.name)
 ORDER BY name
 LIMIT $3;
