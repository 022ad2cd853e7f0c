package migrations_test

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A schema describes the schema of either engine in one common form.
type schema map[string]table

type table struct {
	columns map[string]column
	primary string
	// As text for comparison: "workspace_id, id", "executions_slot unique (workspace_id, surface,
	// slot) where slot", "workspace_id → workspaces (id) on delete cascade", "status: 'active'
	// 'paused'".
	uniques, indexes, references, checks []string
}

type column struct {
	kind      string // in SQLite's type names
	nullable  bool
	generated bool
	dflt      string
	json      bool
	boolean   bool
}

// kinds maps the types of Postgres to those of SQLite.
var kinds = map[string]string{
	"uuid": "TEXT", "text": "TEXT", "jsonb": "TEXT",
	"timestamp with time zone": "INTEGER", "bigint": "INTEGER", "integer": "INTEGER", "smallint": "INTEGER", "boolean": "INTEGER",
	"numeric": "REAL", "double precision": "REAL",
	"bytea": "BLOB",
}

// tidy sorts lists without a natural order.
func (s schema) tidy() schema {
	for _, t := range s {
		for _, list := range [][]string{t.uniques, t.indexes, t.references, t.checks} {
			slices.Sort(list)
		}
	}
	return s
}

var (
	literal    = regexp.MustCompile(`'[^']*'`)
	number     = regexp.MustCompile(`\b\d+\b`)
	identifier = regexp.MustCompile(`[a-z_][a-z0-9_]*`)
	cast       = regexp.MustCompile(`::[a-z ]+(\[\])?`)
)

// essence returns the part of a condition that does not depend on the engine: its columns, texts
// and numbers.
func essence(condition string, columns map[string]column) string {
	condition = cast.ReplaceAllString(condition, "")
	texts := slices.Compact(slices.Sorted(slices.Values(literal.FindAllString(condition, -1))))
	rest := literal.ReplaceAllString(condition, "")
	var about []string
	for _, word := range identifier.FindAllString(rest, -1) {
		if _, ok := columns[word]; ok {
			about = append(about, word)
		}
	}
	slices.Sort(about)
	numbers := slices.Compact(slices.Sorted(slices.Values(number.FindAllString(rest, -1))))
	return strings.Join(slices.Compact(about), " ") + ": " + strings.Join(append(texts, numbers...), " ")
}

func defaultOf(text string) string {
	text = strings.Trim(cast.ReplaceAllString(strings.ToLower(text), ""), "()")
	switch text {
	case "false":
		return "0"
	case "true":
		return "1"
	case "lk_now", "lk_now()":
		return "lk_now"
	case "pg_current_xact_id": // all are one, with one writer
		return "0"
	}
	return text
}

func indexText(name string, unique bool, columns, where string) string {
	if unique {
		name += " unique"
	}
	name += " (" + columns + ")"
	if where != "" {
		name += " where " + where
	}
	return name
}

func postgresSchema(t testing.TB, conn *pgx.Conn) schema {
	t.Helper()
	s := schema{}
	each(t, conn, `SELECT c.table_name, c.column_name, c.data_type, c.is_nullable = 'YES', c.is_generated = 'ALWAYS', coalesce(c.column_default, '')
		FROM information_schema.columns c JOIN information_schema.tables USING (table_schema, table_name)
		WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' AND data_type <> 'tsvector'`, func(rows pgx.Rows) error { // SQLite uses a virtual table
		var name, col, kind, dflt string
		var c column
		if err := rows.Scan(&name, &col, &kind, &c.nullable, &c.generated, &dflt); err != nil || slices.Contains(notOfTheSchema, name) {
			return err
		}
		if c.kind = kinds[kind]; c.kind == "" {
			t.Errorf("%s.%s is of type %s: say in kinds what holds it on SQLite", name, col, kind)
		}
		c.json, c.boolean, c.dflt = kind == "jsonb", kind == "boolean", defaultOf(dflt)
		if s[name].columns == nil {
			s[name] = table{columns: map[string]column{}}
		}
		s[name].columns[col] = c
		return nil
	})
	each(t, conn, `SELECT t.relname, i.relname, x.indisprimary, x.indisunique, coalesce(pg_get_expr(x.indpred, x.indrelid), ''),
			coalesce((SELECT contype = 'u' FROM pg_constraint WHERE conindid = i.oid AND contype = 'u'), false),
			(SELECT string_agg(CASE x.indkey[k - 1] WHEN 0 THEN '(an expression)' ELSE pg_get_indexdef(i.oid, k, true) END || CASE WHEN x.indoption[k - 1] & 1 = 1 THEN ' DESC' ELSE '' END, ', ' ORDER BY k)
			   FROM generate_series(1, x.indnkeyatts) k)
		FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
		WHERE t.relnamespace = current_schema()::regnamespace AND i.relam = (SELECT oid FROM pg_am WHERE amname = 'btree')`, func(rows pgx.Rows) error {
		var name, index, where, columns string
		var primary, unique, constraint bool
		if err := rows.Scan(&name, &index, &primary, &unique, &where, &constraint, &columns); err != nil || slices.Contains(notOfTheSchema, name) {
			return err
		}
		tab := s[name]
		switch {
		case primary:
			tab.primary = columns
		case constraint:
			tab.uniques = append(tab.uniques, columns)
		default:
			if where != "" {
				where = essence(where, tab.columns)
			}
			tab.indexes = append(tab.indexes, indexText(index, unique, columns, where))
		}
		s[name] = tab
		return nil
	})
	each(t, conn, `SELECT c.conrelid::regclass::text, c.contype::text, pg_get_constraintdef(c.oid) FROM pg_constraint c
		WHERE c.connamespace = current_schema()::regnamespace AND c.contype IN ('c', 'f')`, func(rows pgx.Rows) error {
		var name, kind, def string
		if err := rows.Scan(&name, &kind, &def); err != nil || slices.Contains(notOfTheSchema, name) {
			return err
		}
		tab := s[name]
		if kind == "f" {
			m := foreignKey.FindStringSubmatch(def)
			if m == nil {
				return fmt.Errorf("%s: a foreign key that can't be read: %s", name, def)
			}
			tab.references = append(tab.references, fmt.Sprintf("%s → %s (%s) on delete %s", m[1], m[2], m[3], strings.ToLower(cmp.Or(m[4], "no action"))))
		} else {
			tab.checks = append(tab.checks, essence(def, tab.columns))
		}
		s[name] = tab
		return nil
	})
	return s.tidy()
}

var foreignKey = regexp.MustCompile(`^FOREIGN KEY \((.*?)\) REFERENCES (\w+)\((.*?)\)(?: ON DELETE ([A-Z ]+?))?(?: DEFERRABLE.*)?$`)

func each(t testing.TB, conn *pgx.Conn, query string, row func(pgx.Rows) error) {
	t.Helper()
	rows, err := conn.Query(t.Context(), query)
	if err == nil {
		for rows.Next() && err == nil {
			err = row(rows)
		}
		rows.Close()
	}
	if err == nil {
		err = rows.Err()
	}
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func sqliteSchema(t testing.TB, pool *sql.DB) schema {
	t.Helper()
	s, texts := schema{}, map[string]string{}
	ask(t, pool, `SELECT m.name, m.sql, l.strict FROM sqlite_master m JOIN pragma_table_list l ON l.name = m.name WHERE m.type = 'table' AND l.type = 'table'`, // neither virtual, nor the shadow of a virtual table
		func(rows *sql.Rows) error {
			var name, text string
			var strict bool
			if err := rows.Scan(&name, &text, &strict); err != nil || slices.Contains(notOfTheSchema, name) {
				return err
			}
			if !strict {
				t.Errorf("%s is not STRICT", name)
			}
			s[name], texts[name] = table{columns: map[string]column{}}, text
			return nil
		})
	for name, tab := range s {
		checks := checksOf(texts[name])
		var primary []string
		ask(t, pool, `SELECT name, type, "notnull", coalesce(dflt_value, ''), pk, hidden FROM pragma_table_xinfo($1) ORDER BY pk`, func(rows *sql.Rows) error {
			var col, dflt string
			var c column
			var notNull bool
			var pk, hidden int
			if err := rows.Scan(&col, &c.kind, &notNull, &dflt, &pk, &hidden); err != nil {
				return err
			}
			c.nullable, c.generated, c.dflt = !notNull && pk == 0, hidden > 1, defaultOf(dflt)
			c.json = slices.Contains(checks, "json_valid("+col+")")
			c.boolean = slices.Contains(checks, col+" IN (0, 1)")
			if pk > 0 {
				primary = append(primary, col)
			}
			tab.columns[col] = c
			return nil
		}, name)
		tab.primary = strings.Join(primary, ", ")
		for _, check := range checks {
			if !strings.HasPrefix(check, "json_valid(") && !strings.HasSuffix(check, " IN (0, 1)") {
				tab.checks = append(tab.checks, essence(check, tab.columns))
			}
		}
		s[name] = tab
	}
	for name, tab := range s {
		ask(t, pool, `SELECT l.name, l."unique", l.origin, coalesce(m.sql, ''),
				(SELECT group_concat(coalesce(name, '(an expression)') || CASE "desc" WHEN 1 THEN ' DESC' ELSE '' END, ', ' ORDER BY seqno) FROM pragma_index_xinfo(l.name) WHERE key = 1)
			FROM pragma_index_list($1) l LEFT JOIN sqlite_master m ON m.name = l.name`, func(rows *sql.Rows) error {
			var index, origin, text, columns string
			var unique bool
			if err := rows.Scan(&index, &unique, &origin, &text, &columns); err != nil {
				return err
			}
			switch origin {
			case "u":
				tab.uniques = append(tab.uniques, columns)
			case "c":
				_, where, _ := strings.Cut(strings.Join(strings.Fields(text), " "), " WHERE ")
				if where != "" {
					where = essence(where, tab.columns)
				}
				tab.indexes = append(tab.indexes, indexText(index, unique, columns, where))
			}
			return nil
		}, name)
		ask(t, pool, `SELECT group_concat("from", ', ' ORDER BY seq), "table", group_concat("to", ', ' ORDER BY seq), on_delete
			FROM pragma_foreign_key_list($1) GROUP BY id`, func(rows *sql.Rows) error {
			var from, other, to, action string
			if err := rows.Scan(&from, &other, &to, &action); err != nil {
				return err
			}
			tab.references = append(tab.references, fmt.Sprintf("%s → %s (%s) on delete %s", from, other, to, strings.ToLower(action)))
			return nil
		}, name)
		s[name] = tab
	}
	return s.tidy()
}

// checksOf returns the conditions of a table's CHECKs.
func checksOf(text string) (checks []string) {
	for {
		_, rest, found := strings.Cut(text, "CHECK (")
		if !found {
			return checks
		}
		depth, end := 1, 0
		for ; depth > 0 && end < len(rest); end++ {
			switch rest[end] {
			case '(':
				depth++
			case ')':
				depth--
			}
		}
		checks = append(checks, strings.Join(strings.Fields(rest[:end-1]), " "))
		text = rest[end:]
	}
}

func ask(t testing.TB, pool *sql.DB, query string, row func(*sql.Rows) error, args ...any) {
	t.Helper()
	rows, err := pool.QueryContext(context.Background(), query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// TestEveryReferenceHasAnIndex: else the deletion of a row has Postgres read all rows that might refer to it. A column
// that is always true needs none.
func TestEveryReferenceHasAnIndex(t *testing.T) {
	rows, err := shared(t).Query(t.Context(), `
		SELECT c.conrelid::regclass || '.' || c.conname FROM pg_constraint c
		 WHERE c.contype = 'f' AND NOT EXISTS (
		   SELECT FROM pg_index i
		    WHERE i.indrelid = c.conrelid AND i.indisvalid
		      AND (i.indpred IS NULL OR pg_get_expr(i.indpred, i.indrelid) ~ '^\(\w+ IS NOT NULL\)$')
		      AND (i.indkey::int2[])[0:cardinality(c.conkey) - 1] @> array_remove(c.conkey, (
		         SELECT a.attnum FROM pg_attribute a WHERE a.attrelid = c.conrelid AND a.attname = 'workspace_open')))`)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range collected(t, rows) {
		t.Errorf("%s has no index", name)
	}
}

// TestWhatAStepUsesIsInNoIndex: a column that is written at each step would cost an entry in every index each time.
func TestWhatAStepUsesIsInNoIndex(t *testing.T) {
	rows, err := shared(t).Query(t.Context(), `
		SELECT i.indexrelid::regclass::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
		 WHERE i.indrelid = 'executions'::regclass AND a.attname IN ('updated_at', 'prompt_tokens', 'completion_tokens', 'cost_usd')
		   AND (a.attnum = ANY (i.indkey) OR coalesce(pg_get_expr(i.indpred, i.indrelid) ~ a.attname, false))`)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range collected(t, rows) {
		t.Errorf("%s has it", name)
	}
}

func collected(t testing.TB, rows pgx.Rows) []string {
	t.Helper()
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return names
}
