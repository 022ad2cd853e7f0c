package migrations_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// fixtures are values for columns whose checks the builder below can't satisfy: "table.column" and
// a SQL expression.
var fixtures = map[string]string{
	"agent_automations.event":      "'x'",
	"api_keys.hash":                "sha256(gen_random_uuid()::text::bytea)",
	"api_keys.kind":                "'site'",
	"agent_automations.event_xid":  "0",
	"agent_automations.event_id":   "0",
	"coordinator_commands.command": "'recover'",
	"inbox.digest":                 "encode(sha256('x'), 'hex')",
	"kill_switches.scope":          "'agent'",
	"kill_switches.target":         "'x' || gen_random_uuid()",
	"usage_budgets.period_end":     "lk_now() + interval '1 day'",

	"agent_skills.name": "'x' || replace(gen_random_uuid()::text, '-', '')",
	"workspaces.slug":   "'ws-' || gen_random_uuid()",
}

// builder makes one row of every table. Required values come from the column's type, from its
// closed set, or from the row that it references.
type builder struct {
	conn   *pgx.Conn
	tables map[string]*blueprint
	order  []string // referenced tables first
}

type blueprint struct {
	columns    []string          // the required ones
	values     map[string]string // SQL by column
	references []reference
}

type reference struct {
	from, to []string
	table    string
	optional bool
}

func newBuilder(t testing.TB, conn *pgx.Conn) *builder {
	t.Helper()
	b := &builder{conn: conn, tables: map[string]*blueprint{}}
	sets := closedSets(t, conn)
	each(t, conn, `SELECT c.table_name, c.column_name, c.data_type, coalesce(c.character_maximum_length, 0)
		FROM information_schema.columns c JOIN information_schema.tables USING (table_schema, table_name)
		WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'`, func(rows pgx.Rows) error {
		var name, col, kind string
		var limit int
		err := rows.Scan(&name, &col, &kind, &limit)
		if !slices.Contains(notOfTheSchema, name) && b.tables[name] == nil {
			b.tables[name] = &blueprint{values: map[string]string{}}
		}
		return err
	})
	each(t, conn, `SELECT table_name, column_name, data_type FROM information_schema.columns
		WHERE table_schema = current_schema() AND is_generated = 'NEVER' AND is_identity = 'NO'
		  AND (is_nullable = 'NO' AND column_default IS NULL OR table_name || '.' || column_name IN ('`+strings.Join(slices.Collect(maps.Keys(fixtures)), "', '")+`'))
		ORDER BY table_name, ordinal_position`, func(rows pgx.Rows) error {
		var name, col, kind string
		if err := rows.Scan(&name, &col, &kind); err != nil || b.tables[name] == nil {
			return err
		}
		bp := b.tables[name]
		bp.columns = append(bp.columns, col)
		bp.values[col] = valueOf(t, name+"."+col, kind, sets[name+"."+col])
		return nil
	})
	each(t, conn, `SELECT c.conrelid::regclass::text, c.confrelid::regclass::text,
			(SELECT array_agg(attname ORDER BY n) FROM unnest(c.conkey) WITH ORDINALITY k (num, n) JOIN pg_attribute ON attrelid = c.conrelid AND attnum = num)::text[],
			(SELECT array_agg(attname ORDER BY n) FROM unnest(c.confkey) WITH ORDINALITY k (num, n) JOIN pg_attribute ON attrelid = c.confrelid AND attnum = num)::text[],
			EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.conrelid AND attnum = ANY (c.conkey) AND NOT attnotnull)
		FROM pg_constraint c WHERE c.contype = 'f' AND c.connamespace = current_schema()::regnamespace`, func(rows pgx.Rows) error {
		var name string
		var r reference
		err := rows.Scan(&name, &r.table, &r.from, &r.to, &r.optional)
		if bp := b.tables[name]; bp != nil && !r.optional {
			bp.references = append(bp.references, r)
		}
		return err
	})
	for _, name := range slices.Sorted(maps.Keys(b.tables)) {
		b.visit(name)
	}
	return b
}

// visit puts the referenced tables before a table.
func (b *builder) visit(name string) {
	if slices.Contains(b.order, name) {
		return
	}
	for _, r := range b.tables[name].references {
		if r.table != name {
			b.visit(r.table)
		}
	}
	b.order = append(b.order, name)
}

func valueOf(t testing.TB, name, kind string, set []string) string {
	t.Helper()
	if v, ok := fixtures[name]; ok {
		return v
	}
	if len(set) > 0 {
		return set[0]
	}
	switch kind {
	case "uuid":
		return "gen_random_uuid()"
	case "text", "character varying":
		return "'x-' || gen_random_uuid()"
	case "jsonb":
		return "'{}'"
	case "timestamp with time zone":
		return "lk_now()"
	case "bigint", "integer", "smallint", "numeric", "double precision":
		return "1"
	case "boolean":
		return "false"
	case "bytea":
		return `'\x00'`
	}
	t.Errorf("%s is of type %s: give it a value in fixtures", name, kind)
	return "NULL"
}

var closedSet = regexp.MustCompile(`\((\w+) = ANY \(ARRAY\[(.*?)\]\)`)

// closedSets returns the literals that checks allow, by "table.column".
func closedSets(t testing.TB, conn *pgx.Conn) map[string][]string {
	t.Helper()
	sets := map[string][]string{}
	each(t, conn, `SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
		WHERE contype = 'c' AND connamespace = current_schema()::regnamespace`, func(rows pgx.Rows) error {
		var name, def string
		err := rows.Scan(&name, &def)
		if m := closedSet.FindStringSubmatch(def); m != nil {
			sets[name+"."+m[1]] = literal.FindAllString(m[2], -1)
		}
		return err
	})
	return sets
}

// insert returns the statement that adds a workspace's row to a table. The row references the
// workspace's rows of other tables.
func (b *builder) insert(name string, ws uuid.UUID) string {
	bp := b.tables[name]
	values := maps.Clone(bp.values)
	if _, ok := values["workspace_id"]; ok {
		values["workspace_id"] = fmt.Sprintf("'%s'", ws)
	} else if name == "workspaces" {
		values["id"] = fmt.Sprintf("'%s'", ws)
	}
	used := map[string]int{} // rows of a table that this row references already
	for _, r := range bp.references {
		for i, col := range r.from {
			if col == "workspace_id" {
				continue
			}
			values[col] = fmt.Sprintf("(SELECT %s FROM %s %s ORDER BY 1 LIMIT 1 OFFSET %d)", r.to[i], r.table, b.where(r.table, ws), used[r.table])
		}
		used[r.table]++
	}
	list := make([]string, len(bp.columns))
	for i, col := range bp.columns {
		list[i] = values[col]
	}
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", name, strings.Join(bp.columns, ", "), strings.Join(list, ", "))
}

func (b *builder) where(name string, ws uuid.UUID) string {
	if _, ok := b.tables[name].values["workspace_id"]; ok {
		return fmt.Sprintf("WHERE workspace_id = '%s'", ws)
	}
	return ""
}

// fill adds a row of the workspace to every table, as the owner, and a second one where a row of
// another table references two.
func (b *builder) fill(t testing.TB, ws uuid.UUID) {
	t.Helper()
	for _, name := range b.order {
		for range b.needed(name) {
			if _, err := b.conn.Exec(context.Background(), b.insert(name, ws)); err != nil {
				t.Fatalf("a row of %s: %v\nIf a check refuses it, give the column a value in fixtures", name, err)
			}
		}
	}
}

// needed returns how many rows of a table a row of another table references at most, at least one.
func (b *builder) needed(name string) int {
	most := 1
	for _, bp := range b.tables {
		n := 0
		for _, r := range bp.references {
			if r.table == name && r.table != "workspaces" {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
