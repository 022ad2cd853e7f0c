package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// TestTheLogSaysWhyARowWasNotSent, also where its handler has marked the row itself.
func TestTheLogSaysWhyARowWasNotSent(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	w.enqueue(t, kick("a"))
	var log bytes.Buffer
	s := w.sender(handler(func(ctx context.Context, c outbox.Claimed) error {
		var b db.Batch
		w.s.RetryIn(&b, c, time.Minute, errors.New("it is away"))
		return errors.Join(w.DB.Do(ctx, w.Workspace, &b), outbox.Settled(outbox.Ready, errors.New("it is away")))
	}))
	s.Log = slog.New(slog.NewTextHandler(&log, nil))
	if _, err := s.Drain(t.Context(), w.Workspace, 1); err != nil || !strings.Contains(log.String(), `error="it is away"`) {
		t.Errorf("%v, %s", err, &log)
	}
}

func TestEachRowIsHandedToTheHandlerOfItsTopic(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		row := kick("a")
		row.Payload, row.Execution, row.Trace = payload("p"), ids(), traces.New(trace.Webhook)
		id := w.enqueue(t, row)[0]
		other := kick("b")
		other.Topic = "other"
		left := w.enqueue(t, other)[0]
		r := w.drain(t, handler(func(ctx context.Context, c outbox.Claimed) error {
			if of, _ := trace.From(ctx); of != row.Trace || trace.Execution(ctx) != row.Execution {
				t.Errorf("it runs under the trace %s and the execution %s", of, trace.Execution(ctx))
			}
			if c.Key != "a" || string(c.Payload) != `"p"` || c.Workspace != w.Workspace || c.Attempt != 1 || c.Format != 1 {
				t.Errorf("it got %+v", c)
			}
			end, ok := ctx.Deadline()
			if left := time.Until(end); !ok || left > lease-5*time.Second || left < lease-15*time.Second {
				t.Errorf("it has %s", left)
			}
			if w.get(t, id).Status != outbox.Sending {
				t.Error("its claim is not committed")
			}
			return nil
		}))
		if diff := cmp.Diff(outbox.Report{Claimed: 1, Sent: 1}, r); diff != "" {
			t.Error(diff)
		}
		w.mustBe(t, outbox.Sent, id)
		w.mustBe(t, outbox.Ready, left)
		if r := w.drain(t, nil); r != (outbox.Report{}) {
			t.Errorf("then %+v", r)
		}
	})
}

func TestWhatBecomesOfARow(t *testing.T) {
	boom := errors.New("boom")
	onEach(t, func(t *testing.T, w world) {
		for name, c := range map[string]struct {
			h     outbox.Handler
			want  outbox.Status
			error string
			count outbox.Report
		}{
			"sent":      {handler(func(context.Context, outbox.Claimed) error { return nil }), outbox.Sent, "", outbox.Report{Sent: 1}},
			"retried":   {handler(func(context.Context, outbox.Claimed) error { return boom }), outbox.Ready, "boom", outbox.Report{Retried: 1}},
			"unkeyed":   {unkeyed{func(context.Context, outbox.Claimed) error { return boom }}, outbox.Ready, "boom", outbox.Report{Retried: 1}},
			"put off":   {handler(func(context.Context, outbox.Claimed) error { return fmt.Errorf("x: %w", outbox.Later(boom)) }), outbox.Ready, "boom", outbox.Report{Retried: 1}},
			"permanent": {handler(func(context.Context, outbox.Claimed) error { return fmt.Errorf("x: %w", outbox.Permanently(boom)) }), outbox.Failed, "boom", outbox.Report{Failed: 1}},
			"gone":      {handler(func(context.Context, outbox.Claimed) error { return outbox.Gone(boom) }), outbox.Dead, "boom", outbox.Report{Failed: 1}},
			"uncertain": {handler(func(context.Context, outbox.Claimed) error { return outbox.Uncertainly(boom) }), outbox.Uncertain, "boom", outbox.Report{Uncertain: 1}},
			"panicked":  {handler(func(context.Context, outbox.Claimed) error { panic(boom) }), outbox.Ready, "the handler panicked", outbox.Report{Retried: 1}},
			"unkeyed and panicked": {unkeyed{func(context.Context, outbox.Claimed) error { panic(boom) }}, outbox.Uncertain, "the handler panicked",
				outbox.Report{Uncertain: 1}},
			"settled": {handler(func(ctx context.Context, c outbox.Claimed) error {
				var b db.Batch
				w.s.UncertainIn(&b, c, boom)
				return errors.Join(w.DB.Do(ctx, w.Workspace, &b), outbox.Settled(outbox.Uncertain, boom))
			}), outbox.Uncertain, "boom", outbox.Report{Uncertain: 1}},
			"too late": {handler(func(context.Context, outbox.Claimed) error {
				w.Skew.Advance(2 * lease)
				w.the(t)
				return nil
			}), outbox.Sending, "", outbox.Report{Lost: 1}},
		} {
			id := w.enqueue(t, kick(name))[0]
			c.count.Claimed = 1
			if diff := cmp.Diff(c.count, w.drain(t, c.h)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			if e := w.get(t, id); e.Status != c.want || e.LastError != c.error || (e.Attempts == 0) != (name == "put off") {
				t.Errorf("%s: %+v", name, e)
			}
			w.become(t, id, outbox.Dead)
		}
	})
}

func TestAPoisonRowOfAPanickingHandlerFailsAfterItsTries(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		row := kick("a")
		row.MaxAttempts = 3
		id := w.enqueue(t, row)[0]
		n := 0
		for range 5 {
			w.drain(t, handler(func(context.Context, outbox.Claimed) error { n++; panic("again") }))
			w.Skew.Advance(time.Hour)
		}
		w.mustBe(t, outbox.Failed, id)
		if n != 3 {
			t.Errorf("it was handled %d times", n)
		}
	})
}

func TestRowsThatAClaimEndsAreCounted(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		row := kick("a")
		row.TTL = time.Minute
		expired := w.enqueue(t, row)[0]
		poison := kick("b")
		poison.MaxAttempts = 1
		killed := w.enqueue(t, poison)[0]
		w.become(t, expired, outbox.Ready)
		for _, c := range w.claim(t, 2) {
			if c.Key == "a" {
				if err := w.s.Retry(t.Context(), c, errors.New("no")); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.Skew.Advance(time.Hour)
		last := w.enqueue(t, kick("c"))[0]
		s, seen := w.sender(handler(func(context.Context, outbox.Claimed) error { return nil })), map[outbox.Status]int{}
		s.Observe = func(_ string, status outbox.Status) { seen[status]++ }
		r, err := s.Drain(t.Context(), w.Workspace, 1000)
		if diff := cmp.Diff(outbox.Report{Claimed: 1, Sent: 1, Uncertain: 1, Expired: 1}, r); err != nil || diff != "" {
			t.Error(diff, err)
		}
		if diff := cmp.Diff(map[outbox.Status]int{outbox.Sent: 1, outbox.Uncertain: 1}, seen); diff != "" { // the expired one was not tried
			t.Error(diff)
		}
		w.mustBe(t, outbox.Expired, expired)
		w.mustBe(t, outbox.Uncertain, killed)
		w.mustBe(t, outbox.Sent, last)
	})
}

func TestADrainEndsAtItsLimit(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.enqueue(t, kick("a"), kick("b"), kick("c"))
		var l ledger
		h := handler(func(_ context.Context, c outbox.Claimed) error { l.effect(c.Key); return nil })
		r, err := w.sender(h).Drain(t.Context(), w.Workspace, 2)
		slices.Sort(l.keys)
		if want := (outbox.Report{Claimed: 2, Sent: 2, More: true}); err != nil || r != want || strings.Join(l.keys, "") != "ab" {
			t.Errorf("%+v, %v: %v", r, err, l.keys)
		}
	})
}

// The test uses a virtual clock, which is the database's clock too.
func TestADrainEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
		w.enqueue(t, ordered("a", "o", 1), ordered("b", "o", 2), ordered("c", "o", 3), ordered("d", "o", 4))
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		var had []time.Duration
		h := handler(func(ctx context.Context, c outbox.Claimed) error {
			end, _ := ctx.Deadline()
			had = append(had, time.Until(end), time.Until(c.Until))
			time.Sleep(13 * time.Second)
			return nil
		})
		r, err := w.sender(h).Drain(ctx, w.Workspace, 10)
		if want := (outbox.Report{Claimed: 2, Sent: 2, More: true}); err != nil || r != want {
			t.Errorf("%+v, %v", r, err)
		}
		// The handler ends with its context, and the claim ends soon after.
		if diff := cmp.Diff([]time.Duration{30 * time.Second, 35 * time.Second, 17 * time.Second, 22 * time.Second}, had); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAHandlerThatIsCutOffIsWrittenDown(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.enqueue(t, ordered("a", "o", 1), ordered("b", "o", 2))[0]
		ctx, cancel := context.WithCancel(t.Context())
		h := handler(func(ctx context.Context, _ outbox.Claimed) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		r, err := w.sender(h).Drain(ctx, w.Workspace, 10)
		if want := (outbox.Report{Claimed: 1, Retried: 1, More: true}); !errors.Is(err, context.Canceled) || r != want {
			t.Errorf("%+v, %v", r, err)
		}
		w.mustBe(t, outbox.Ready, id)
	})
}

// The lease of a handler that ignores the end of its context expires. The next sender gets the row,
// and the first handler's writes are rolled back with its mark.
func TestAHandlerThatIsFrozen(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := w.enqueue(t, kick("a"))[0]
		r := w.drain(t, handler(func(ctx context.Context, c outbox.Claimed) error {
			w.Skew.Advance(2 * lease)
			second := w.drain(t, handler(func(context.Context, outbox.Claimed) error { return nil }))
			if second.Sent != 1 {
				t.Errorf("the second: %+v", second)
			}
			return errors.New("the first has failed")
		}))
		if r.Lost != 1 {
			t.Errorf("the first: %+v", r)
		}
		w.mustBe(t, outbox.Sent, id)
	})
}

func TestManyDrainersHandOutEachRowOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		const rows = 60
		for i := range rows {
			w.enqueue(t, kick(numbered(i)))
		}
		var l ledger
		sent := w.together(t, 8, rows, func(_ context.Context, c outbox.Claimed) error {
			l.effect(c.Key)
			return nil
		})
		if sent != rows || len(l.keys) != rows || len(l.count) != rows {
			t.Errorf("%d sent; %d effects of %d rows", sent, len(l.keys), len(l.count))
		}
	})
}

// together drains in n goroutines until the given number of rows is sent.
func (w world) together(t *testing.T, n, rows int, h handler) int {
	t.Helper()
	var wg sync.WaitGroup
	var sent atomic.Int64
	for range n {
		wg.Go(func() {
			for sent.Load() < int64(rows) && !t.Failed() {
				r, err := w.sender(h).Drain(t.Context(), w.Workspace, 1000)
				if err != nil {
					t.Error(err)
					return
				}
				sent.Add(int64(r.Sent))
			}
		})
	}
	wg.Wait()
	return int(sent.Load())
}

// impatient returns the world without delays between attempts.
func (w world) impatient(t testing.TB) world {
	t.Helper()
	var err error
	if w.s, err = outbox.New(w.DB, ids, func() float64 { return 0 }); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestAnOrderKeyIsStrictWhoeverDrains(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		const orders, rows = 4, 8
		w = w.impatient(t)
		var writers sync.WaitGroup
		defer writers.Wait()
		for o := range orders {
			writers.Go(func() {
				for i := range rows {
					var b db.Batch
					w.s.Enqueue(t.Context(), &b, ordered(fmt.Sprintf("o%d.%d", o, i), fmt.Sprintf("o%d", o), int64(i+1)))
					if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
						t.Error(err)
					}
				}
			})
		}
		var mu sync.Mutex
		inFlight, next := map[string]bool{}, map[string]int64{}
		failed := map[string]bool{}
		sent := w.together(t, 20, orders*rows, func(_ context.Context, c outbox.Claimed) error {
			mu.Lock()
			defer mu.Unlock()
			if inFlight[c.OrderKey] || c.Seq != next[c.OrderKey]+1 {
				t.Errorf("row %d of %s while the last was %d, in flight: %v", c.Seq, c.OrderKey, next[c.OrderKey], inFlight[c.OrderKey])
			}
			inFlight[c.OrderKey] = true
			mu.Unlock()
			if _, err := w.s.Get(t.Context(), w.Workspace, c.ID); err != nil { // so that other goroutines run
				t.Error(err)
			}
			mu.Lock()
			inFlight[c.OrderKey] = false
			if c.Seq%3 == 0 && !failed[c.Key] {
				failed[c.Key] = true
				return errors.New("once more")
			}
			next[c.OrderKey] = c.Seq
			return nil
		})
		if sent != orders*rows {
			t.Errorf("%d were sent", sent)
		}
	})
}

func TestTheLogSaysWhatBecameOfARow(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	id := w.enqueue(t, kick("a key of the caller's"))[0]
	var b bytes.Buffer
	s := w.sender(handler(func(context.Context, outbox.Claimed) error { return errors.New("boom") }))
	s.Log = slog.New(trace.NewHandler(slog.NewTextHandler(&b, nil)))
	if _, err := s.Drain(t.Context(), w.Workspace, 10); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"topic=test", "row=" + id, "status=ready", "attempt=1", "error=boom", "trace_id=hb_"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in %s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "caller") {
		t.Errorf("the key is logged: %s", b.String())
	}
}

// A slow receiver neither blocks others nor gets more places than its share. The rows of one order
// key are sent one after the other nevertheless.
func TestASlowReceiverHoldsNobodyUp(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		slow := func(from, to int) {
			for i := from; i < to; i++ {
				row := ordered(numbered(i), "slow"+numbered(i), 1)
				row.Receiver = "slow.example"
				w.enqueue(t, row)
			}
		}
		slow(0, 3)
		for i := range 3 {
			row := ordered("fast"+numbered(i), "fast", int64(i+1))
			row.Receiver = "fast.example"
			w.enqueue(t, row)
		}
		slow(3, 15)
		var l ledger
		let, begun, fast := make(chan struct{}), make(chan struct{}, 20), make(chan struct{}, 3)
		ended := make(chan outbox.Report)
		go func() {
			ended <- w.drain(t, handler(func(_ context.Context, c outbox.Claimed) error {
				if c.Receiver == "slow.example" {
					begun <- struct{}{}
					<-let
				} else {
					l.effect(c.Key)
					fast <- struct{}{}
				}
				return nil
			}))
		}()
		for range 3 {
			<-fast // while the others wait
		}
		for range 4 {
			<-begun
		}
		if n := len(begun); n > 0 {
			t.Errorf("%d rows of the slow one are in hand", 4+n)
		}
		close(let)
		if r := <-ended; r.Sent != 18 {
			t.Errorf("sent %+v", r)
		}
		want := []string{"fast" + numbered(0), "fast" + numbered(1), "fast" + numbered(2)}
		if diff := cmp.Diff(want, l.keys); diff != "" {
			t.Error(diff)
		}
	})
}

// A row that is added while another row is handled is sent by the next run, which does not wait for
// the first run.
func TestTwoRunsShareThePlaces(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.enqueue(t, kick("long"))
		let, begun := make(chan struct{}), make(chan string, 2)
		s := w.sender(handler(func(_ context.Context, c outbox.Claimed) error {
			begun <- c.Key
			if c.Key == "long" {
				<-let
			}
			return nil
		}))
		ended := make(chan error)
		go func() {
			_, err := s.Drain(t.Context(), w.Workspace, 10)
			ended <- err
		}()
		<-begun
		w.enqueue(t, kick("short"))
		if r, err := s.Drain(t.Context(), w.Workspace, 10); err != nil || r.Sent != 1 || <-begun != "short" {
			t.Errorf("the second run: %+v, %v", r, err)
		}
		close(let)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Concurrent runs keep a receiver within its share together. A run that begins while another one
// claims rows, for example after a kick, claims rows itself before it ends.
func TestRunsThatBeginTogetherKeepTheShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
		for i := range 15 {
			row := kick(numbered(i))
			row.Receiver = "slow.example"
			w.enqueue(t, row)
		}
		var inHand, ended atomic.Int64
		let := make(chan struct{})
		s := w.sender(handler(func(context.Context, outbox.Claimed) error {
			inHand.Add(1)
			<-let
			return nil
		}))
		drain := func() {
			if _, err := s.Drain(t.Context(), w.Workspace, 100); err != nil {
				t.Error(err)
			}
			ended.Add(1)
		}
		err := w.DB.Tx(t.Context(), w.Workspace, func(context.Context, *db.Tx) error { // claims wait for it
			for range 3 {
				go drain()
				synctest.Wait()
			}
			if n := ended.Load(); n > 0 {
				t.Errorf("%d runs have ended without a look", n)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := inHand.Load(); n != 4 {
			t.Errorf("%d rows of one receiver are in hand, want 4", n)
		}
		close(let)
		synctest.Wait()
		if inHand.Load() != 15 || ended.Load() != 3 {
			t.Errorf("%d rows were sent, %d runs have ended", inHand.Load(), ended.Load())
		}
	})
}
