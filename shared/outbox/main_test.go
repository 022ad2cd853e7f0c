package outbox_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// world is a new workspace on one engine, with its outbox.
type world struct {
	dbtest.Env
	s *outbox.Store
	q struct{ Become db.Query }
}

func newWorld(t testing.TB, e dbtest.Env) world {
	t.Helper()
	w := world{Env: e}
	dbtest.Load(t, "testdata", &w.q)
	var err2 error
	w.s, err2 = outbox.New(e.DB, ids, most)
	if err := errors.Join(err2); err != nil {
		t.Fatal(err)
	}
	return w
}

func onEach(t *testing.T, fn func(t *testing.T, w world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

// neighbour returns another workspace of the same database.
func (w world) neighbour(t testing.TB) world {
	t.Helper()
	w.Workspace = dbtest.NewWorkspace(t, w.DB)
	return w
}

func ids() string { return uuid.Must(uuid.NewV7()).String() }

// most is a source of randomness that makes every backoff as long as possible.
func most() float64 { return 1 }

var traces = trace.NewSource(time.Now, rand.Reader)

const topic = "test"

// kick returns a row of the test's topic.
func kick(key string) outbox.Row {
	return outbox.Row{Kind: outbox.Kick, Topic: topic, Key: key, Trace: traces.New(trace.Heartbeat)}
}

func ordered(key, order string, seq int64) outbox.Row {
	r := kick(key)
	r.OrderKey, r.Seq = order, seq
	return r
}

func (w world) enqueue(t testing.TB, rows ...outbox.Row) (added []string) {
	t.Helper()
	var b db.Batch
	for _, r := range rows {
		added = append(added, w.s.Enqueue(t.Context(), &b, r))
	}
	if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
	return added
}

func (w world) get(t testing.TB, id string) outbox.Entry {
	t.Helper()
	e, err := w.s.Get(t.Context(), w.Workspace, id)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// mustBe checks the statuses of rows.
func (w world) mustBe(t testing.TB, want outbox.Status, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if e := w.get(t, id); e.Status != want {
			t.Errorf("row %s is %s after %d tries (%s), want %s", e.Key, e.Status, e.Attempts, e.LastError, want)
		}
	}
}

// resend resends a row with a new seq.
func (w world) resend(t testing.TB, order, id string, seq int64) error {
	t.Helper()
	return w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error { return w.s.Resend(ctx, tx, order, id, seq) })
}

// become sets a status without checking the transitions.
func (w world) become(t testing.TB, id string, status outbox.Status) {
	t.Helper()
	if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Become, id, status, status == outbox.Sending, status == outbox.Sent); err != nil {
		t.Fatal(err)
	}
}

func (w world) due(t testing.TB, topics ...string) int {
	t.Helper()
	var b db.Batch
	n := w.s.Due(&b, topics...)
	if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
	return *n
}

const lease = time.Minute

func (w world) request(limit int) outbox.Request {
	return outbox.Request{Workspace: w.Workspace, Topics: []string{topic}, Holder: "test", Limit: limit, Lease: lease}
}

func (w world) claim(t testing.TB, limit int) []outbox.Claimed {
	t.Helper()
	claimed, err := w.s.Claim(t.Context(), w.request(limit))
	if err != nil {
		t.Fatal(err)
	}
	return claimed
}

// the claims the only row that can be claimed.
func (w world) the(t testing.TB) outbox.Claimed {
	t.Helper()
	claimed := w.claim(t, 10)
	if len(claimed) != 1 {
		t.Fatalf("%d rows were claimed, want one", len(claimed))
	}
	return claimed[0]
}

func keys(claimed []outbox.Claimed) string {
	out := ""
	for _, c := range claimed {
		out += c.Key
	}
	return out
}

// handler is a handler that is a function.
type handler func(context.Context, outbox.Claimed) error

func (h handler) Handle(ctx context.Context, c outbox.Claimed) error { return h(ctx, c) }

// unkeyed is a handler without an idempotency key.
type unkeyed struct{ handler }

func (unkeyed) Unkeyed() bool { return true }

func (w world) sender(h outbox.Handler) *outbox.Sender {
	return &outbox.Sender{
		Store: w.s, Handlers: map[string]outbox.Handler{topic: h}, Holder: "test", Lease: lease, Log: slog.New(slog.DiscardHandler),
	}
}

func (w world) drain(t testing.TB, h outbox.Handler) outbox.Report {
	t.Helper()
	r, err := w.sender(h).Drain(t.Context(), w.Workspace, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ledger counts effects by key, outside of the tested code.
type ledger struct {
	mu    sync.Mutex
	keys  []string
	count map[string]int
}

func (l *ledger) effect(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == nil {
		l.count = map[string]int{}
	}
	l.keys = append(l.keys, key)
	l.count[key]++
}

func numbered(i int) string { return fmt.Sprintf("k%03d", i) }

func payload(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}
