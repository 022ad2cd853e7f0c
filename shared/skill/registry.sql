-- name: ByID
SELECT id, name, kind, description, parameters, config, scope, effect, results, requires_approval, serial, timeout_seconds,
       enabled, disabled_by, disabled_reason, disabled_at, version, created_by, created_at, updated_at
  FROM agent_skills
 WHERE workspace_id = $1 AND id = $2;

-- name: ByName
SELECT id, name, kind, description, parameters, config, scope, effect, results, requires_approval, serial, timeout_seconds,
       enabled, disabled_by, disabled_reason, disabled_at, version, created_by, created_at, updated_at
  FROM agent_skills
 WHERE workspace_id = $1 AND name = $2;

-- name: Usable
-- Includes the rows of disabled built-in skills, before all others: without the row, the skill would
-- count as enabled.
SELECT id, name, kind, description, parameters, config, scope, effect, results, requires_approval, serial, timeout_seconds,
       enabled, disabled_by, disabled_reason, disabled_at, version, created_by, created_at, updated_at
  FROM agent_skills
 WHERE workspace_id = $1 AND (enabled OR kind = 'builtin')
 ORDER BY CASE WHEN kind = 'builtin' THEN 0 ELSE 1 END, name
 LIMIT $2;

-- name: Overrides
SELECT id, name, kind, description, parameters, config, scope, effect, results, requires_approval, serial, timeout_seconds,
       enabled, disabled_by, disabled_reason, disabled_at, version, created_by, created_at, updated_at
  FROM agent_skills
 WHERE workspace_id = $1 AND kind = 'builtin'
 ORDER BY name
 LIMIT $2;

-- name: Registered
SELECT id, name, kind, description, parameters, config, scope, effect, results, requires_approval, serial, timeout_seconds,
       enabled, disabled_by, disabled_reason, disabled_at, version, created_by, created_at, updated_at
  FROM agent_skills
 WHERE workspace_id = $1 AND kind <> 'builtin' AND name > $2
   AND (CAST($3 AS text) IS NULL OR kind = $3)
   AND (CAST($4 AS text) IS NULL OR scope = $4)
   AND (CAST($5 AS boolean) IS NULL OR enabled = $5)
 ORDER BY name
 LIMIT $6;

-- name: Count
SELECT count(*) FROM agent_skills WHERE workspace_id = $1;

-- name: Alike
-- Finds a name that differs from $2 only in case and separators. $2 has no separators and is in
-- lower case.
SELECT name FROM agent_skills
 WHERE workspace_id = $1 AND lower(replace(replace(name, '_', ''), '-', '')) = $2
 ORDER BY name
 LIMIT 1;

-- name: Insert
INSERT INTO agent_skills (workspace_id, id, name, kind, description, parameters, config, scope, effect, results, requires_approval, serial, timeout_seconds,
  enabled, disabled_by, disabled_reason, disabled_at, created_by, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
  $14, $15, $16, CASE WHEN CAST($15 AS text) IS NULL THEN NULL ELSE lk_now() END, $17, lk_now(), lk_now())
RETURNING id, name, kind, description, parameters, config, scope, effect, results, requires_approval, serial, timeout_seconds,
          enabled, disabled_by, disabled_reason, disabled_at, version, created_by, created_at, updated_at;

-- name: Update
-- Updates only the version that was read.
UPDATE agent_skills SET description = $4, parameters = $5, config = $6, scope = $7, effect = $8, results = $9,
       requires_approval = $10, serial = $11, timeout_seconds = $12, enabled = $13, disabled_by = $14, disabled_reason = $15,
       disabled_at = CASE WHEN CAST($14 AS text) IS NULL THEN NULL WHEN enabled THEN lk_now() ELSE disabled_at END,
       version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND version = $3
RETURNING id, name, kind, description, parameters, config, scope, effect, results, requires_approval, serial, timeout_seconds,
          enabled, disabled_by, disabled_reason, disabled_at, version, created_by, created_at, updated_at;

-- name: Delete
DELETE FROM agent_skills WHERE workspace_id = $1 AND id = $2;

-- name: Health
-- Reads the newest $4 calls of the last $3 milliseconds, without calls that were refused before
-- they ran. Percentiles are nearest rank. The consecutive failures exclude those of the caller:
-- they have no class, or the class ours or theirs.
WITH calls AS (
  SELECT status, duration_ms, created_at, CASE WHEN status = 'error' THEN coalesce(output ->> 'class', '') END AS class
    FROM agent_activity
   WHERE workspace_id = $1 AND skill_name = $2 AND (status = 'success' OR status = 'error' AND output ->> 'refused' IS NULL)
     AND created_at >= lk_plus((SELECT lk_now()), 0 - CAST($3 AS bigint))
   ORDER BY created_at DESC
   LIMIT $4
), ranked AS (
  SELECT duration_ms, row_number() OVER (ORDER BY duration_ms) AS place, count(*) OVER () AS places
    FROM calls
   WHERE duration_ms IS NOT NULL
)
SELECT count(*), count(CASE WHEN status = 'success' THEN 1 END), count(CASE WHEN status = 'error' THEN 1 END),
       count(CASE WHEN class IN ('', 'ours', 'theirs')
                   AND ((SELECT max(created_at) FROM calls WHERE status = 'success') IS NULL
                     OR created_at > (SELECT max(created_at) FROM calls WHERE status = 'success')) THEN 1 END),
       (SELECT min(duration_ms) FROM ranked WHERE place * 100 >= places * 50),
       (SELECT min(duration_ms) FROM ranked WHERE place * 100 >= places * 95),
       (SELECT class FROM calls WHERE status = 'error' ORDER BY created_at DESC LIMIT 1),
       max(CASE WHEN status = 'error' THEN created_at END),
       max(created_at)
  FROM calls;

-- name: HealthOfAll
-- Of each skill that was called in the last $2 milliseconds: percentiles, consecutive failures and the last
-- error of its newest $3 calls, by the rules of Health.
WITH calls AS (
  SELECT skill_name, status, duration_ms, created_at, error_message, CASE WHEN status = 'error' THEN coalesce(output ->> 'class', '') END AS class,
         row_number() OVER (PARTITION BY skill_name ORDER BY created_at DESC) AS rn
    FROM agent_activity
   WHERE workspace_id = $1 AND skill_name IS NOT NULL AND skill_name NOT LIKE '%.%' AND skill_name NOT LIKE '(%' AND skill_name <> 'heartbeat'
     AND (status = 'success' OR status = 'error' AND output ->> 'refused' IS NULL)
     AND created_at >= lk_plus((SELECT lk_now()), 0 - CAST($2 AS bigint))
), ranked AS (
  SELECT skill_name, status, duration_ms, created_at, error_message, class, rn,
         CASE WHEN duration_ms IS NOT NULL
              THEN row_number() OVER (PARTITION BY skill_name ORDER BY CASE WHEN duration_ms IS NULL THEN 1 ELSE 0 END, duration_ms) END AS place,
         count(duration_ms) OVER (PARTITION BY skill_name) AS places,
         min(CASE WHEN status = 'success' THEN rn END) OVER (PARTITION BY skill_name) AS success,
         min(CASE WHEN status = 'error' THEN rn END) OVER (PARTITION BY skill_name) AS error
    FROM calls
   WHERE rn <= $3
)
SELECT skill_name, min(CASE WHEN place * 100 >= places * 50 THEN duration_ms END), min(CASE WHEN place * 100 >= places * 95 THEN duration_ms END),
       count(CASE WHEN class IN ('', 'ours', 'theirs') AND (success IS NULL OR rn < success) THEN 1 END),
       max(CASE WHEN rn = error THEN error_message END), max(CASE WHEN rn = error THEN class END), max(created_at)
  FROM ranked
 GROUP BY skill_name;
