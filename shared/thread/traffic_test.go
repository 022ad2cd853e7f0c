package thread_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// TestTrafficUnderKills: twenty senders talk in a hundred threads. Senders and carriers are killed:
// in the middle of a transaction, with a claim before or after the channel accepted the message, or
// with a lock. Each message reaches the person once, and the messages of one sender arrive in
// order.
func TestTrafficUnderKills(t *testing.T) {
	for engine, messages := range map[string]int{dbtest.OnSQLite: 1_000, dbtest.OnPostgres: 300, dbtest.OnPgBouncer: 100} {
		t.Run(engine, func(t *testing.T) {
			switch {
			case promise.Full():
				messages = 10_000
			case testing.Short():
				messages = 60
			}
			proof := promise.Of(t, "R14", "messages of 20 senders in 100 threads under kills, on "+engine, "order kept, lost 0, twice 0")
			tr := &traffic{world: newWorld(t, dbtest.New(t, engine)), t: t, each: messages / senders, seed: promise.Seed(t)}
			for i := range threads {
				tr.threads = append(tr.threads, tr.open(t, numbered(i)))
			}
			tr.run()
			tr.check()
			proof.Tell("%d messages, %d kills, lost 0, twice 0", messages, tr.kills.Load())
		})
	}
}

const (
	senders  = 20
	threads  = 100
	carriers = 4
)

type traffic struct {
	*world
	t       *testing.T
	threads []string
	each    int // messages of a sender
	seed    uint64
	sending atomic.Int32
	// attempts counts what was tried to be sent.
	attempts atomic.Int64
	kills    atomic.Int32
}

func (tr *traffic) run() {
	tr.sending.Store(senders)
	var all sync.WaitGroup
	for i := range senders {
		all.Go(func() { tr.sender(i) })
	}
	for range carriers {
		all.Go(tr.carry)
	}
	all.Wait()
	// Locks and claims of killed senders are found only by time: by the first sweep after the
	// expiry.
	for range 12 {
		tr.Skew.Advance(thread.Idle + time.Second)
		tr.sweep(tr.t)
		tr.drain(tr.t)
		for _, th := range tr.threads {
			switch got := tr.get(tr.t, th); {
			case got.Lock.State == thread.Stale:
				tr.t.Errorf("thread %s is still held by %s, which is gone", th, got.Lock.Holder)
			case got.Lock.State == thread.Free && got.Queued > 0:
				tr.t.Errorf("%d messages wait for thread %s, which nobody holds", got.Queued, th)
			}
		}
	}
}

// sender talks with one execution after the other. It abandons some of them without ending them,
// with all threads they hold.
func (tr *traffic) sender(i int) {
	defer tr.sending.Add(-1)
	rnd := rand.New(rand.NewPCG(tr.seed, uint64(i)))
	e := tr.begin(tr.t, "", false)
	for n := range tr.each {
		th := tr.threads[rnd.IntN(threads)]
		m := thread.Outgoing{Thread: th, Execution: e, Key: fmt.Sprintf("%d.%d", i, n), Body: fmt.Sprintf("%s %d %s", e, i, numbered(n))}
		for !tr.attempt(m, rnd) {
			tr.kills.Add(1)
		}
		switch k := rnd.IntN(100); {
		case k < 25:
			tr.complete(tr.t, e)
			e = tr.begin(tr.t, "", false)
		case k < 28:
			e = tr.begin(tr.t, "", false)
		}
	}
	tr.complete(tr.t, e)
}

// attempt sends a message. The first is interrupted before it is committed, and one in thirty anywhere.
func (tr *traffic) attempt(m thread.Outgoing, rnd *rand.Rand) bool {
	ctx, cut := context.WithCancel(tr.t.Context())
	defer cut()
	if rnd.IntN(30) == 0 {
		after := time.AfterFunc(time.Duration(rnd.IntN(3000))*time.Microsecond, cut)
		defer after.Stop()
	}
	first := tr.attempts.Add(1) == 1
	err := tr.DB.Tx(ctx, tr.Workspace, func(ctx context.Context, tx *db.Tx) error {
		_, err := tr.world.threads.Send(ctx, tx, m)
		if first {
			cut()
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		tr.t.Errorf("send: %v", err)
		return true
	}
	return err == nil
}

// carry delivers as long as somebody sends, and starts again after it was killed.
func (tr *traffic) carry() {
	for tr.sending.Load() > 0 {
		died := make(chan bool)
		go func() {
			clean := false
			defer func() { died <- !clean }()
			s := tr.carrier()
			_, err := s.Drain(tr.t.Context(), tr.Workspace, 200)
			if clean = err == nil; err != nil { // the database connection broke: the same as killed
				tr.t.Log(err)
			}
		}()
		if <-died {
			tr.kills.Add(1)
			tr.Skew.Advance(lease) // so that others get what it had claimed
			tr.sweep(tr.t)
		}
	}
}

const lease = 61 * time.Second

func (tr *traffic) carrier() *outbox.Sender {
	return &outbox.Sender{
		Store: tr.outbox, Handlers: tr.world.threads.Handlers(mortal{tr.channel}), Holder: "test", Lease: lease - time.Second, Log: slog.New(slog.DiscardHandler),
	}
}

// mortal is a channel in which a carrier sometimes dies: its goroutine ends, before or after the
// message is accepted.
type mortal struct{ *ledger }

func (m mortal) Send(ctx context.Context, msg thread.Message) error {
	if rand.IntN(100) == 0 {
		runtime.Goexit()
	}
	err := m.ledger.Send(ctx, msg)
	if rand.IntN(100) == 0 {
		runtime.Goexit()
	}
	return err
}

func (tr *traffic) check() {
	t := tr.t
	spoken := map[string][]string{} // by thread
	last := map[string]string{}     // by thread and execution
	seen := map[string]bool{}
	for _, m := range tr.channel.said {
		words := strings.Fields(m.Body)
		if by := m.Thread + words[0]; last[by] >= words[2] {
			t.Errorf("%q was spoken behind %s", m.Body, last[by])
		} else {
			last[by] = words[2]
		}
		if seen[m.Body] {
			t.Errorf("%q was spoken twice", m.Body)
		}
		seen[m.Body] = true
		spoken[m.Thread] = append(spoken[m.Thread], m.Body)
	}
	if want := tr.each * senders; len(seen) != want {
		t.Errorf("%d messages were spoken, want %d", len(seen), want)
	}
	for _, th := range tr.threads {
		var stored []string
		for after, more := int64(0), true; more; {
			var page []thread.Spoken
			var err error
			if page, more, err = tr.world.threads.Messages(t.Context(), tr.Workspace, th, after, 200); err != nil {
				t.Fatal(err)
			}
			for _, m := range page {
				stored, after = append(stored, m.Body), m.Seq
			}
		}
		if !slices.Equal(stored, spoken[th]) {
			t.Errorf("thread %s has stored %d messages, not the %d in the order that the person read", th, len(stored), len(spoken[th]))
		}
		tr.mustHold(t, th)
	}
	t.Logf("%d messages, %d tries, %d kills", len(seen), tr.channel.tries, tr.kills.Load())
	if tr.kills.Load() == 0 {
		t.Error("nobody was killed")
	}
}
