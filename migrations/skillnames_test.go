package migrations_test

import (
	"context"
	"database/sql"
	"io/fs"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
)

// Earlier releases allowed names that differ only in separators. Such skills stay.
func TestSkillsOfBeforeStay(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		_, conn := newPostgres(t)
		pool := stdlib.OpenDB(*conn.Config())
		defer pool.Close()
		skillsStay(t, goose.DialectPostgres, pool, migrations.Postgres())
	})
	t.Run("sqlite", func(t *testing.T) { skillsStay(t, goose.DialectSQLite3, newSQLite(t), migrations.SQLite()) })
}

func skillsStay(t *testing.T, dialect goose.Dialect, pool *sql.DB, files fs.FS) {
	t.Helper()
	p, err := goose.NewProvider(dialect, pool, files,
		goose.WithTableName(migrate.VersionTable), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		t.Fatal(err)
	}
	const names = 39
	if _, err := p.DownTo(t.Context(), names-1); err != nil {
		t.Fatal(err)
	}
	const space = "00000000-0000-7000-8000-00000000005e"
	at := "now()"
	if dialect == goose.DialectSQLite3 {
		at = "1"
	}
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := pool.ExecContext(context.Background(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO workspaces (id, slug, name, created_at, updated_at) VALUES ($1, 'before', 'Before', `+at+`, `+at+`)`, space)
	put := func(id, name string) {
		t.Helper()
		exec(`INSERT INTO agent_skills (workspace_id, id, name, kind, description, parameters, config, scope, effect, requires_approval, serial, created_by, created_at, updated_at)
		      VALUES ($1, $2, $3, 'http', 'd', '{}', '{}', 'both', 'read', $4, $4, 'x', `+at+`, `+at+`)`, space, "00000000-0000-7000-8000-0000000000"+id, name, false)
	}
	put("01", "save_it")
	put("02", "saveit")
	if _, err := p.UpTo(t.Context(), names); err != nil {
		t.Fatal(err)
	}
	put("03", "saveThat")
	exec(`UPDATE agent_skills SET enabled = $1, disabled_by = 'human', disabled_at = `+at+` WHERE name = 'saveit'`, false)
	for query, want := range map[string]int{
		`SELECT count(*) FROM agent_skills WHERE effect = 'read' AND description = 'd' AND name IN ('save_it', 'saveit', 'saveThat')`: 3,
		`SELECT count(*) FROM events WHERE kind = 'skill.disabled' AND workspace_id = '` + space + `'`:                                1,
	} {
		var n int
		if err := pool.QueryRowContext(t.Context(), query).Scan(&n); err != nil || n != want {
			t.Errorf("%s: %d (%v), want %d", query, n, err, want)
		}
	}
}
