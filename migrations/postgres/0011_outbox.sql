-- What leaves, or is to be done next: messages, webhooks, spawns and kicks, each
-- written in the transaction of the change it belongs to and sent afterwards.

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE TABLE outbox (
  workspace_id  uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id            uuid NOT NULL,
  kind          text NOT NULL CHECK (kind IN ('message', 'webhook', 'spawn', 'kick')),
  topic         text NOT NULL CHECK (length(topic) BETWEEN 1 AND 64), -- what handles it
  key           text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),  -- of its effect, which happens once under it
  order_key     text CHECK (length(order_key) BETWEEN 1 AND 255),     -- rows of one go one after the other, by seq
  seq           bigint CHECK (seq > 0),
  payload       jsonb NOT NULL,
  format        smallint NOT NULL DEFAULT 1,
  status        text NOT NULL DEFAULT 'ready'
                CHECK (status IN ('queued', 'ready', 'sending', 'sent', 'failed', 'superseded', 'expired', 'uncertain', 'dead')),
  attempts      integer NOT NULL DEFAULT 0, -- counted before the work starts
  max_attempts  integer NOT NULL CHECK (max_attempts > 0),
  due_at        timestamptz NOT NULL,       -- while it is being sent: when the claim ends
  claimed_by    text,
  claim_token   uuid,                       -- the proof of the claim
  claimed_until timestamptz,
  last_error    text,
  supersede_key text CHECK (length(supersede_key) BETWEEN 1 AND 255),
  expires_at    timestamptz,
  trace_id      text NOT NULL,
  execution_id  uuid,
  created_at    timestamptz NOT NULL,
  updated_at    timestamptz NOT NULL,
  sent_at       timestamptz,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, key),
  CHECK ((order_key IS NULL) = (seq IS NULL)),
  CHECK ((status = 'sending') = (claim_token IS NOT NULL)),
  CHECK ((status = 'sending') = (claimed_until IS NOT NULL)),
  CHECK ((status = 'sent') = (sent_at IS NOT NULL))
);
CREATE UNIQUE INDEX outbox_order ON outbox (workspace_id, order_key, seq) WHERE order_key IS NOT NULL;
-- One of an order key is in flight at most, whoever sends.
CREATE UNIQUE INDEX outbox_in_flight ON outbox (workspace_id, order_key) WHERE status = 'sending' AND order_key IS NOT NULL;
-- Claims go along this one, and see nothing of what is done.
CREATE INDEX outbox_due ON outbox (workspace_id, topic, due_at, id) WHERE status IN ('ready', 'sending');
CREATE INDEX outbox_open ON outbox (workspace_id, order_key, seq) WHERE order_key IS NOT NULL AND status IN ('queued', 'ready', 'sending');
CREATE INDEX outbox_supersede ON outbox (workspace_id, supersede_key) WHERE supersede_key IS NOT NULL AND status IN ('queued', 'ready');
CREATE INDEX outbox_newest ON outbox (workspace_id, created_at DESC, id DESC);
CALL lk_protect('outbox');

-- lk_outbox_end ends a claim, and proves it by its token: a claim that is over
-- raises no_data_found, which undoes the transaction.
-- +goose StatementBegin
CREATE FUNCTION lk_outbox_end(
  p_workspace uuid, p_id uuid, p_token uuid, p_status text, p_delay_ms bigint, p_uncounted integer, p_error text
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE outbox o SET
    status = p_status, attempts = o.attempts - p_uncounted, due_at = lk_plus(lk_now(), p_delay_ms),
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
  REVOKE ALL ON FUNCTION lk_outbox_end(uuid, uuid, uuid, text, bigint, integer, text) FROM PUBLIC;
  GRANT EXECUTE ON FUNCTION lk_outbox_end(uuid, uuid, uuid, text, bigint, integer, text) TO lanekeeper_app;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION lk_outbox_end(uuid, uuid, uuid, text, bigint, integer, text);
DROP TABLE outbox;
