-- A word that a workspace's id begins with no longer finds all memories of the workspace.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_search_memory(
  p_words text, p_prefix boolean, p_agent text, p_category text, p_importance bigint, p_expired boolean, p_limit bigint, p_offset bigint
) RETURNS TABLE (id uuid, place bigint) LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 50
SET enable_seqscan = off SET enable_indexscan = off -- whatever is guessed of the words: along their index
AS $$
DECLARE
  space uuid := nullif(current_setting('app.workspace_id', true), '')::uuid;
  quoted text := replace(btrim(regexp_replace(lk_plain(p_words), '\s+', ' ', 'g')), ' ', ''' & ''');
  last text := regexp_replace(btrim(regexp_replace(lk_plain(p_words), '\s+', ' ', 'g')), '^.* ', '');
  terms tsquery;
BEGIN
  IF space IS NULL OR coalesce(quoted, '') = '' THEN
    RETURN;
  END IF;
  terms := to_tsquery('simple', '''' || quoted || '''' || CASE WHEN p_prefix THEN ':*' ELSE '' END);
  IF numnode(terms) = 0 THEN
    RETURN;
  END IF;
  RETURN QUERY
  SELECT f.id, row_number() OVER (ORDER BY f.rank DESC, f.importance DESC, f.created_at DESC, f.id DESC)
    FROM (SELECT m.id, m.workspace_id, m.importance, m.created_at, ts_rank(m.words, terms, 1) AS rank
            FROM agent_memory m
           WHERE m.words @@ (('''' || space || '''')::tsquery && terms)
             AND (p_agent IS NULL OR m.agent = p_agent)
             AND (p_category IS NULL OR m.category = p_category)
             AND m.importance >= p_importance
             -- The workspace is no word of a text, though the last word may be its beginning.
             AND (NOT p_prefix OR NOT starts_with(space::text, last) OR to_tsvector('simple', lk_plain(m.content)) @@ terms)
             AND (p_expired OR m.expires_at IS NULL OR m.expires_at > (SELECT lk_now()))
           LIMIT 10000) f
   WHERE f.workspace_id = space
   ORDER BY 2
   LIMIT p_limit OFFSET p_offset;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_search_memory(text, boolean, text, text, bigint, boolean, bigint, bigint) SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_search_memory(
  p_words text, p_prefix boolean, p_agent text, p_category text, p_importance bigint, p_expired boolean, p_limit bigint, p_offset bigint
) RETURNS TABLE (id uuid, place bigint) LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 50
SET enable_seqscan = off SET enable_indexscan = off -- whatever is guessed of the words: along their index
AS $$
DECLARE
  space uuid := nullif(current_setting('app.workspace_id', true), '')::uuid;
  quoted text := replace(btrim(regexp_replace(lk_plain(p_words), '\s+', ' ', 'g')), ' ', ''' & ''');
  terms tsquery;
BEGIN
  IF space IS NULL OR coalesce(quoted, '') = '' THEN
    RETURN;
  END IF;
  terms := to_tsquery('simple', '''' || quoted || '''' || CASE WHEN p_prefix THEN ':*' ELSE '' END);
  IF numnode(terms) = 0 THEN
    RETURN;
  END IF;
  RETURN QUERY
  SELECT f.id, row_number() OVER (ORDER BY f.rank DESC, f.importance DESC, f.created_at DESC, f.id DESC)
    FROM (SELECT m.id, m.workspace_id, m.importance, m.created_at, ts_rank(m.words, terms, 1) AS rank
            FROM agent_memory m
           WHERE m.words @@ (('''' || space || '''')::tsquery && terms)
             AND (p_agent IS NULL OR m.agent = p_agent)
             AND (p_category IS NULL OR m.category = p_category)
             AND m.importance >= p_importance
             AND (p_expired OR m.expires_at IS NULL OR m.expires_at > (SELECT lk_now()))
           LIMIT 10000) f
   WHERE f.workspace_id = space
   ORDER BY 2
   LIMIT p_limit OFFSET p_offset;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_search_memory(text, boolean, text, text, bigint, boolean, bigint, bigint) SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd
