-- name: Diagnose
-- Skills whose newest $2 or more calls failed, and skills on probation. A streak counts within $3
-- milliseconds, and only after the last change of the skill. $4 are the built-in skills, which need
-- no row. The recursion jumps from name to name along the index. Of each skill it reads at most the
-- newest 20 calls that count.
WITH RECURSIVE names (name) AS (
  SELECT (SELECT min(skill_name) FROM agent_activity WHERE workspace_id = $1)
  UNION ALL
  SELECT (SELECT min(a.skill_name) FROM agent_activity a WHERE a.workspace_id = $1 AND a.skill_name > n.name)
    FROM names n
   WHERE n.name IS NOT NULL
), known AS (
  SELECT n.name, h.id AS heal,
         CASE WHEN s.updated_at > lk_plus((SELECT lk_now()), 0 - CAST($3 AS bigint)) THEN s.updated_at
              ELSE lk_plus((SELECT lk_now()), 0 - CAST($3 AS bigint)) END AS since
    FROM names n
    LEFT JOIN agent_skills s ON s.workspace_id = $1 AND s.name = n.name
    LEFT JOIN heals h ON h.workspace_id = $1 AND h.skill = n.name AND h.status = 'probing'
   WHERE n.name IS NOT NULL AND (s.enabled OR s.enabled IS NULL AND CAST($4 AS text) LIKE '%"' || n.name || '"%')
), counted AS (
  SELECT k.name, k.heal,
         (SELECT count(*) FROM (
            SELECT c.status, sum(CASE WHEN c.status = 'success' THEN 1 ELSE 0 END) OVER (ORDER BY c.created_at DESC, c.id DESC) AS successes
              FROM (SELECT id, status, created_at FROM agent_activity a
                     WHERE a.workspace_id = $1 AND a.skill_name = k.name AND a.created_at > k.since
                       AND (a.status = 'success' OR a.status = 'error' AND coalesce(a.output ->> 'class', '') IN ('', 'ours', 'theirs'))
                     ORDER BY a.created_at DESC LIMIT 20) AS c) AS streak
           WHERE successes = 0) AS failures,
         (SELECT CASE WHEN a.status = 'success' THEN 'success' ELSE coalesce(a.output ->> 'class', '') END FROM agent_activity a
           WHERE a.workspace_id = $1 AND a.skill_name = k.name AND a.created_at > k.since
             AND (a.status = 'success' OR a.status = 'error' AND coalesce(a.output ->> 'class', '') IN ('', 'ours', 'theirs'))
           ORDER BY a.created_at DESC LIMIT 1) AS newest
    FROM known k
)
SELECT name, failures, newest, heal
  FROM counted
 WHERE failures >= $2 OR heal IS NOT NULL AND newest IS NOT NULL
 ORDER BY name;

-- name: Used
-- Skills with a relevant call in the last $2 milliseconds, and whether the newest such call has
-- failed.
WITH RECURSIVE names (name) AS (
  SELECT (SELECT min(skill_name) FROM agent_activity WHERE workspace_id = $1)
  UNION ALL
  SELECT (SELECT min(a.skill_name) FROM agent_activity a WHERE a.workspace_id = $1 AND a.skill_name > n.name)
    FROM names n
   WHERE n.name IS NOT NULL
)
SELECT name, newest = 'error' FROM (
  SELECT n.name, (SELECT a.status FROM agent_activity a
                   WHERE a.workspace_id = $1 AND a.skill_name = n.name AND a.created_at > lk_plus((SELECT lk_now()), 0 - CAST($2 AS bigint))
                     AND (a.status = 'success' OR a.status = 'error' AND coalesce(a.output ->> 'class', '') IN ('', 'ours', 'theirs'))
                   ORDER BY a.created_at DESC LIMIT 1) AS newest
    FROM names n) AS used
 WHERE newest IS NOT NULL;

-- name: Cool
-- Heals whose cool-down, or the time for whose probe, has ended.
SELECT id, skill, code, failures, automations, status, probes, probe_at, trace_id, ended_by, created_at, updated_at
  FROM heals
 WHERE workspace_id = $1 AND status IN ('active', 'probing') AND probe_at <= (SELECT lk_now())
 ORDER BY probe_at
 LIMIT $2;

-- name: LockOpen
-- Locks the rows without a change, before any other row of the skills is read or changed. So
-- transactions decide on them one after the other.
UPDATE heals SET updated_at = updated_at WHERE workspace_id = $1 AND status IN ('active', 'probing');

-- name: Get
SELECT id, skill, code, failures, automations, status, probes, probe_at, trace_id, ended_by, created_at, updated_at
  FROM heals
 WHERE workspace_id = $1 AND id = $2;

-- name: Open
SELECT id, skill, code, failures, automations, status, probes, probe_at, trace_id, ended_by, created_at, updated_at
  FROM heals
 WHERE workspace_id = $1 AND status IN ('active', 'probing')
 ORDER BY skill;

-- name: List
SELECT id, skill, code, failures, automations, status, probes, probe_at, trace_id, ended_by, created_at, updated_at
  FROM heals
 WHERE workspace_id = $1
   AND (CAST($2 AS text) IS NULL OR status = $2)
   AND (CAST($3 AS text) IS NULL OR skill = $3)
   AND (created_at, id) < ($4, $5)
 ORDER BY created_at DESC, id DESC
 LIMIT $6;

-- name: Insert
INSERT INTO heals (workspace_id, id, skill, code, failures, automations, probes, probe_at, trace_id, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, lk_plus(lk_now(), $8), $9, lk_now(), lk_now());

-- name: Relapse
-- The number of failed probes of a skill when it was restored, in the last $3 milliseconds.
SELECT probes FROM heals
 WHERE workspace_id = $1 AND skill = $2 AND status = 'restored' AND updated_at > lk_plus((SELECT lk_now()), 0 - CAST($3 AS bigint))
 ORDER BY updated_at DESC
 LIMIT 1;

-- name: Supersede
UPDATE heals SET status = 'superseded', ended_by = 'a later failure', updated_at = lk_now()
 WHERE workspace_id = $1 AND skill = $2 AND status IN ('active', 'probing')
RETURNING id, skill, code, failures, automations, status, probes, probe_at, trace_id, ended_by, created_at, updated_at;

-- name: Change
UPDATE heals SET status = $3, probes = $4, probe_at = lk_plus(lk_now(), $5), ended_by = $6, automations = $7, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2;
