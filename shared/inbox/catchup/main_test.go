package catchup_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/inbox/catchup"
	"github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func ids() string { return uuid.Must(uuid.NewV7()).String() }

const (
	token  = "ghp_a-token-that-nobody-may-see"
	signer = "a secret of the sender"
)

// tried is a try as GitHub lists it.
type tried struct {
	id     int64
	guid   string
	at     time.Time
	status int
}

// github is one that lists what it has sent, and sends again what it is asked to.
type github struct {
	*httptest.Server
	t testing.TB

	mu      sync.Mutex
	tries   []tried // the oldest first
	perPage int
	asked   []string // guids
	pages   []string // cursors
	send    func(guid string)
	refuse  func(w http.ResponseWriter, r *http.Request) bool
}

func newGitHub(t testing.TB) *github {
	t.Helper()
	g := &github{t: t, perPage: 100, send: func(string) {}}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	return g
}

func (g *github) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.refuse != nil && g.refuse(w, r) {
		return
	}
	if got := r.Header.Get("Authorization"); got != "Bearer "+token || r.Header.Get("User-Agent") == "" {
		g.t.Errorf("the headers are %v", r.Header)
	}
	const hook = "/repos/acme/app/hooks/42/deliveries"
	rest, ok := strings.CutPrefix(r.URL.Path, hook)
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.Method == http.MethodPost {
		g.attempt(w, strings.TrimSuffix(strings.TrimPrefix(rest, "/"), "/attempts"))
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	cursor := r.URL.Query().Get("cursor")
	g.pages = append(g.pages, cursor)
	from := int64(1 << 60)
	if cursor != "" {
		from, _ = strconv.ParseInt(strings.TrimPrefix(cursor, "v1_"), 10, 64)
	}
	var items []string
	more := int64(0)
	for _, t := range slices.Backward(g.tries) {
		if t.id >= from {
			continue
		}
		if len(items) == g.perPage {
			more = t.id + 1
			break
		}
		items = append(items, fmt.Sprintf(`{"id":%d,"guid":%q,"delivered_at":%q,"status":"X","status_code":%d,"event":"issues","redelivery":false}`,
			t.id, t.guid, t.at.UTC().Format(time.RFC3339), t.status))
	}
	if more > 0 {
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?per_page=100&cursor=v1_%d>; rel="next", <%s>; rel="first"`, g.URL, hook, more, g.URL))
	}
	fmt.Fprintf(w, "[%s]", strings.Join(items, ","))
}

func (g *github) attempt(w http.ResponseWriter, id string) {
	g.mu.Lock()
	n, _ := strconv.ParseInt(id, 10, 64)
	i := slices.IndexFunc(g.tries, func(t tried) bool { return t.id == n })
	if i < 0 {
		g.mu.Unlock()
		http.Error(w, "{}", http.StatusNotFound)
		return
	}
	guid := g.tries[i].guid
	g.asked = append(g.asked, guid)
	send := g.send
	g.mu.Unlock()
	send(guid)
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprint(w, "{}")
}

// add has GitHub have tried a delivery.
func (g *github) add(guid string, at time.Time, status int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tries = append(g.tries, tried{int64(len(g.tries) + 1), guid, at, status})
}

func (g *github) requests() (asked, pages []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.asked), slices.Clone(g.pages)
}

// world is a workspace with a source of GitHub that catches up.
type world struct {
	dbtest.Env
	*github
	s       *inbox.Store
	outbox  *outbox.Store
	sender  *outbox.Sender
	source  inbox.Source
	secrets *secret.Store
	slug    string
}

func onEach(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

func newWorld(t testing.TB, e dbtest.Env) *world {
	t.Helper()
	w := &world{Env: e, github: newGitHub(t)}
	secrets, err1 := secret.New(e.DB, secret.NewKeyFile(filepath.Join(t.TempDir(), "key")))
	box, err2 := outbox.New(e.DB, ids, func() float64 { return 0 })
	workspaces, err3 := workspace.New(e.DB)
	at, err4 := url.Parse(w.github.URL)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	out, err1 := outbound.New(outbound.Options{AllowPrivateHosts: []string{at.Host}})
	all, err2 := workspaces.List(t.Context(), []db.Workspace{e.Workspace})
	w.s, err3 = inbox.New(e.DB, secrets, box, ids)
	_, err4 = secrets.Put(t.Context(), e.Workspace, "gh-token", secret.NewValue(token), "user:ada")
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.CloseIdleConnections)
	w.slug, w.outbox, w.secrets = all[0].Slug, box, secrets
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	w.sender = &outbox.Sender{Store: box, Holder: "test", Log: log, Handlers: map[string]outbox.Handler{
		inbox.CatchUpTopic: &catchup.Catcher{Inbox: w.s, Secrets: secrets, Do: out.Do, API: w.github.URL, Log: log},
	}}
	draft, err := w.s.Seal(t.Context(), e.Workspace, inbox.Source{Name: "gh", Kind: inbox.GitHub, Enabled: true, CreatedBy: "user:ada",
		Hook: &inbox.Hook{Owner: "acme", Repo: "app", ID: 42, Token: "gh-token"}}, secret.NewValue(signer))
	if err != nil {
		t.Fatal(err)
	}
	w.tx(t, func(ctx context.Context, tx *db.Tx) (err error) {
		w.source, err = w.s.Create(ctx, tx, draft)
		return err
	})
	w.send = func(guid string) { w.receive(t, guid) }
	return w
}

func (w *world) tx(t testing.TB, fn func(ctx context.Context, tx *db.Tx) error) {
	t.Helper()
	if err := w.DB.Tx(t.Context(), w.Workspace, fn); err != nil {
		t.Fatal(err)
	}
}

// receive stores a delivery, as if a request had verified.
func (w *world) receive(t testing.TB, guid string) {
	f, err := w.s.Find(t.Context(), w.slug, "gh")
	if err != nil {
		t.Error(err)
		return
	}
	ctx := trace.With(t.Context(), trace.NewSource(time.Now, rand.Reader).New(trace.Webhook))
	if _, err := w.s.Receive(ctx, f, inbox.Content{ID: guid, Event: "issues", Digest: strings.Repeat("0", 64)}, []byte("{}")); err != nil {
		t.Error(err)
	}
}

// look sends what is due, once.
func (w *world) look(t testing.TB) outbox.Report {
	t.Helper()
	r, err := w.sender.Drain(t.Context(), w.Workspace, 10)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// caught is the source as it is now.
func (w *world) caught(t testing.TB) inbox.CatchUp {
	t.Helper()
	n, err := w.s.Source(t.Context(), w.Workspace, "gh")
	if err != nil {
		t.Fatal(err)
	}
	if n.Caught == nil {
		return inbox.CatchUp{}
	}
	return *n.Caught
}

// row is the outbox's of the source.
func (w *world) row(t testing.TB) outbox.Entry {
	t.Helper()
	rows, _, err := w.outbox.List(t.Context(), w.Workspace, outbox.Filter{Topic: inbox.CatchUpTopic, Limit: 10})
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	return rows[0]
}

// wait is how long it is until the source looks again.
func (w *world) wait(t testing.TB) time.Duration {
	t.Helper()
	row := w.row(t)
	return row.DueAt.Sub(row.UpdatedAt)
}

func catcher(w *world) *catchup.Catcher {
	return w.sender.Handlers[inbox.CatchUpTopic].(*catchup.Catcher)
}
