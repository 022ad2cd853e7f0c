package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/infra/rig/servers"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
)

// crashes is a Postgres that crashes and is started again at once.
type crashes struct {
	server *servers.Server
	up     sync.RWMutex // locked while it is down
	back   time.Duration
}

// wait waits until the server is there.
func (c *crashes) wait() {
	if c == nil {
		return
	}
	c.up.RLock()
	defer c.up.RUnlock()
}

// TestPostgresCrashes (R4): Postgres stops at random instants without writing anything more, while the built
// functions work. All accepted work continues by itself once it is back, and nothing is done twice.
func TestPostgresCrashes(t *testing.T) {
	random := rand.New(rand.NewPCG(promise.Seed(t), 4))
	proof := promise.Of(t, "R4", "immediate restarts of Postgres under the built functions",
		fmt.Sprintf("0 stuck, 0 doubled; all moves within %s of the leases of the requests that were cut off", moves))
	s := newCrashing(t, random)
	s.sources(t, 1)
	for range promise.Figure(2, 25) {
		if s.round(t); t.Failed() {
			t.Fatalf("in round %d\n%s", s.rounds, s.evidence(t))
		}
		proof.Tell("%d crashes, %d accepted, 0 stuck, 0 doubled; the first answer %s after Postgres at most; the slowest %s after the leases, of beats %s",
			s.rounds, len(s.accepted), s.crashes.back.Round(time.Millisecond), s.slowest[false], s.slowest[true])
	}
}

// newCrashing returns a storm on a Postgres of its own.
func newCrashing(t *testing.T, random *rand.Rand) *storm {
	t.Helper()
	dbtest.Servers(t) // absent programs are told in one way
	server, err := servers.StartPostgres(t.Context(), "", servers.PostgresOptions{Fast: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	as := func(role, database string) string {
		u, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		u.User, u.Path = url.User(role), "/"+database
		return u.String()
	}
	w := &world{owner: as("maker", "crashing")}
	w.admin = dial(t, server.URL)
	for _, sql := range []string{
		"CREATE ROLE lanekeeper_app NOLOGIN", "CREATE ROLE maker LOGIN CREATEROLE IN ROLE lanekeeper_app",
		"CREATE ROLE lanekeeper_login LOGIN IN ROLE lanekeeper_app", "CREATE DATABASE crashing OWNER maker",
	} {
		w.exec(t, sql)
	}
	_ = w.admin.Close(t.Context())
	if _, err := migrate.Postgres(t.Context(), w.owner, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	w.admin = dial(t, as("postgres", "crashing"))
	t.Cleanup(func() { _ = w.admin.Close(context.Background()) })
	s := stormOn(t, w, dbtest.AsLogin(w.owner), random, nil)
	s.crashes = &crashes{server: server}
	return s
}

func dial(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// crash restarts the server, and waits until a function answers from it.
func (s *storm) crash(t *testing.T) {
	t.Helper()
	c := s.crashes
	c.up.Lock()
	defer c.up.Unlock()
	// Postgres 15 may hang in the handler of the signal. To be killed is a crash, too, after which its
	// children may have its memory for a moment, so that it can't start.
	if err := c.server.Stop(servers.Immediate); err != nil && !errors.Is(err, servers.ErrKilled) {
		t.Fatal(err)
	}
	for stopped := time.Now(); ; {
		err := c.server.Start(t.Context())
		if err == nil {
			break
		}
		if time.Since(stopped) > time.Minute {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	at := s.admin.Config().ConnString()
	_ = s.admin.Close(t.Context())
	s.admin = dial(t, at)
	for {
		if status, ok := s.ask(t.Context(), "GET", "/lanes", "", nil); ok && status == http.StatusOK {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatal("a minute after Postgres nothing answers from it")
		}
		s.exec(t, `SELECT pg_sleep(0.05)`)
	}
	c.back = max(c.back, time.Since(begun))
}
