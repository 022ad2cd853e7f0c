package migrations_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// unguessable lists the unique keys across workspaces whose values nobody can guess.
var unguessable = map[string]string{
	"api_keys(hash)": "a hash of 32 random bytes",
	"events(id)":     "the database counts it",
}

// A constraint error reveals only own rows. Unique keys apply within a workspace, and references
// stay within it.
func TestNoConstraintTellsOfANeighbour(t *testing.T) {
	conn := shared(t)
	tenants := tenantTables(t, conn)
	n := 0
	each(t, conn, `SELECT i.indrelid::regclass::text,
			(SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = i.indrelid AND attnum = ANY (i.indkey))
		FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
		WHERE i.indisunique AND c.relnamespace = current_schema()::regnamespace`, func(rows pgx.Rows) error {
		var table, columns string
		err := rows.Scan(&table, &columns)
		key := table + "(" + columns + ")"
		if n++; slices.Contains(tenants, table) && unguessable[key] == "" && !slices.Contains(strings.Split(columns, ","), "workspace_id") {
			t.Errorf("%s is unique across workspaces", key)
		}
		return err
	})
	each(t, conn, `SELECT c.conrelid::regclass::text, c.confrelid::regclass::text, EXISTS (
			SELECT FROM unnest(c.conkey, c.confkey) AS k (f, t)
			  JOIN pg_attribute f ON f.attrelid = c.conrelid AND f.attnum = k.f JOIN pg_attribute t ON t.attrelid = c.confrelid AND t.attnum = k.t
			 WHERE f.attname = 'workspace_id' AND t.attname = 'workspace_id')
		FROM pg_constraint c WHERE c.contype = 'f' AND c.connamespace = current_schema()::regnamespace`, func(rows pgx.Rows) error {
		var from, to string
		var within bool
		err := rows.Scan(&from, &to, &within)
		if n++; !slices.Contains(global, to) && !within {
			t.Errorf("%s refers to rows of %s in any workspace", from, to)
		}
		return err
	})
	if n < 50 {
		t.Errorf("only %d constraints", n)
	}
}

// harmless lists functions that read no row of a workspace. It also lists functions that, by
// design, read rows for any caller who knows a secret, before a workspace is known.
var harmless = map[string]string{
	"lk_now": "a clock", "lk_plus": "a sum", "lk_plain": "a text", "lk_schema": "the schema's version", "lk_schema_oldest": "a build's version", "lk_admit": "a build's version", "lk_workspace": "a setting",
	"lk_settled": "a number of a transaction", "lk_begun": "a number of a transaction",
	"lk_enter":       "it chooses the workspace; what a login may enter, the program decides",
	"lk_memberships": "sign-in: where a person belongs", "lk_ensure_user": "users are global", "lk_bind_user": "users are global",
	"lk_sign_in": "users are global", "lk_end_sessions": "users are global", "lk_api_key": "sign-in: it takes the hash of the key",
	"lk_webhook_source":      "the world addresses a source by a public name; its secret is sealed",
	"lk_workspaces_unserved": "ids of workspaces, which are global", "lk_workspaces_due": "ids of workspaces, which are global",
}

// probes call the other functions with values of a neighbor: its workspace, lane, token, outbox
// row, word.
var probes = map[string]string{
	"lk_lane_acquire":        "SELECT acquired, locked_by FROM lk_lane_acquire('{ws}', '{lane}', gen_random_uuid(), 'us', 60000, NULL, NULL)",
	"lk_lane_renew":          "SELECT * FROM lk_lane_renew('{ws}', '{lane}', '{token}', 60000)",
	"lk_lane_release":        "SELECT lk_lane_release('{ws}', '{lane}', '{token}')",
	"acquire_agent_lane":     "SELECT acquired, locked_by FROM acquire_agent_lane('{lane}', 'us')",
	"try_acquire_agent_lock": "SELECT try_acquire_agent_lock('{lane}', 'us')",
	"renew_agent_lane":       "SELECT renew_agent_lane('{lane}', '{token}')",
	"release_agent_lane":     "SELECT release_agent_lane('{lane}', '{token}')",
	"lk_outbox_end":          "SELECT lk_outbox_end('{ws}', '{outbox}', '{token}', 'sent', 0, 0, NULL)",
	"lk_purge_activity":      "SELECT lk_purge_activity(86400000)",
	"lk_purge_events":        "SELECT lk_purge_events(86400000)",
	"lk_purge_task_logs":     "SELECT lk_purge_task_logs(86400000)",
	"lk_purge_usage":         "SELECT lk_purge_usage(8 * 86400000)",
	"lk_erase":               "SELECT lk_erase(2000)",
	"lk_gauges":              "SELECT * FROM lk_gauges() WHERE name NOT LIKE '%lag_ms'", // which grow as time passes
	"lk_search_memory":       "SELECT place FROM lk_search_memory('{word}', true, NULL, NULL, 0, true, 10, 0)",
}

// A function answers the same for a neighbor's values as for values that nobody has, and changes no
// row of the neighbor. A new function must be covered here.
func TestNoFunctionTellsOfANeighbour(t *testing.T) {
	dsn, owner := newPostgres(t)
	b := newBuilder(t, owner)
	spaces := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
	token := uuid.NewString() // of what each workspace holds
	for _, ws := range spaces {
		b.fill(t, ws)
	}
	for _, sql := range []string{
		fmt.Sprintf("UPDATE agent_locks SET token = '%s', lane = 'of-' || workspace_id, expires_at = lk_now() + interval '1 hour'", token),
		fmt.Sprintf("UPDATE outbox SET status = 'sending', claim_token = '%s', claimed_until = lk_now() + interval '1 hour'", token),
		"UPDATE agent_memory SET content = 'word' || replace(workspace_id::text, '-', '')",
		"UPDATE agent_activity SET created_at = lk_now() - interval '100 days'",
		"UPDATE events SET created_at = lk_now() - interval '100 days'",
		"UPDATE agent_usage_logs SET created_at = lk_now() - interval '100 days'",
	} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	a := tenant{dbtest.Connect(t, dbtest.AsLogin(dsn))}
	each(t, owner, fmt.Sprintf(`SELECT DISTINCT proname::text FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
		AND prorettype <> 'trigger'::regtype AND has_function_privilege('%s', oid, 'EXECUTE')`, app), func(rows pgx.Rows) error {
		var name string
		err := rows.Scan(&name)
		if probes[name] == "" && harmless[name] == "" {
			t.Errorf("the application may call %s, and it is neither in probes nor in harmless", name)
		}
		return err
	})
	if got := a.asks(t, spaces[0], "SELECT place FROM lk_search_memory('word', true, NULL, NULL, 0, true, 10, 0)", false); got != "(1)" {
		t.Errorf("the one own memory is found as %q: the rest means nothing", got)
	}
	for _, ours := range spaces {
		for _, theirs := range spaces {
			if theirs == ours {
				continue
			}
			outbox := one[string](t, owner, "SELECT id::text FROM outbox WHERE workspace_id = $1", theirs)
			before := everything(t, owner, theirs)
			for name, probe := range probes {
				got := a.asks(t, ours, about(theirs, token, outbox).Replace(probe), false)
				want := a.asks(t, ours, about(uuid.New(), uuid.NewString(), uuid.NewString()).Replace(probe), false)
				if got != want {
					t.Errorf("%s answers %s for a neighbour's, %s for nobody's", name, got, want)
				}
			}
			for _, probe := range probes {
				a.asks(t, ours, about(theirs, token, outbox).Replace(probe), true)
			}
			if after := everything(t, owner, theirs); after != before {
				t.Errorf("rows of a neighbour changed:\n%s\nbefore:\n%s", after, before)
			}
		}
	}
}

// about inserts the values of a workspace into a probe.
func about(ws uuid.UUID, token, outbox string) *strings.Replacer {
	return strings.NewReplacer("{ws}", ws.String(), "{lane}", "of-"+ws.String(), "{token}", token, "{outbox}", outbox, "{word}", "word"+plain(ws))
}

// everything returns all rows of a workspace as text.
func everything(t testing.TB, owner *pgx.Conn, ws uuid.UUID) string {
	t.Helper()
	var all strings.Builder
	for _, name := range tenantTables(t, owner) {
		all.WriteString(name + ": " + one[string](t, owner, fmt.Sprintf("SELECT coalesce(string_agg(x::text, E'\n' ORDER BY x::text), '') FROM %s x WHERE workspace_id = '%s'", name, ws)) + "\n")
	}
	return all.String()
}

func plain(id uuid.UUID) string { return strings.ReplaceAll(id.String(), "-", "") }

// asks returns a workspace's answer to a query, in a transaction that is rolled back unless keep is
// set.
func (a tenant) asks(t testing.TB, ws uuid.UUID, query string, keep bool) (answer string) {
	t.Helper()
	tx, err := a.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	end := tx.Rollback
	if keep {
		end = tx.Commit
	}
	defer func() {
		if err := end(t.Context()); err != nil && !errors.Is(err, pgx.ErrTxCommitRollback) {
			t.Error(err)
		}
	}()
	if _, err := tx.Exec(t.Context(), "SELECT lk_enter($1)", ws); err != nil {
		t.Fatal(err)
	}
	var told string
	rows, err := tx.Query(t.Context(), "SELECT q::text FROM ("+query+") q")
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&told}, func() error { answer += told; return nil })
	}
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refusal.Code + " " + refusal.Message
	}
	if err != nil {
		t.Fatal(err)
	}
	return answer
}
