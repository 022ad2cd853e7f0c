package auth_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// world is a fresh workspace on one engine.
type world struct {
	dbtest.Env
	s *auth.Store
	q struct{ Disable, SeenUsers, DeleteUser, KeyHashes db.Query }
}

func newWorld(t testing.TB, e dbtest.Env) *world {
	t.Helper()
	w := &world{Env: e}
	dbtest.Load(t, "testdata", &w.q)
	var err2 error
	w.s, err2 = auth.NewStore(e.DB, ids, rand.Reader)
	if err := errors.Join(err2); err != nil {
		t.Fatal(err)
	}
	return w
}

func onEach(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

func ids() string { return uuid.Must(uuid.NewV7()).String() }

// admin creates members and keys.
var admin = auth.Principal{Kind: auth.Local, ID: "admin", Role: auth.Owner}

// in runs fn in a transaction of a workspace.
func (w *world) in(t testing.TB, ws db.Workspace, fn func(context.Context, *db.Tx) error) error {
	t.Helper()
	return w.DB.Tx(t.Context(), ws, fn)
}

// join makes a person a member.
func (w *world) join(t testing.TB, ws db.Workspace, email string, role auth.Role) (p auth.Person) {
	t.Helper()
	err := w.in(t, ws, func(ctx context.Context, tx *db.Tx) (err error) {
		p, err = w.s.AddMember(ctx, tx, email, "", role, admin)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// signedWith returns a configuration of sessions over https whose key is derived from a text.
func signedWith(text string, clock func() time.Time) auth.SessionConfig {
	key := sha256.Sum256([]byte(text))
	return auth.SessionConfig{
		Key:        func(context.Context) ([]byte, error) { return key[:], nil },
		AdminToken: adminToken, Secure: true, Clock: clock,
	}
}

// withDefault creates the workspace that the local admin belongs to.
func (w *world) withDefault(t testing.TB) *world {
	t.Helper()
	all, err := workspace.New(w.DB)
	if err == nil {
		err = all.EnsureDefault(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// address returns an e-mail address that no other test uses.
func address(name string) string { return name + "@" + uuid.NewString() + ".example" }

// key creates a key.
func (w *world) key(t testing.TB, k auth.APIKey) (made auth.APIKey, clear secret.Value) {
	t.Helper()
	err := w.in(t, w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
		made, clear, err = w.s.CreateKey(ctx, tx, admin, k)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return made, clear
}

// start is the time at which the tests of tokens begin. Only they move the clock.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// require passes only requests with a principal, and answers others as the product does. unsure answers if a verifier
// could not decide.
func require(a *auth.Authenticator, next http.Handler, unsure func(http.ResponseWriter, *http.Request, error)) http.Handler {
	return a.RequireOr(next, func(w http.ResponseWriter, r *http.Request, err error) {
		if !auth.Refuse(w, r, err) {
			unsure(w, r, err)
		}
	})
}
