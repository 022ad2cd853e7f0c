-- name: Become
UPDATE outbox SET status = $3,
       claim_token = CASE WHEN $4 THEN id END, claimed_until = CASE WHEN $4 THEN lk_now() END,
       sent_at = CASE WHEN $5 THEN lk_now() END, due_at = lk_now()
 WHERE workspace_id = $1 AND id = $2;
