package lane_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

const defaultWorkspace db.Workspace = "00000000-0000-7000-8000-000000000001"

// sqlWorld is a new database in which clients in other languages call the published functions, as a
// role that is a member of lanekeeper_app and nothing else.
type sqlWorld struct {
	world        // in the default workspace
	super string // URL of the superuser
}

func newSQLWorld(t *testing.T) sqlWorld {
	t.Helper()
	owner := dbtest.Migrated(t)
	login := dbtest.AsLogin(owner)
	skew := new(db.Skew)
	d, err := postgres.Open(postgres.Config{URL: login, Schema: migrations.Latest(), Skew: skew})
	check(t, err)
	t.Cleanup(func() { check(t, d.Close()) })
	super, err := url.Parse(owner)
	check(t, err)
	admin, err := url.Parse(dbtest.Servers(t).PostgresURL)
	check(t, err)
	super.User = admin.User
	w := sqlWorld{super: super.String()}
	w.world = newWorld(t, dbtest.Env{Engine: dbtest.OnPostgres, DB: d, Skew: skew, Workspace: defaultWorkspace, URL: login})
	exec(t, w.connect(t, w.super), `INSERT INTO workspaces (id, slug, name) VALUES ($1, 'default', 'Default') ON CONFLICT DO NOTHING`, string(defaultWorkspace))
	return w
}

func (w sqlWorld) connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	check(t, err)
	t.Cleanup(func() { check(t, c.Close(context.Background())) })
	return c
}

// client returns a connection of a client in another language.
func (w sqlWorld) client(t *testing.T) *pgx.Conn { t.Helper(); return w.connect(t, w.URL) }

func exec(t *testing.T, c *pgx.Conn, sql string, args ...any) {
	t.Helper()
	_, err := c.Exec(t.Context(), sql, args...)
	check(t, err)
}

// yes runs a statement that returns a boolean.
func yes(t *testing.T, c *pgx.Conn, sql string, args ...any) (answer bool) {
	t.Helper()
	check(t, c.QueryRow(t.Context(), sql, args...).Scan(&answer))
	return answer
}

// failsWith returns the error code with which a statement fails; "" when it succeeds.
func failsWith(t *testing.T, c *pgx.Conn, sql string, args ...any) string {
	t.Helper()
	_, err := c.Exec(t.Context(), sql, args...)
	if err == nil {
		return ""
	}
	pe, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		t.Fatal(err)
	}
	return pe.Code
}

// granted is what acquire_agent_lane returns.
type granted struct {
	Acquired  bool
	Token     *string
	Fence     int64
	LockedBy  string
	ExpiresAt time.Time
}

func acquireInSQL(t *testing.T, c *pgx.Conn, args ...any) (g granted) {
	t.Helper()
	call := "acquire_agent_lane($1, $2)"
	if len(args) == 3 {
		call = "acquire_agent_lane($1, $2, $3)"
	}
	check(t, c.QueryRow(t.Context(), "SELECT acquired, token::text, fence, locked_by, expires_at FROM "+call, args...).
		Scan(&g.Acquired, &g.Token, &g.Fence, &g.LockedBy, &g.ExpiresAt))
	return g
}

func TestSQLClientsUseTheSameLanes(t *testing.T) {
	w := newSQLWorld(t)
	c := w.client(t)
	ctx := t.Context()

	t.Run("a lane is held for 300 s in the default workspace unless said otherwise", func(t *testing.T) {
		if !yes(t, c, "SELECT try_acquire_agent_lock('boolean', 'cron')") {
			t.Fatal("refused")
		}
		g := acquireInSQL(t, c, "row", "worker")
		if !g.Acquired || g.Token == nil || g.LockedBy != "worker" || g.Fence <= 0 {
			t.Errorf("%+v", g)
		}
		for _, name := range []lane.Name{"boolean", "row"} {
			if i := w.peek(t, name); i.TTL != 300*time.Second || !about(i.Remaining, 300*time.Second) {
				t.Errorf("%s: %+v", name, i)
			}
		}
		if i := w.peek(t, "row"); i.Fence != g.Fence || !i.ExpiresAt.Equal(g.ExpiresAt) || i.Holder != "worker" {
			t.Errorf("%+v and %+v", g, i)
		}
		if g := acquireInSQL(t, c, "an hour", "worker", 3600); !about(time.Until(g.ExpiresAt), time.Hour) {
			t.Errorf("%+v", g)
		}
	})

	t.Run("a held lane is refused to everyone, the same name included", func(t *testing.T) {
		if !yes(t, c, "SELECT try_acquire_agent_lock('same-name', 'heartbeat-cron', 60)") {
			t.Fatal("refused")
		}
		before := w.peek(t, "same-name")
		other := w.client(t)
		for _, client := range []*pgx.Conn{c, other} {
			if yes(t, client, "SELECT try_acquire_agent_lock('same-name', 'heartbeat-cron')") {
				t.Error("admitted")
			}
			if g := acquireInSQL(t, client, "same-name", "heartbeat-cron"); g.Acquired {
				t.Errorf("%+v", g)
			}
		}
		if after := w.peek(t, "same-name"); !after.ExpiresAt.Equal(before.ExpiresAt) || after.Fence != before.Fence {
			t.Errorf("from %+v to %+v", before, after)
		}
	})

	t.Run("another's token is another's secret", func(t *testing.T) {
		h := acquire(t, w.s, w.request("secret"))
		g := acquireInSQL(t, c, "secret", "curious")
		if g.Acquired || g.Token != nil {
			t.Errorf("%+v", g)
		}
		if g.LockedBy != "holder" || g.Fence != h.Fence || !g.ExpiresAt.Equal(h.Until()) {
			t.Errorf("it tells %+v of %+v until %v", g, h, h.Until())
		}
	})

	t.Run("what Go holds SQL renews and releases by its token", func(t *testing.T) {
		h := acquire(t, w.s, w.request("go"))
		if yes(t, c, "SELECT try_acquire_agent_lock('go', 'sql')") {
			t.Error("SQL took what Go holds")
		}
		if !yes(t, c, "SELECT renew_agent_lane('go', $1, 1800)", h.Token) {
			t.Error("not renewed")
		}
		if i := w.peek(t, "go"); !about(i.Remaining, 30*time.Minute) {
			t.Errorf("%+v", i)
		}
		if !yes(t, c, "SELECT renew_agent_lane('go', $1)", h.Token) || !about(w.peek(t, "go").Remaining, 300*time.Second) {
			t.Error("not renewed for 300 s")
		}
		if !yes(t, c, "SELECT release_agent_lane('go', $1)", h.Token) {
			t.Error("not released")
		}
		if err := w.s.Renew(ctx, h, time.Minute); !errors.Is(err, lane.ErrLost) {
			t.Errorf("Go renews what SQL has released: %v", err)
		}
		w.mustBeFree(t, "go")
	})

	t.Run("what SQL holds Go renews, proves and releases by its token", func(t *testing.T) {
		g := acquireInSQL(t, c, "sql", "sql")
		refused(t, w.s, w.request("sql"))
		h := &lane.Hold{Lane: "sql", Workspace: w.Workspace, Token: *g.Token, Fence: g.Fence}
		if err := w.s.Renew(ctx, h, time.Minute); err != nil {
			t.Error(err)
		}
		if err := w.s.InHold(ctx, h, nothing); err != nil {
			t.Error(err)
		}
		w.release(t, h)
		for _, call := range []string{"renew_agent_lane", "release_agent_lane"} {
			if yes(t, c, "SELECT "+call+"('sql', $1)", *g.Token) {
				t.Errorf("%s says yes to a hold that is over", call)
			}
		}
		next := acquireInSQL(t, c, "sql", "sql")
		if !next.Acquired || next.Fence <= g.Fence {
			t.Errorf("fence %d after %d", next.Fence, g.Fence)
		}
	})

	t.Run("no token and another's token change nothing", func(t *testing.T) {
		acquire(t, w.s, w.request("mine"))
		before := w.peek(t, "mine")
		for _, token := range []any{uuid.NewString(), nil} {
			for _, call := range []string{"renew_agent_lane", "release_agent_lane"} {
				if yes(t, c, "SELECT "+call+"('mine', $1)", token) {
					t.Errorf("%s by %v", call, token)
				}
			}
		}
		if after := w.peek(t, "mine"); !after.ExpiresAt.Equal(before.ExpiresAt) {
			t.Errorf("from %+v to %+v", before, after)
		}
	})

	t.Run("a time to live out of range is an error", func(t *testing.T) {
		h := acquire(t, w.s, w.request("held"))
		for _, ttl := range []any{-5, 0, 3601, 2147483647, nil} {
			for call, args := range map[string][]any{
				"SELECT try_acquire_agent_lock($2, 'me', $1)": {ttl, "absurd"},
				"SELECT acquire_agent_lane($2, 'me', $1)":     {ttl, "absurd"},
				"SELECT renew_agent_lane('held', $2, $1)":     {ttl, h.Token},
			} {
				if code := failsWith(t, c, call, args...); code != "22023" {
					t.Errorf("%s with %v: code %q", call, ttl, code)
				}
			}
		}
		w.mustBeFree(t, "absurd")
	})

	t.Run("a hold ends at its expiry and not before", func(t *testing.T) {
		g := acquireInSQL(t, c, "ends", "me", 600)
		w.Skew.Advance(9 * time.Minute)
		refused(t, w.s, w.request("ends"))
		w.Skew.Advance(time.Minute)
		if h := acquire(t, w.s, w.request("ends")); h.Fence <= g.Fence {
			t.Errorf("fence %d after %d", h.Fence, g.Fence)
		}
		if yes(t, c, "SELECT release_agent_lane('ends', $1)", *g.Token) {
			t.Error("a late release ended the successor's hold")
		}
	})

	t.Run("the workspace is the one that is set", func(t *testing.T) {
		other := dbtest.NewWorkspace(t, w.DB)
		mine := w.client(t)
		exec(t, mine, "SELECT set_config('app.workspace_id', $1, false)", string(other))
		if !yes(t, c, "SELECT try_acquire_agent_lock('shared-name', 'a')") || !yes(t, mine, "SELECT try_acquire_agent_lock('shared-name', 'b')") {
			t.Error("lanes of two workspaces met")
		}
		there := w.world
		there.Workspace = other
		if w.peek(t, "shared-name").Holder != "a" || there.peek(t, "shared-name").Holder != "b" {
			t.Error("holds are in the wrong workspace")
		}
		g := acquireInSQL(t, c, "default-only", "a")
		if yes(t, mine, "SELECT release_agent_lane('default-only', $1)", *g.Token) {
			t.Error("released from another workspace")
		}
		exec(t, mine, "SELECT set_config('app.workspace_id', '', false)")
		if !yes(t, mine, "SELECT release_agent_lane('default-only', $1)", *g.Token) {
			t.Error("with an empty setting the default workspace counts")
		}
	})

	t.Run("a transaction pooler is harmless", func(t *testing.T) {
		pooled, err := url.Parse(w.URL)
		check(t, err)
		through, err := url.Parse(dbtest.Servers(t).PgBouncerURL)
		check(t, err)
		pooled.Host = through.Host
		cfg, err := pgx.ParseConfig(pooled.String())
		check(t, err)
		cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		p, err := pgx.ConnectConfig(ctx, cfg)
		check(t, err)
		defer p.Close(ctx)
		g := acquireInSQL(t, p, "pooled", "me")
		if !g.Acquired || yes(t, p, "SELECT try_acquire_agent_lock('pooled', 'me')") {
			t.Errorf("%+v, and then once more", g)
		}
		if !yes(t, p, "SELECT release_agent_lane('pooled', $1)", *g.Token) {
			t.Error("not released")
		}
	})
}

func TestSQLFunctionsAreForMembersOfTheApplicationRoleOnly(t *testing.T) {
	w := newSQLWorld(t)
	super := w.connect(t, w.super)
	role := "lk_stranger_" + strings.ReplaceAll(uuid.NewString(), "-", "")[:12]
	exec(t, super, "CREATE ROLE "+role+" LOGIN")
	t.Cleanup(func() {
		_, err := super.Exec(context.Background(), "DROP ROLE "+role)
		check(t, err)
	})
	u, err := url.Parse(w.super)
	check(t, err)
	u.User = url.User(role)
	stranger, err := pgx.Connect(t.Context(), u.String())
	check(t, err)
	defer stranger.Close(context.Background())
	token := uuid.NewString()
	for call, args := range map[string][]any{
		"SELECT try_acquire_agent_lock('x', 'me')":                                    nil,
		"SELECT acquire_agent_lane('x', 'me')":                                        nil,
		"SELECT renew_agent_lane('x', $1::uuid)":                                      {token},
		"SELECT release_agent_lane('x', $1::uuid)":                                    {token},
		"SELECT lk_lane_acquire($1::uuid, 'x', $1::uuid, 'me', 1000, NULL, NULL)":     {token},
		"SELECT lk_lane_renew($1::uuid, 'x', $1::uuid, 1000)":                         {token},
		"SELECT lk_lane_release($1::uuid, 'x', $1::uuid)":                             {token},
		"SELECT lk_workspace()":                                                       nil,
		"SELECT token FROM agent_locks":                                               nil,
		"UPDATE agent_locks SET expires_at = now()":                                   nil,
		"INSERT INTO agent_locks (workspace_id, lane) VALUES ($1::uuid, 'x')":         {token},
		"DELETE FROM agent_locks":                                                     nil,
		"SET ROLE lanekeeper_app":                                                     nil,
		"CREATE FUNCTION public.lk_now(x int) RETURNS int LANGUAGE sql AS 'SELECT 1'": nil,
	} {
		if code := failsWith(t, stranger, call, args...); code != "42501" {
			t.Errorf("%s: code %q, want insufficient_privilege", call, code)
		}
	}

	// A member sees the rows of the workspace that its session names, and no others.
	acquire(t, w.s, w.request("x"))
	c := w.client(t)
	if !yes(t, c, "SELECT count(*) = 0 FROM agent_locks") {
		t.Error("rows without a workspace")
	}
	exec(t, c, "SELECT set_config('app.workspace_id', $1, false)", uuid.NewString())
	if !yes(t, c, "SELECT count(*) = 0 FROM agent_locks") {
		t.Error("rows of another workspace")
	}
}

// TestACallersSearchPathChangesNothing: the published functions run as the owner of the tables. A
// caller who could replace our tables, types or functions with its own would act as the owner as
// well.
func TestACallersSearchPathChangesNothing(t *testing.T) {
	w := newSQLWorld(t)
	super := w.connect(t, w.super)
	exec(t, super, `
CREATE SCHEMA evil;
GRANT ALL ON SCHEMA evil TO PUBLIC;
CREATE TABLE evil.seen (who text, what text);
GRANT ALL ON evil.seen TO PUBLIC;`)
	c := w.client(t)
	exec(t, c, `
CREATE FUNCTION evil.saw(what text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN INSERT INTO evil.seen VALUES (current_user, what); END $$;
CREATE FUNCTION evil.lk_now() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.saw('lk_now'); RETURN 'epoch'; END $$;
CREATE FUNCTION evil.lk_plus(t timestamptz, ms bigint) RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.saw('lk_plus'); RETURN 'epoch'; END $$;
CREATE FUNCTION evil.lk_workspace() RETURNS uuid LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.saw('lk_workspace'); RETURN NULL; END $$;
CREATE FUNCTION evil.gen_random_uuid() RETURNS uuid LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.saw('gen_random_uuid'); RETURN '6ba7b810-9dad-11d1-80b4-00c04fd430c8'; END $$;
CREATE FUNCTION evil.current_setting(name text, missing boolean) RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.saw('current_setting'); RETURN ''; END $$;
CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.saw('clock_timestamp'); RETURN 'epoch'; END $$;
CREATE FUNCTION evil.lk_lane_acquire(uuid, text, uuid, text, bigint, uuid, text) RETURNS TABLE (acquired boolean) LANGUAGE plpgsql AS $$
BEGIN PERFORM evil.saw('lk_lane_acquire'); acquired := true; RETURN NEXT; END $$;
CREATE FUNCTION evil.lk_lane_renew(uuid, text, uuid, bigint) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.saw('lk_lane_renew'); END $$;
CREATE FUNCTION evil.lk_lane_release(uuid, text, uuid) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.saw('lk_lane_release'); END $$;
CREATE FUNCTION evil.spy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.saw(TG_TABLE_SCHEMA || '.' || TG_TABLE_NAME); RETURN NEW; END $$;
CREATE FUNCTION evil.spied(x text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.saw('domain ' || x); RETURN true; END $$;
CREATE TABLE evil.agent_locks (LIKE public.agent_locks INCLUDING ALL);
CREATE TRIGGER spy BEFORE INSERT OR UPDATE ON evil.agent_locks FOR EACH ROW EXECUTE FUNCTION evil.spy();`)

	victim := func(t *testing.T, setUp ...string) {
		t.Helper()
		c := w.client(t)
		for _, sql := range setUp {
			exec(t, c, sql)
		}
		name := "lane-" + uuid.NewString()
		h := acquire(t, w.s, w.request(lane.Name(name+"/held")))
		if yes(t, c, "SELECT public.try_acquire_agent_lock($1, 'attacker')", name+"/held") {
			t.Error("a held lane was given away")
		}
		if !yes(t, c, "SELECT public.try_acquire_agent_lock($1, 'attacker')", name) {
			t.Error("a free lane was refused")
		}
		if i := w.peek(t, lane.Name(name)); i.Holder != "attacker" || !about(i.Remaining, 300*time.Second) {
			t.Errorf("%+v", i)
		}
		var acquired bool
		var token string
		check(t, c.QueryRow(t.Context(), "SELECT acquired, token::text FROM public.acquire_agent_lane($1, 'attacker')", name+"/2").Scan(&acquired, &token))
		if !acquired || !yes(t, c, "SELECT public.renew_agent_lane($1, $2)", name+"/2", token) ||
			!yes(t, c, "SELECT public.release_agent_lane($1, $2)", name+"/2", token) {
			t.Error("a round did not work")
		}
		if yes(t, c, "SELECT public.release_agent_lane($1, $2)", name+"/held", uuid.NewString()) {
			t.Error("released by a made-up token")
		}
		w.release(t, h)
		seen, err := super.Query(t.Context(), "SELECT who || ' ran ' || what FROM evil.seen WHERE who <> 'lanekeeper_login'")
		check(t, err)
		ran, err := pgx.CollectRows(seen, pgx.RowTo[string])
		check(t, err)
		if len(ran) > 0 {
			t.Errorf("the attacker's code ran: %v", ran)
		}
		exec(t, super, "TRUNCATE evil.seen")
	}

	t.Run("a schema in front", func(t *testing.T) {
		victim(t, "SET search_path = evil, public")
	})
	t.Run("a schema in front of pg_catalog", func(t *testing.T) {
		victim(t, "SET search_path = evil, pg_catalog, public")
	})
	const temporary = `
CREATE TEMP TABLE agent_locks (LIKE public.agent_locks INCLUDING ALL);
CREATE TRIGGER spy BEFORE INSERT OR UPDATE ON pg_temp.agent_locks FOR EACH ROW EXECUTE FUNCTION evil.spy();`
	const domains = `
CREATE DOMAIN pg_temp.uuid AS pg_catalog.uuid CHECK (evil.spied('uuid'));
CREATE DOMAIN pg_temp.timestamptz AS pg_catalog.timestamptz CHECK (evil.spied('timestamptz'));`
	t.Run("temporary tables", func(t *testing.T) { victim(t, temporary) })
	t.Run("temporary types", func(t *testing.T) { victim(t, domains) })
	t.Run("temporary tables and types, pg_temp in front", func(t *testing.T) {
		victim(t, temporary, domains, "SET search_path = pg_temp, evil, public")
	})
	t.Run("functions compiled beforehand under such a path", func(t *testing.T) {
		// A member may call the inner functions itself, which fixes what they mean in this session.
		const compile = `
DO $$
BEGIN
  PERFORM set_config('app.workspace_id', '00000000-0000-7000-8000-000000000001', true);
  PERFORM public.lk_lane_acquire('00000000-0000-7000-8000-000000000001', gen_random_uuid()::text, gen_random_uuid(), 'me', 1, NULL, NULL);
  BEGIN
    PERFORM public.lk_lane_renew('00000000-0000-7000-8000-000000000001', 'x', gen_random_uuid(), 1000);
  EXCEPTION WHEN no_data_found THEN NULL;
  END;
END $$`
		const watched = `
CREATE DOMAIN pg_temp.watched AS text CHECK (evil.spied('a row'));
ALTER TABLE pg_temp.agent_locks ALTER COLUMN lane TYPE pg_temp.watched;`
		victim(t, temporary, watched, "SET search_path = pg_temp, evil, public", compile)
	})
}
