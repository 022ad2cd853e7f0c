-- Memories are found by their words, and a person's change is one of the version
-- that was read.
--
-- The index keeps no texts. A row of it is found by its workspace and key, which are
-- words of it, and not by a rowid of agent_memory, which VACUUM may change. Letters,
-- digits and marks make words; accents count, as they do on Postgres.

-- +goose Up
ALTER TABLE agent_memory ADD COLUMN version INTEGER NOT NULL DEFAULT 1 CHECK (version > 0); -- counts changes
CREATE INDEX agent_memory_relevant ON agent_memory (workspace_id, agent, importance DESC, created_at DESC, id DESC);

CREATE VIRTUAL TABLE agent_memory_words USING fts5 (
  workspace, key, content, id UNINDEXED,
  content = '', contentless_delete = 1, contentless_unindexed = 1,
  tokenize = "unicode61 remove_diacritics 0 categories 'L* N* M*'"
);
INSERT INTO agent_memory_words (workspace, key, content, id)
SELECT replace(workspace_id, '-', ''), replace(id, '-', ''), content, id FROM agent_memory ORDER BY created_at, id;

-- +goose StatementBegin
CREATE TRIGGER agent_memory_found_added AFTER INSERT ON agent_memory BEGIN
  INSERT INTO agent_memory_words (workspace, key, content, id)
  VALUES (replace(new.workspace_id, '-', ''), replace(new.id, '-', ''), new.content, new.id);
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER agent_memory_reworded AFTER UPDATE OF content ON agent_memory WHEN old.content <> new.content BEGIN
  DELETE FROM agent_memory_words WHERE rowid IN (
    SELECT rowid FROM agent_memory_words
     WHERE agent_memory_words MATCH 'workspace:"' || replace(old.workspace_id, '-', '') || '" AND key:"' || replace(old.id, '-', '') || '"');
  INSERT INTO agent_memory_words (workspace, key, content, id)
  VALUES (replace(new.workspace_id, '-', ''), replace(new.id, '-', ''), new.content, new.id);
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER agent_memory_found_deleted AFTER DELETE ON agent_memory BEGIN
  DELETE FROM agent_memory_words WHERE rowid IN (
    SELECT rowid FROM agent_memory_words
     WHERE agent_memory_words MATCH 'workspace:"' || replace(old.workspace_id, '-', '') || '" AND key:"' || replace(old.id, '-', '') || '"');
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER agent_memory_found_deleted;
DROP TRIGGER agent_memory_reworded;
DROP TRIGGER agent_memory_found_added;
DROP TABLE agent_memory_words;
DROP TABLE IF EXISTS agent_memory_words_content; -- SQLite 3.53 leaves it behind
DROP INDEX agent_memory_relevant;
ALTER TABLE agent_memory DROP COLUMN version;
