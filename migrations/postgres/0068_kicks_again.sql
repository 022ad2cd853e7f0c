-- A kick that is wanted again while its handler works stays due when the handler ends it: it is handled
-- again, with all its attempts.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_outbox_end(
  p_workspace uuid, p_id uuid, p_token uuid, p_status text, p_delay_ms bigint, p_uncounted integer, p_error text
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE outbox o SET
    status = CASE WHEN o.due_again AND o.kind = 'kick' AND p_status IN ('sent', 'failed') THEN 'ready' ELSE p_status END,
    attempts = CASE WHEN o.due_again AND o.kind = 'kick' AND p_status IN ('sent', 'failed') THEN 0 ELSE greatest(0, o.attempts - p_uncounted) END,
    due_at = CASE WHEN o.due_again THEN lk_now() ELSE lk_plus(lk_now(), p_delay_ms) END, due_again = false,
    claim_token = NULL, claimed_until = NULL, last_error = coalesce(p_error, o.last_error),
    sent_at = CASE WHEN p_status = 'sent' AND NOT (o.due_again AND o.kind = 'kick') THEN lk_now() END, updated_at = lk_now()
   WHERE o.workspace_id = p_workspace AND o.id = p_id AND o.claim_token = p_token;
  IF NOT FOUND THEN
    RAISE no_data_found USING MESSAGE = 'the claim is over';
  END IF;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_outbox_end(uuid, uuid, uuid, text, bigint, integer, text) SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_outbox_end(
  p_workspace uuid, p_id uuid, p_token uuid, p_status text, p_delay_ms bigint, p_uncounted integer, p_error text
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE outbox o SET
    status = p_status, attempts = o.attempts - p_uncounted,
    due_at = CASE WHEN o.due_again THEN lk_now() ELSE lk_plus(lk_now(), p_delay_ms) END, due_again = false,
    claim_token = NULL, claimed_until = NULL, last_error = coalesce(p_error, o.last_error),
    sent_at = CASE WHEN p_status = 'sent' THEN lk_now() END, updated_at = lk_now()
   WHERE o.workspace_id = p_workspace AND o.id = p_id AND o.claim_token = p_token;
  IF NOT FOUND THEN
    RAISE no_data_found USING MESSAGE = 'the claim is over';
  END IF;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_outbox_end(uuid, uuid, uuid, text, bigint, integer, text) SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd
