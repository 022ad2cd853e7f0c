package endpoint_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/endpoint"
	"github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func ids() string { return uuid.Must(uuid.NewV7()).String() }

var traces = trace.NewSource(time.Now, rand.Reader)

// world is a fresh workspace on one engine with what tells its endpoints.
type world struct {
	dbtest.Env
	s      *endpoint.Store
	keeper secret.Keeper
	outbox *outbox.Store
	client *outbound.Client
	to     *endpoint.Deliverer
	q      struct{ AddTask, SetStatus, Sendings, SetSettings, Tell, DueFirst db.Query }
}

func newWorld(t testing.TB, e dbtest.Env) *world {
	t.Helper()
	w := &world{Env: e, keeper: secret.NewKeyFile(filepath.Join(t.TempDir(), "key"))}
	dbtest.Load(t, "testdata", &w.q)
	secrets, err3 := secret.New(w.DB, w.keeper)
	var err4, err5, err6 error
	w.outbox, err4 = outbox.New(e.DB, ids, half)
	w.s, err5 = endpoint.New(e.DB, secrets, w.outbox, ids)
	w.client, err6 = outbound.New(outbound.Options{AllowPrivateHosts: []string{"127.0.0.1"}})
	if err := errors.Join(err3, err4, err5, err6); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.CloseIdleConnections)
	w.to = &endpoint.Deliverer{Store: w.s, Sender: endpoint.Sender{Client: w.client, Clock: time.Now}, Random: half, Log: slog.New(slog.DiscardHandler)}
	return w
}

// half is a source of randomness without any.
func half() float64 { return 0 }

func onEach(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

// sender returns a sender as one process has it.
func (w *world) sender() *outbox.Sender {
	return &outbox.Sender{Store: w.outbox, Holder: "test", Log: slog.New(slog.DiscardHandler), Handlers: map[string]outbox.Handler{endpoint.Topic: w.to}}
}

// send sends what is due.
func (w *world) send(t testing.TB) outbox.Report {
	t.Helper()
	r, err := w.sender().Drain(t.Context(), w.Workspace, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// add registers an endpoint and returns it with its secret.
func (w *world) add(t testing.TB, url string, events ...string) (endpoint.Endpoint, secret.Value) {
	t.Helper()
	v := endpoint.NewSecret()
	d, err := w.s.Seal(t.Context(), w.Workspace, endpoint.Endpoint{URL: url, Events: events, Enabled: true, CreatedBy: "test"}, v)
	if err != nil {
		t.Fatal(err)
	}
	var e endpoint.Endpoint
	err = w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
		e, err = w.s.Create(ctx, tx, d)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return e, v
}

// task adds a task and has it go through statuses, each in a transaction of its own trace.
func (w *world) task(t testing.TB, title string, statuses ...string) string {
	t.Helper()
	id := ids()
	w.exec(t, w.q.AddTask, id, title)
	w.become(t, id, statuses...)
	return id
}

func (w *world) become(t testing.TB, id string, statuses ...string) {
	t.Helper()
	for _, status := range statuses {
		w.exec(t, w.q.SetStatus, id, status)
	}
}

func (w *world) exec(t testing.TB, q db.Query, args ...any) {
	t.Helper()
	if _, err := w.DB.Exec(trace.With(t.Context(), traces.New(trace.Operate)), w.Workspace, q, args...); err != nil {
		t.Fatal(err)
	}
}

// sendings counts the rows of webhooks by status.
func (w *world) sendings(t testing.TB) map[string]int {
	t.Helper()
	out := map[string]int{}
	err := w.DB.Each(t.Context(), w.Workspace, func(scan db.Scan) error {
		var status string
		var n int
		err := scan(&status, &n)
		out[status] = n
		return err
	}, w.q.Sendings)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// deliveries lists all attempts, the oldest first.
func (w *world) deliveries(t testing.TB) []endpoint.Delivery {
	t.Helper()
	found, err := w.s.Deliveries(t.Context(), w.Workspace, endpoint.Filter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	out := make([]endpoint.Delivery, 0, len(found))
	for i := range found {
		out = append(out, found[len(found)-1-i])
	}
	return out
}

func (w *world) get(t testing.TB, id string) endpoint.Endpoint {
	t.Helper()
	e, err := w.s.Get(t.Context(), w.Workspace, id)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// got is a request that a receiver has got.
type got struct {
	header http.Header
	body   []byte
}

// receiver is an endpoint's server.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	all    []got
	answer func(n int, r *http.Request, w http.ResponseWriter) // n counts the requests, from 1
}

// receive starts a receiver. A nil answer is 204.
func receive(t testing.TB, answer func(n int, r *http.Request, w http.ResponseWriter)) *receiver {
	t.Helper()
	r := &receiver{answer: answer}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.all = append(r.all, got{req.Header.Clone(), body})
		n := len(r.all)
		r.mu.Unlock()
		if r.answer == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		r.answer(n, req, w)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) requests() []got {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]got(nil), r.all...)
}

// dbNew returns an environment for tests that do not depend on the engine.
func dbNew(t testing.TB) dbtest.Env { return dbtest.New(t, dbtest.OnSQLite) }
