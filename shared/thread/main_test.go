package thread_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// world is a fresh workspace on one engine with its threads and a channel.
type world struct {
	dbtest.Env
	runs    *execution.Store
	outbox  *outbox.Store
	threads *thread.Store
	channel *ledger
}

func newWorld(t testing.TB, e dbtest.Env) *world {
	t.Helper()
	w := &world{Env: e, channel: &ledger{count: map[string]int{}}}
	var errs [3]error
	w.runs, errs[0] = execution.New(e.DB)
	w.outbox, errs[1] = outbox.New(e.DB, ids, func() float64 { return 1 })
	w.threads, errs[2] = thread.New(e.DB, w.runs, w.outbox, ids, slog.New(slog.DiscardHandler))
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return w
}

func onEach(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

// inSQLite is for tests that do not depend on the engine.
func inSQLite(t testing.TB) dbtest.Env { return dbtest.New(t, dbtest.OnSQLite) }

func ids() string { return uuid.Must(uuid.NewV7()).String() }

var traces = trace.NewSource(time.Now, rand.Reader)

// ledger is a channel that counts what reaches the person, independently of the tested code.
type ledger struct {
	mu    sync.Mutex
	said  []thread.Message // first tries of a key, in order
	count map[string]int   // by key
	err   error            // what Send returns
	tries int
	trace trace.ID // the trace of the last call
}

func (*ledger) Name() string { return "ledger" }

func (l *ledger) Send(ctx context.Context, m thread.Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries++
	l.trace, _ = trace.From(ctx)
	if l.err != nil {
		return l.err
	}
	if l.count[m.Key]++; l.count[m.Key] == 1 {
		l.said = append(l.said, m)
	}
	return nil
}

// bodies returns what the person has read.
func (l *ledger) bodies() (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.said {
		out = append(out, m.Body)
	}
	return out
}

func (w *world) mustHaveSaid(t testing.TB, want ...string) {
	t.Helper()
	if got := w.channel.bodies(); !slices.Equal(got, want) {
		t.Errorf("the person read %q, want %q", got, want)
	}
}

func (w *world) open(t testing.TB, address string) string {
	t.Helper()
	return w.opened(t, thread.Thread{Channel: "ledger", Address: address})
}

func (w *world) opened(t testing.TB, th thread.Thread) string {
	t.Helper()
	th, err := w.threads.Open(t.Context(), w.Workspace, th)
	if err != nil {
		t.Fatal(err)
	}
	return th.ID
}

// try runs fn in a transaction.
func (w *world) try(t testing.TB, fn func(context.Context, *db.Tx) error) error {
	t.Helper()
	return w.DB.Tx(t.Context(), w.Workspace, fn)
}

func (w *world) must(t testing.TB, fn func(context.Context, *db.Tx) error) {
	t.Helper()
	if err := w.try(t, fn); err != nil {
		t.Fatal(err)
	}
}

// begin begins an execution, under parent unless that is empty.
func (w *world) begin(t testing.TB, parent string, await bool) string {
	t.Helper()
	e := execution.Execution{ID: ids(), Agent: "test", Surface: trace.Coordinator, Trace: traces.New(trace.Coordinator), Parent: parent}
	w.must(t, func(ctx context.Context, tx *db.Tx) error {
		_, err := w.runs.Begin(ctx, tx, e, await)
		return err
	})
	return e.ID
}

func (w *world) end(t testing.TB, execution string, as execution.Status) {
	t.Helper()
	w.must(t, func(ctx context.Context, tx *db.Tx) error { return w.threads.End(ctx, tx, execution, as, nil, "") })
}

func (w *world) complete(t testing.TB, id string) { w.end(t, id, execution.Completed) }

func (w *world) lock(t testing.TB, th, execution string) (thread.Outcome, error) {
	t.Helper()
	return w.threads.Lock(t.Context(), w.Workspace, th, execution)
}

func (w *world) mustLock(t testing.TB, th, execution string, want thread.Outcome) {
	t.Helper()
	if how, err := w.lock(t, th, execution); how != want || err != nil {
		t.Fatalf("the lock: %q, %v, want %q", how, err, want)
	}
}

// mustRefuse checks that a thread is refused, and who is reported as its holder.
func (w *world) mustRefuse(t testing.TB, th, execution, holder string) {
	t.Helper()
	_, err := w.lock(t, th, execution)
	held, ok := errors.AsType[*thread.HeldError](err)
	if !ok || held.Lock.Execution() != holder {
		t.Fatalf("the lock: %v, want one held by %s", err, holder)
	}
}

func (w *world) trySend(t testing.TB, m thread.Outgoing) (sent thread.Sent, err error) {
	t.Helper()
	err = w.try(t, func(ctx context.Context, tx *db.Tx) error {
		var err error
		sent, err = w.threads.Send(ctx, tx, m)
		return err
	})
	return sent, err
}

func (w *world) send(t testing.TB, th, execution, body string) thread.Sent {
	t.Helper()
	sent, err := w.trySend(t, thread.Outgoing{Thread: th, Execution: execution, Body: body})
	if err != nil {
		t.Fatal(err)
	}
	return sent
}

// resend sends a message again, as a person would request.
func (w *world) resend(t testing.TB, th, id string) (sent thread.Sent, err error) {
	t.Helper()
	err = w.try(t, func(ctx context.Context, tx *db.Tx) error {
		var err error
		sent, err = w.threads.Resend(ctx, tx, th, id)
		return err
	})
	return sent, err
}

// say sends a message that must not be queued.
func (w *world) say(t testing.TB, th, execution, body string) {
	t.Helper()
	if sent := w.send(t, th, execution, body); sent.Queued || sent.Position != 0 {
		t.Fatalf("%q was queued: %+v", body, sent)
	}
}

// queue sends a message that must be queued, at a position.
func (w *world) queue(t testing.TB, th, execution, body string, position int) string {
	t.Helper()
	sent := w.send(t, th, execution, body)
	if !sent.Queued || sent.Position != position {
		t.Fatalf("%q: %+v, want it queued at %d", body, sent, position)
	}
	return sent.ID
}

func (w *world) sender() *outbox.Sender {
	return &outbox.Sender{
		Store: w.outbox, Handlers: w.threads.Handlers(w.channel), Holder: "test", Lease: time.Minute, Log: slog.New(slog.DiscardHandler),
	}
}

// drain sends everything that can be sent.
func (w *world) drain(t testing.TB) {
	t.Helper()
	if _, err := w.sender().Drain(t.Context(), w.Workspace, 100_000); err != nil {
		t.Fatal(err)
	}
}

func (w *world) sweep(t testing.TB) thread.Swept {
	t.Helper()
	swept, err := w.threads.Sweep(t.Context(), w.Workspace, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return swept
}

func (w *world) get(t testing.TB, th string) thread.Thread {
	t.Helper()
	got, err := w.threads.Get(t.Context(), w.Workspace, th)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// mustHold checks a thread's stack. Without a stack the thread must be free.
func (w *world) mustHold(t testing.TB, th string, stack ...string) {
	t.Helper()
	if got := w.get(t, th).Lock; !slices.Equal(got.Stack, stack) || got.Holder != append([]string{""}, stack...)[len(stack)] {
		t.Fatalf("the thread is held by %q, want %q", got.Stack, stack)
	}
}

func (w *world) status(t testing.TB, execution string) execution.Status {
	t.Helper()
	e, err := w.runs.Get(t.Context(), w.Workspace, execution)
	if err != nil {
		t.Fatal(err)
	}
	return e.Status
}

func (w *world) message(t testing.TB, id string) outbox.Entry {
	t.Helper()
	e, err := w.outbox.Get(t.Context(), w.Workspace, id)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (w *world) tryPark(t testing.TB, th, execution, after string, limit time.Duration) error {
	t.Helper()
	return w.try(t, func(ctx context.Context, tx *db.Tx) error {
		return w.threads.Park(ctx, tx, th, execution, after, limit)
	})
}

func (w *world) park(t testing.TB, th, execution string, limit time.Duration) {
	t.Helper()
	if err := w.tryPark(t, th, execution, "", limit); err != nil {
		t.Fatal(err)
	}
}

// tryAnswer stores a message of the person, with an optional key.
func (w *world) tryAnswer(t testing.TB, th, body, key string) (id, resumed string, err error) {
	t.Helper()
	err = w.try(t, func(ctx context.Context, tx *db.Tx) error {
		var err error
		id, resumed, err = w.threads.Append(ctx, tx, th, thread.Spoken{Role: thread.User, Body: body, Key: key, Data: []byte(`{"a":1}`)})
		return err
	})
	return id, resumed, err
}

// answer stores a message of the person.
func (w *world) answer(t testing.TB, th, body string) (resumed string) {
	t.Helper()
	_, resumed, err := w.tryAnswer(t, th, body, "")
	if err != nil {
		t.Fatal(err)
	}
	return resumed
}

func numbered(i int) string { return fmt.Sprintf("%05d", i) }
