-- name: Lately
-- Lists the $3 newest messages, and of those the newest whose bodies have at most $4 bytes together.
SELECT id, seq, role, body, execution_id, key, data, created_at
  FROM (SELECT m.*, sum(octet_length(body)) OVER (ORDER BY seq DESC ROWS UNBOUNDED PRECEDING) AS bytes
          FROM (SELECT id, seq, role, body, execution_id, key, data, created_at
                  FROM messages
                 WHERE workspace_id = $1 AND thread_id = $2
                 ORDER BY seq DESC
                 LIMIT $3) m) l
 WHERE bytes <= $4
 ORDER BY seq DESC;

-- name: Unsent
-- Of the $3 newest messages that were to leave a thread by its channel, those that have not.
SELECT id, seq, payload, execution_id, created_at
  FROM (SELECT id, seq, payload, execution_id, created_at, status
          FROM outbox
         WHERE workspace_id = $1 AND order_key = 'thread:' || $2
         ORDER BY seq DESC
         LIMIT $3) o
 WHERE status IN ('queued', 'ready', 'sending', 'failed', 'uncertain', 'dead')
 ORDER BY seq DESC;

-- name: Address
SELECT id, metadata FROM threads WHERE workspace_id = $1 AND channel = $2 AND address = $3;

-- name: Forget
DELETE FROM messages WHERE workspace_id = $1 AND thread_id = $2 AND execution_id = $3;
