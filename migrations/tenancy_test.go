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

// global lists the tables that belong to no workspace. There must be no others.
var global = []string{"users", "workspaces", "model_prices"}

// appendOnly lists the tables whose rows never change.
var appendOnly = []string{"agent_activity", "agent_task_logs", "agent_usage_logs", "events", "execution_steps"}

const (
	app     = "lanekeeper_app"
	rowRule = `(workspace_id = (NULLIF(current_setting('app.workspace_id'::text, true), ''::text))::uuid)`
	refused = "42501" // insufficient_privilege: a missing right, or row-level security
)

// tenantTables returns the tables with rows of workspaces.
func tenantTables(t testing.TB, conn *pgx.Conn) (names []string) {
	t.Helper()
	each(t, conn, `SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') ORDER BY 1`,
		func(rows pgx.Rows) error {
			var name string
			err := rows.Scan(&name)
			if !slices.Contains(global, name) && !slices.Contains(notOfTheSchema, name) {
				names = append(names, name)
			}
			return err
		})
	if len(names) == 0 {
		t.Fatal("no tables")
	}
	return names
}

func one[T any](t testing.TB, conn *pgx.Conn, query string, args ...any) (v T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func TestEveryTableIsProtected(t *testing.T) {
	conn := shared(t)
	owner := one[string](t, conn, "SELECT current_user")
	for _, name := range tenantTables(t, conn) {
		t.Run(name, func(t *testing.T) {
			if !one[bool](t, conn, "SELECT relrowsecurity AND relforcerowsecurity FROM pg_class WHERE oid = $1::regclass", name) {
				t.Errorf("row-level security is not enabled and forced: CALL lk_protect('%s')", name)
			}
			want := map[string]string{
				"tenant": fmt.Sprintf("PERMISSIVE {%s} ALL %s %s", app, rowRule, rowRule),
				"owner":  fmt.Sprintf("PERMISSIVE {%s} ALL true true", owner),
			}
			each(t, conn, fmt.Sprintf(`SELECT policyname, concat_ws(' ', permissive, roles, cmd, qual, with_check) FROM pg_policies
				WHERE schemaname = current_schema() AND tablename = '%s'`, name), func(rows pgx.Rows) error {
				var policy, is string
				err := rows.Scan(&policy, &is)
				if is != want[policy] {
					t.Errorf("policy %s is %q, want %q", policy, is, want[policy])
				}
				delete(want, policy)
				return err
			})
			for policy := range want {
				t.Errorf("policy %s is missing", policy)
			}
			rights := []string{"DELETE", "INSERT", "SELECT", "UPDATE"}
			if slices.Contains(appendOnly, name) {
				rights = []string{"INSERT", "SELECT"}
			}
			if got := grants(t, conn, name); !slices.Equal(got, rights) {
				t.Errorf("the application may %q, want %q", got, rights)
			}
		})
	}
	for _, name := range appendOnly {
		if !slices.Contains(tenantTables(t, conn), name) {
			t.Errorf("%s is gone", name)
		}
	}
}

// grants returns the rights on a table of all roles except the owner, including rights on columns.
func grants(t testing.TB, conn *pgx.Conn, name string) (rights []string) {
	t.Helper()
	each(t, conn, fmt.Sprintf(`SELECT DISTINCT grantee, privilege_type FROM (
			SELECT grantee, privilege_type, table_schema, table_name FROM information_schema.role_table_grants
			UNION SELECT grantee, privilege_type, table_schema, table_name FROM information_schema.column_privileges) g
		WHERE table_schema = current_schema() AND table_name = '%s' AND grantee <> current_user ORDER BY 2`, name), func(rows pgx.Rows) error {
		var grantee, right string
		err := rows.Scan(&grantee, &right)
		if grantee != app {
			right = grantee + " " + right
		}
		rights = append(rights, right)
		return err
	})
	return rights
}

func TestTheApplicationRoleOwnsNothing(t *testing.T) {
	conn := shared(t)
	if !one[bool](t, conn, "SELECT NOT (rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolcanlogin) FROM pg_roles WHERE rolname = $1", app) {
		t.Error("the role itself may do too much")
	}
	for _, owned := range []string{
		"pg_class WHERE relowner", "pg_proc WHERE proowner", "pg_type WHERE typowner", "pg_namespace WHERE nspowner", "pg_database WHERE datdba",
	} {
		if n := one[int](t, conn, fmt.Sprintf("SELECT count(*) FROM %s = '%s'::regrole", owned, app)); n != 0 {
			t.Errorf("it owns %d rows of %s", n, owned)
		}
	}
	if one[bool](t, conn, "SELECT has_schema_privilege($1, current_schema(), 'CREATE')", app) {
		t.Error("it may create in the schema")
	}
	for _, name := range []string{"lk_schema_version", "lk_schema_lock"} {
		if one[bool](t, conn, "SELECT has_table_privilege($1, $2::text, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')", app, name) {
			t.Errorf("it may use %s", name)
		}
	}
	each(t, conn, `SELECT DISTINCT table_name FROM information_schema.role_table_grants WHERE table_schema = current_schema() AND grantee = 'PUBLIC'`,
		func(rows pgx.Rows) error {
			var name string
			err := rows.Scan(&name)
			t.Errorf("everybody may use %s", name)
			return err
		})
	// A view has its owner's rights unless it is declared otherwise.
	each(t, conn, `SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND (relkind = 'm'
		OR relkind = 'v' AND NOT coalesce('security_invoker=true' = ANY (reloptions), false))`, func(rows pgx.Rows) error {
		var name string
		err := rows.Scan(&name)
		t.Errorf("view %s passes by row-level security: make it WITH (security_invoker = true)", name)
		return err
	})
}

// Only the roles that they are granted to may call functions. Functions with their owner's rights
// ignore the caller's search path.
func TestFunctions(t *testing.T) {
	conn := shared(t)
	schema := one[string](t, conn, "SELECT current_schema()")
	n := 0
	each(t, conn, `SELECT p.oid::regprocedure::text, has_function_privilege('public', p.oid, 'EXECUTE'), prosecdef,
			coalesce((SELECT c FROM unnest(proconfig) c WHERE c LIKE 'search_path=%'), '')
		FROM pg_proc p WHERE pronamespace = current_schema()::regnamespace`, func(rows pgx.Rows) error {
		var name, path string
		var public, definer bool
		if err := rows.Scan(&name, &public, &definer, &path); err != nil {
			return err
		}
		n++
		if public {
			t.Errorf("everybody may call %s: REVOKE ALL ON FUNCTION %s FROM PUBLIC", name, name)
		}
		if want := "search_path=" + schema + ", pg_temp"; definer && path != want {
			t.Errorf("%s runs with its owner's rights and %q, want %q (pg_temp last: left out it comes first)", name, path, want)
		}
		return nil
	})
	if n == 0 {
		t.Error("no functions")
	}
	if one[bool](t, conn, "SELECT has_function_privilege($1, 'lk_protect(regclass, text, text)', 'EXECUTE')", app) {
		t.Error("the application may call lk_protect")
	}
}

// tenant is the application with its own connection.
type tenant struct {
	conn *pgx.Conn
}

// in runs a statement in a transaction of the workspace, which is rolled back. It returns the
// number of affected rows. "" means no workspace.
func (a tenant) in(t testing.TB, ws, statement string) (n int64, err error) {
	t.Helper()
	tx, err := a.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	var id any
	if ws != "" {
		id = ws
	}
	if _, err := tx.Exec(t.Context(), "SELECT lk_enter($1)", id); err != nil {
		t.Fatal(err)
	}
	tag, err := tx.Exec(t.Context(), statement)
	return tag.RowsAffected(), err
}

func isRefused(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pe.Code == refused
}

// One of three workspaces can't see, count, add, change or delete a row of another, in any table or
// view, with any statement.
func TestTenantsNeverMeet(t *testing.T) {
	dsn, owner := newPostgres(t)
	b := newBuilder(t, owner)
	spaces := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
	for _, ws := range spaces {
		b.fill(t, ws)
	}
	a := tenant{dbtest.Connect(t, dbtest.AsLogin(dsn))}

	for _, name := range tenantTables(t, owner) {
		t.Run(name, func(t *testing.T) {
			content := fmt.Sprintf("SELECT coalesce(string_agg(x::text, E'\n' ORDER BY x::text), '') FROM %s x", name)
			before := one[string](t, owner, content)
			frozen := slices.Contains(appendOnly, name)

			affects := func(ws, statement string, want int64) {
				t.Helper()
				n, err := a.in(t, ws, statement)
				if frozen && (strings.HasPrefix(statement, "UPDATE") || strings.HasPrefix(statement, "DELETE")) {
					if !isRefused(err) {
						t.Errorf("%s: %d rows, %v; want it refused", statement, n, err)
					}
				} else if err != nil || n != want {
					t.Errorf("%s: %d rows, %v; want %d", statement, n, err, want)
				}
			}
			isOff := func(ws, statement string) {
				t.Helper()
				if n, err := a.in(t, ws, statement); !isRefused(err) {
					t.Errorf("%s: %d rows, %v; want it refused", statement, n, err)
				}
			}
			is := func(ws uuid.UUID) string { return fmt.Sprintf("workspace_id = '%s'", ws) }

			for _, ours := range spaces {
				us := ours.String()
				mine := one[int64](t, owner, "SELECT count(*) FROM "+name+" WHERE "+is(ours)) // events are created together with other rows
				if mine < 1 {
					t.Fatal("there is no row of ours, so that the rest means nothing")
				}
				affects(us, "SELECT FROM "+name, mine)
				affects(us, fmt.Sprintf("SELECT count(*) FROM %s HAVING count(*) = %d AND count(DISTINCT workspace_id) = 1", name, mine), 1)
				affects(us, "UPDATE "+name+" SET workspace_id = workspace_id", mine)
				isOff(us, "TRUNCATE "+name)
				for _, theirs := range spaces {
					if theirs == ours {
						continue
					}
					affects(us, "SELECT FROM "+name+" WHERE "+is(theirs), 0)
					affects(us, "UPDATE "+name+" SET workspace_id = workspace_id WHERE "+is(theirs), 0)
					affects(us, "DELETE FROM "+name+" WHERE "+is(theirs), 0)
					isOff(us, "UPDATE "+name+" SET "+is(theirs)) // gives a row to another workspace
					isOff(us, b.insert(name, theirs))
				}
			}
			affects("", "SELECT FROM "+name, 0)
			affects("", "UPDATE "+name+" SET workspace_id = workspace_id", 0)
			affects("", "DELETE FROM "+name, 0)
			isOff("", b.insert(name, spaces[0]))

			// The login role itself, without lk_enter, has no more rights.
			if n := one[int](t, a.conn, "SELECT count(*) FROM "+name); n != 0 {
				t.Errorf("the login sees %d rows", n)
			}
			if after := one[string](t, owner, content); after != before {
				t.Errorf("the table has changed:\n%s\nbefore:\n%s", after, before)
			}
		})
	}
	each(t, owner, `SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('v', 'm')`, func(rows pgx.Rows) error {
		var name string
		err := rows.Scan(&name)
		for _, ours := range spaces {
			if n, err := a.in(t, ours.String(), fmt.Sprintf("SELECT FROM %s WHERE workspace_id <> '%s'", name, ours)); err != nil || n != 0 {
				t.Errorf("view %s shows %d rows of others, %v", name, n, err)
			}
		}
		return err
	})
}

// The lane functions decide within the caller's workspace, whatever arguments they get.
func TestLaneFunctionsKeepToTheWorkspace(t *testing.T) {
	e := dbtest.New(t, dbtest.OnPostgres)
	ours, theirs := string(e.Workspace), string(dbtest.NewWorkspace(t, e.DB))
	a := tenant{dbtest.Connect(t, e.URL)}
	acquire := fmt.Sprintf("SELECT lk_lane_acquire('%s', 'x', gen_random_uuid(), 'us', 60000, NULL, NULL)", theirs)
	if _, err := a.in(t, ours, acquire); !isRefused(err) {
		t.Errorf("a lane of theirs: %v", err)
	}
	if _, err := a.in(t, theirs, acquire); err != nil {
		t.Errorf("the same as they: %v", err)
	}
	protocol := fmt.Sprintf(`DO $$ BEGIN
		IF NOT (SELECT acquired FROM acquire_agent_lane('x', 'us')) THEN RAISE 'not acquired'; END IF;
		IF (SELECT count(*) FROM agent_locks WHERE workspace_id = '%s') <> 1 THEN RAISE 'not ours'; END IF;
	END $$`, ours)
	if _, err := a.in(t, ours, protocol); err != nil {
		t.Errorf("the protocol for every language: %v", err)
	}
}
