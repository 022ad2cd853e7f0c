-- name: Happens
INSERT INTO events (workspace_id, kind, subject, created_at) VALUES ($1, $2, $3, lk_now());

-- name: Misplace
UPDATE agent_automations SET event_xid = 9000000000000 WHERE workspace_id = $1;

-- name: Unsettled
SELECT count(*) FROM events WHERE workspace_id = $1 AND xid >= lk_settled();

-- name: BreakSchedule
UPDATE agent_automations SET time_zone = 'Mars/Olympus' WHERE workspace_id = $1 AND id = $2;
