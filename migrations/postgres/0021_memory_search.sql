-- Memories are found by their words, and a person's change is one of the version
-- that was read.
--
-- The configuration is simple: memories are in any language, so no stems are made,
-- no word counts for nothing, and accents count. Punctuation becomes spaces before
-- the parser sees it, or it would keep addresses, numbers with signs and paths whole,
-- which a part of them would not find.

-- +goose Up
SET LOCAL lock_timeout = '10s';

CREATE FUNCTION lk_plain(p_text text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT translate(lower(p_text), '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~¡§«·»¿‐‑‒–—―‘’‚‛“”„‟†•‹›…、。〈〉《》「」『』【】・！（），．：；？～،؛؟।' || chr(160) || chr(12288),
                   repeat(' ', 200))
$$;

-- The workspace is a word too, that no text has: of a word which others use as well
-- no row of theirs is read.
ALTER TABLE agent_memory
  ADD COLUMN version integer NOT NULL DEFAULT 1 CHECK (version > 0), -- counts changes
  ADD COLUMN words tsvector NOT NULL
    GENERATED ALWAYS AS (array_to_tsvector(ARRAY[workspace_id::text]) || to_tsvector('simple', lk_plain(content))) STORED;
-- Without the list of what is pending, which each search would have to read.
CREATE INDEX agent_memory_words ON agent_memory USING gin (words) WITH (fastupdate = off);
CREATE INDEX agent_memory_relevant ON agent_memory (workspace_id, agent, importance DESC, created_at DESC, id DESC);

-- lk_search_memory finds the memories of the transaction's workspace that have all
-- words, the last of them as a beginning where p_prefix says so: best first, then by
-- importance and age. It reads 10,000 that match at most. It runs with its owner's
-- rights: the operator of the index is not leakproof, so that under row-level security
-- the index would never be used. Where the transaction has no workspace there is
-- nothing to find.
-- +goose StatementBegin
CREATE FUNCTION lk_search_memory(
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
DECLARE f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['lk_plain(text)', 'lk_search_memory(text, boolean, text, text, bigint, boolean, bigint, bigint)']::regprocedure[]
  LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO lanekeeper_app', f);
  END LOOP;
  EXECUTE format('ALTER FUNCTION lk_search_memory(text, boolean, text, text, bigint, boolean, bigint, bigint) SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION lk_search_memory(text, boolean, text, text, bigint, boolean, bigint, bigint);
DROP INDEX agent_memory_relevant;
DROP INDEX agent_memory_words;
ALTER TABLE agent_memory DROP COLUMN words, DROP COLUMN version;
DROP FUNCTION lk_plain(text);
