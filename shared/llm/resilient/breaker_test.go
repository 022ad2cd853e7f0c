package resilient_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/resilient"
)

// process is a chain with circuits in the database, as one process has it.
type process struct {
	*world
	dbtest.Env
	store *resilient.Store
	later atomic.Int64 // how far the process's own clock is ahead
	log   bytes.Buffer
}

func newProcess(t testing.TB, e dbtest.Env, providers ...resilient.Provider) *process {
	t.Helper()
	p := &process{Env: e, store: newStore(t, e.DB)}
	p.world = chain(t, func(c *resilient.Config) {
		c.Circuits, c.Log = p.store, slog.New(slog.NewTextHandler(&p.log, nil))
		c.Clock = func() time.Time { return time.Now().Add(time.Duration(p.later.Load())) }
	}, providers...)
	return p
}

// cold returns the same chain in a new process: handle, store and chain are new, the database's
// clock is the same.
func (p *process) cold(t testing.TB, providers ...resilient.Provider) *process {
	t.Helper()
	e := p.Env
	e.DB, e.Skew = p.Open(t, 2)
	e.Skew.Advance(p.Skew.Offset())
	return newProcess(t, e, providers...)
}

// wait advances the time of the database and of the process.
func (p *process) wait(d time.Duration) {
	p.Skew.Advance(d)
	p.later.Add(int64(d))
}

// ask makes a call as in a separate invocation.
func (p *process) ask(t testing.TB) (llm.Response, error) {
	t.Helper()
	return p.For(p.Workspace).Generate(t.Context(), request, nil)
}

// refused fails unless err is that of an open circuit, with this class and about this RetryAfter.
func refused(t testing.TB, err error, class llm.ErrorClass, left time.Duration) {
	t.Helper()
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Class != class || !errors.Is(err, resilient.ErrOpen) || e.Provider != "first" || !about(e.RetryAfter, left) {
		t.Errorf("got %v, want %s for %s", err, class, left)
	}
}

func TestACircuitOpensAndAColdStartRemembers(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		f := provider("first", fail(llm.ClassUnavailable))
		p := newProcess(t, e, resilient.Provider{Model: f})
		m := p.For(e.Workspace)
		for i, want := range []int{3, 2, 0, 0} { // number of tries; the fifth failure opens the circuit
			_, err := m.Generate(t.Context(), request, nil)
			if n := f.times(); n != want || llm.ClassOf(err) != llm.ClassUnavailable {
				t.Errorf("call %d: asked %d times, %v", i, n, err)
			}
			if want == 0 {
				refused(t, err, llm.ClassUnavailable, 30*time.Second)
			}
		}
		if c := p.observed(); len(c) != 4 || c[2].Tries != 0 || c[2].Class != llm.ClassUnavailable || !errors.Is(c[2].Err, resilient.ErrOpen) {
			t.Errorf("observed %+v", c)
		}
		again := p.cold(t, resilient.Provider{Model: f})
		_, err := again.ask(t)
		if refused(t, err, llm.ClassUnavailable, 30*time.Second); f.times() != 0 {
			t.Error("a cold start has forgotten")
		}
		f.does(say("hi"))
		again.wait(31 * time.Second)
		if resp, err := again.ask(t); err != nil || resp.Text != "hi" || f.times() != 1 {
			t.Errorf("the probe: %+v, %v", resp, err)
		}
		if resp, err := again.cold(t, resilient.Provider{Model: f}).ask(t); err != nil || resp.Text != "hi" {
			t.Errorf("after it: %+v, %v", resp, err)
		}
		if !strings.Contains(p.log.String(), "circuit opened") || !strings.Contains(again.log.String(), "circuit closed") {
			t.Errorf("logged %s%s", &p.log, &again.log)
		}
	})
}

// A probe is one try. A failed probe keeps the circuit open for longer.
func TestAProbeThatFails(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		f := provider("first", fail(llm.ClassOverloaded))
		p := newProcess(t, e, resilient.Provider{Model: f})
		m := p.For(e.Workspace)
		for range 2 {
			_, _ = m.Generate(t.Context(), request, nil)
		}
		for _, left := range []time.Duration{time.Minute, 2 * time.Minute} {
			p.wait(left/2 + time.Second)
			f.times()
			if _, err := m.Generate(t.Context(), request, nil); llm.ClassOf(err) != llm.ClassOverloaded || errors.Is(err, resilient.ErrOpen) || f.times() != 1 {
				t.Errorf("the probe: %v", err)
			}
			_, err := m.Generate(t.Context(), request, nil)
			refused(t, err, llm.ClassUnavailable, left)
		}
	})
}

// Two processes retry at the same time: one probes, the other uses its fallback, or none.
func TestTwoProcessesAndOneProbe(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		f, second := provider("first", fail(llm.ClassUnavailable)), provider("second", say("second"))
		p := newProcess(t, e, resilient.Provider{Model: f})
		for range 2 {
			_, _ = p.ask(t)
		}
		p.wait(31 * time.Second)
		f.times()

		asked, answer := make(chan bool, 2), make(chan bool)
		f.does(func(ctx context.Context, onDelta func(llm.Delta)) (llm.Response, error) {
			asked <- true
			<-answer
			return say("first")(ctx, onDelta)
		})
		processes := []*process{p.cold(t, resilient.Provider{Model: f}), p.cold(t, resilient.Provider{Model: f})}
		results := make(chan error, 2)
		for _, p := range processes {
			go func() {
				_, err := p.ask(t)
				results <- err
			}()
		}
		<-asked // by one of them; the other is refused
		refused(t, <-results, llm.ClassUnavailable, 105*time.Second)
		lucky := p.cold(t, resilient.Provider{Model: f}, resilient.Provider{Model: second})
		if resp, err := lucky.ask(t); err != nil || resp.Text != "second" {
			t.Errorf("with a second choice: %+v, %v", resp, err)
		}
		if c := lucky.observed(); len(c) != 2 || c[0].Tries != 0 || c[1].Provider != "second" {
			t.Errorf("observed %+v", c)
		}
		close(answer)
		if err := <-results; err != nil || f.times() != 1 {
			t.Errorf("the probe: %v", err)
		}
		if resp, err := lucky.ask(t); err != nil || resp.Text != "first" {
			t.Errorf("afterwards: %+v, %v", resp, err)
		}
	})
}

func TestARefusedKeyIsNotShownAgain(t *testing.T) {
	for _, class := range lasting {
		onEach(t, func(t *testing.T, e dbtest.Env) {
			f := provider("first", fail(class))
			p := newProcess(t, e, resilient.Provider{Model: f})
			if _, err := p.ask(t); llm.ClassOf(err) != class || f.times() != 1 {
				t.Errorf("got %v", err)
			}
			p.wait(50 * time.Minute)
			_, err := p.ask(t)
			if refused(t, err, class, 10*time.Minute); f.times() != 0 {
				t.Error("asked again")
			}
			// Another key has another circuit.
			other := provider("first", say("hi"))
			if resp, err := p.cold(t, resilient.Provider{Model: other, Circuit: "first:2f8a"}).ask(t); err != nil || resp.Text != "hi" {
				t.Errorf("with another key: %+v, %v", resp, err)
			}
			f.does(say("hi"))
			p.wait(10 * time.Minute)
			if resp, err := p.ask(t); err != nil || resp.Text != "hi" {
				t.Errorf("after an hour: %+v, %v", resp, err)
			}
		})
	}
}

// If only a person can help, no model is asked, unless a fallback is available.
func TestItIsKnownThatNobodyIsAsked(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		for class, want := range map[llm.ErrorClass]string{llm.ClassBilling: "first refuses us (billing); once that is put right: bin/lanekeeper circuits delete 'billing/'", llm.ClassBadRequest: ""} {
			f := resilient.Provider{Model: provider("first", fail(class)), Circuit: string(class)}
			p := newProcess(t, e, f)
			if _, err := p.ask(t); err == nil || p.For(e.Workspace).Paused(t.Context()) != want {
				t.Errorf("after %v it says %q", err, p.For(e.Workspace).Paused(t.Context()))
			}
			if why := p.cold(t, f, resilient.Provider{Model: provider("second", say("hi"))}).For(e.Workspace).Paused(t.Context()); why != "" {
				t.Errorf("with a second one it says %q", why)
			}
			p.wait(time.Hour + time.Second)
			if why := p.For(e.Workspace).Paused(t.Context()); why != "" {
				t.Errorf("after an hour it says %q", why)
			}
		}
	})
}

// A person fixed the cause: processes that have the open circuit cached notice it soon.
func TestAResetIsNoticed(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		f := provider("first", fail(llm.ClassBilling), say("hi"))
		p := newProcess(t, e, resilient.Provider{Model: f})
		m := p.For(e.Workspace)
		_, _ = m.Generate(t.Context(), request, nil)
		err := p.DB.Tx(t.Context(), e.Workspace, func(ctx context.Context, tx *db.Tx) error {
			return p.store.Reset(ctx, tx, resilient.Key{Provider: "first"})
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Generate(t.Context(), request, nil)
		refused(t, err, llm.ClassBilling, time.Hour)
		p.later.Add(int64(resilient.Noticed))
		if resp, err := m.Generate(t.Context(), request, nil); err != nil || resp.Text != "hi" {
			t.Errorf("got %+v, %v", resp, err)
		}
	})
}

// Errors that do not count against the provider neither open a circuit nor keep it open.
func TestWhatSaysNothingAgainstTheProvider(t *testing.T) {
	for _, class := range []llm.ErrorClass{llm.ClassRateLimit, llm.ClassBadRequest, llm.ClassContextTooLong, llm.ClassRefused} {
		onEach(t, func(t *testing.T, e dbtest.Env) {
			f := provider("first", fail(class))
			p := newProcess(t, e, resilient.Provider{Model: f})
			for range 4 {
				if _, err := p.ask(t); errors.Is(err, resilient.ErrOpen) {
					t.Fatalf("%s opened it", class)
				}
			}
			f.does(fail(llm.ClassUnavailable))
			for range 2 {
				_, _ = p.ask(t)
			}
			p.wait(31 * time.Second)
			f.does(fail(class))
			for range 2 {
				if _, err := p.ask(t); llm.ClassOf(err) != class || errors.Is(err, resilient.ErrOpen) {
					t.Errorf("%s keeps it open: %v", class, err)
				}
			}
		})
	}
}

// A success ends the streak of failures, even after a retry.
func TestASuccessEndsTheRow(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		down := fail(llm.ClassUnavailable)
		f := provider("first", down, down, say("hi"), down, down, down, say("hi"), down, down, say("hi"))
		p := newProcess(t, e, resilient.Provider{Model: f})
		m := p.For(e.Workspace)
		for i, want := range []llm.ErrorClass{"", llm.ClassUnavailable, "", ""} {
			if _, err := m.Generate(t.Context(), request, nil); llm.ClassOf(err) != want || errors.Is(err, resilient.ErrOpen) {
				t.Errorf("call %d: %v", i, err)
			}
		}
	})
}

// The end of the caller's own time does not count as a failure. A probe that it interrupts is
// repeated.
func TestTheCallersEndIsNoFailure(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		f := provider("first")
		p := newProcess(t, e, resilient.Provider{Model: f})
		cut := func(m *resilient.Model) error {
			ctx := deadline{t.Context(), make(chan struct{})}
			f.does(func(try context.Context, onDelta func(llm.Delta)) (llm.Response, error) {
				close(ctx.past)
				return hang(try, onDelta)
			})
			_, err := m.Generate(ctx, request, nil)
			return err
		}
		m := p.For(e.Workspace)
		for range 6 {
			if err := cut(m); llm.ClassOf(err) != llm.ClassTimeout || errors.Is(err, resilient.ErrOpen) {
				t.Fatalf("got %v", err)
			}
		}
		f.does(fail(llm.ClassUnavailable))
		for range 2 {
			_, _ = p.ask(t)
		}
		p.wait(31 * time.Second)
		m = p.For(e.Workspace)
		for range 2 {
			for _, m := range []*resilient.Model{m, p.For(e.Workspace)} {
				if err := cut(m); llm.ClassOf(err) != llm.ClassTimeout || errors.Is(err, resilient.ErrOpen) {
					t.Fatalf("a probe: %v", err)
				}
			}
		}
		if n := strings.Count(p.log.String(), "circuit probed"); n != 4 {
			t.Errorf("%d calls of 4 were probes", n)
		}
		f.does(say("hi"))
		if resp, err := m.Generate(t.Context(), request, nil); err != nil || resp.Text != "hi" {
			t.Errorf("the next probe: %+v, %v", resp, err)
		}
	})
}

// deadline is a context whose deadline passes when the test says so.
type deadline struct {
	context.Context
	past chan struct{}
}

func (d deadline) Done() <-chan struct{} { return d.past }

func (d deadline) Err() error {
	select {
	case <-d.past:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// between runs a function after a statement about a circuit and before its result is returned.
type between struct {
	resilient.Circuits
	loaded, claimed func()
	failed          func(resilient.Circuit)
}

func (b *between) Load(ctx context.Context, ws db.Workspace, keys []resilient.Key) ([]resilient.Circuit, error) {
	c, err := b.Circuits.Load(ctx, ws, keys)
	if b.loaded != nil {
		b.loaded()
	}
	return c, err
}

func (b *between) Failed(ctx context.Context, ws db.Workspace, k resilient.Key, class llm.ErrorClass, wait time.Duration) (resilient.Circuit, error) {
	c, err := b.Circuits.Failed(ctx, ws, k, class, wait)
	if b.failed != nil {
		b.failed(c)
	}
	return c, err
}

func (b *between) Claim(ctx context.Context, ws db.Workspace, k resilient.Key, lease time.Duration) (bool, error) {
	claimed, err := b.Circuits.Claim(ctx, ws, k, lease)
	if b.claimed != nil {
		b.claimed()
	}
	if ctx.Err() != nil { // a canceled caller gets no result
		return false, ctx.Err()
	}
	return claimed, err
}

// If a caller's time ends while the probe is claimed for it, the next caller may probe.
func TestTheCallersEndWhileItClaimsTheProbe(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		f := provider("first", fail(llm.ClassUnavailable))
		b := &between{Circuits: newStore(t, e.DB)}
		clock := func() time.Time { return time.Now().Add(e.Skew.Offset()) }
		m := chain(t, func(c *resilient.Config) { c.Circuits, c.Clock = b, clock }, resilient.Provider{Model: f}).For(e.Workspace)
		for range 2 {
			_, _ = m.Generate(t.Context(), request, nil)
		}
		e.Skew.Advance(31 * time.Second)
		f.does(say("hi"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b.claimed = cancel
		if _, err := m.Generate(ctx, request, nil); llm.ClassOf(err) != llm.ClassCanceled {
			t.Errorf("cut off it got %v", err)
		}
		if resp, err := m.Generate(t.Context(), request, nil); err != nil || resp.Text != "hi" {
			t.Errorf("the next probe: %+v, %v", resp, err)
		}
	})
}

// A late result of a call does not close a circuit that another call has opened.
func TestAnAnswerThatComesLate(t *testing.T) {
	for name, hold := range map[string]func(b *between, late func()){
		"of a load":      func(b *between, late func()) { b.loaded = late },
		"of the failure": func(b *between, late func()) { b.failed = func(resilient.Circuit) { late() } },
	} {
		onEach(t, func(t *testing.T, e dbtest.Env) {
			f := provider("first", fail(llm.ClassUnavailable))
			b := &between{Circuits: newStore(t, e.DB)}
			m := chain(t, func(c *resilient.Config) { c.Circuits = b }, resilient.Provider{Model: f}).For(e.Workspace)
			begun, others, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
			var first atomic.Bool
			hold(b, func() {
				if first.CompareAndSwap(false, true) {
					close(begun)
					<-others
				}
			})
			go func() {
				defer close(ended)
				_, _ = m.Generate(t.Context(), request, nil)
			}()
			<-begun
			for range 2 {
				_, _ = m.Generate(t.Context(), request, nil)
			}
			close(others)
			<-ended
			if n := f.times(); n != 5 {
				t.Errorf("an answer late %s: asked %d times", name, n)
			}
		})
	}
}

// A provider that is silent for the time of a try has failed.
func TestSilenceOpensACircuit(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		f := provider("first", hang)
		store := newStore(t, e.DB)
		w := chain(t, func(c *resilient.Config) { c.Circuits, c.Silence = store, 250*time.Millisecond }, resilient.Provider{Model: f})
		m := w.For(e.Workspace)
		for range 2 {
			if _, err := m.Generate(t.Context(), request, nil); llm.ClassOf(err) != llm.ClassTimeout {
				t.Errorf("got %v", err)
			}
		}
		_, err := m.Generate(t.Context(), request, nil)
		if refused(t, err, llm.ClassUnavailable, 30*time.Second); f.times() != 5 {
			t.Error("asked more than 5 times")
		}
	})
}

// An invocation reads all its circuits in one query, and writes nothing while all calls succeed.
func TestWhatCircuitsCost(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		f, second := provider("first", say("hi")), provider("second", say("hi"))
		p := newProcess(t, e, resilient.Provider{Model: f}, resilient.Provider{Model: second})
		m := p.For(e.Workspace)
		cost := func(calls int) db.Stats {
			before := e.DB.Stats()
			for range calls {
				_, _ = m.Generate(t.Context(), request, nil)
			}
			return e.DB.Stats().Sub(before)
		}
		if got := cost(10); got != (db.Stats{Statements: 2, RoundTrips: 1}) {
			t.Errorf("ten calls cost %+v", got)
		}
		p.later.Add(int64(30 * time.Second))
		if got := cost(10); got.RoundTrips != 1 {
			t.Errorf("ten calls half a minute later cost %+v", got)
		}
		f.does(fail(llm.ClassUnavailable), fail(llm.ClassUnavailable), say("hi"))
		if got := cost(10); got.RoundTrips != 3 { // two failures, and the success that ends the streak
			t.Errorf("ten calls, the first after two failures, cost %+v", got)
		}
		f.does(fail(llm.ClassUnavailable))
		cost(2)
		if got := cost(10); got.RoundTrips != 0 {
			t.Errorf("ten calls with an open circuit cost %+v", got)
		}
	})
}

// A failing database fails no call. Here it refuses calls within a transaction.
func TestADatabaseThatFails(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		f, second := provider("first", say("hi")), provider("second", say("second"))
		p := newProcess(t, e, resilient.Provider{Model: f}, resilient.Provider{Model: second})
		known := p.For(e.Workspace)
		if _, err := known.Generate(t.Context(), request, nil); err != nil {
			t.Fatal(err)
		}
		probing := p.For(dbtest.NewWorkspace(t, e.DB))
		f.does(fail(llm.ClassUnavailable))
		for range 2 {
			_, _ = probing.Generate(t.Context(), request, nil)
		}
		p.wait(31 * time.Second)
		err := e.DB.Tx(t.Context(), e.Workspace, func(ctx context.Context, _ *db.Tx) error {
			for name, c := range map[string]struct {
				step step
				want string
			}{"well": {say("hi"), "hi"}, "down": {fail(llm.ClassUnavailable), "second"}, "no key": {fail(llm.ClassAuthentication), "second"}} {
				f.does(c.step)
				for _, m := range []*resilient.Model{known, p.For(e.Workspace), probing} {
					for range 3 {
						if resp, err := m.Generate(ctx, request, nil); err != nil || resp.Text != c.want {
							t.Errorf("%s: %+v, %v", name, resp, err)
						}
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(p.log.String(), "circuits can't be kept") {
			t.Errorf("logged %s", &p.log)
		}
	})
}

// Each workspace has its own circuits: an unpaid bill of one does not affect another.
func TestWorkspacesHaveTheirOwnCircuits(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		f := provider("first", fail(llm.ClassBilling), say("hi"))
		p := newProcess(t, e, resilient.Provider{Model: f})
		_, _ = p.ask(t)
		_, err := p.ask(t)
		refused(t, err, llm.ClassBilling, time.Hour)
		p.Workspace = dbtest.NewWorkspace(t, e.DB)
		if resp, err := p.ask(t); err != nil || resp.Text != "hi" {
			t.Errorf("elsewhere: %+v, %v", resp, err)
		}
	})
}

// One model serves many concurrent calls.
func TestCallsAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		f, second := provider("first", fail(llm.ClassUnavailable)), provider("second", say("second"))
		p := newProcess(t, e, resilient.Provider{Model: f}, resilient.Provider{Model: second})
		m := p.For(e.Workspace)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 5 {
					if resp, err := m.Generate(t.Context(), request, nil); err != nil || resp.Text != "second" {
						t.Errorf("got %+v, %v", resp, err)
					}
				}
			})
		}
		wg.Wait()
		if n := f.times(); n < 5 || n > 12 { // includes calls that had begun when the circuit opened
			t.Errorf("the first was asked %d times", n)
		}
	})
}
