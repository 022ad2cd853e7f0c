package lane_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig/proxy"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

// acquireText is part of every acquire that is sent to Postgres.
const acquireText = "lk_lane_acquire"

// behindAProxy runs fn on the engines that are reached over a network. w goes through a proxy;
// direct is the same world without the proxy.
func behindAProxy(t *testing.T, fn func(t *testing.T, w, direct world, p *proxy.Proxy)) {
	t.Helper()
	for _, engine := range []string{dbtest.OnPostgres, dbtest.OnPgBouncer} {
		t.Run(engine, func(t *testing.T) {
			direct := newWorld(t, dbtest.New(t, engine))
			p, err := proxy.Start(direct.URL)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Close)
			w := direct
			w.URL = p.URL
			fn(t, w.another(t), direct, p)
		})
	}
}

// ways are all the ways to acquire lane x.
var ways = map[string]func(ctx context.Context, w world, r lane.Request) (token string, err error){
	"Acquire": func(ctx context.Context, w world, r lane.Request) (string, error) {
		h, err := w.s.Acquire(ctx, r)
		return token(h), err
	},
	"AcquireAll": func(ctx context.Context, w world, r lane.Request) (string, error) {
		other := r
		other.Lane = "y"
		hs, err := w.s.AcquireAll(ctx, r, other)
		if err != nil {
			return "", err
		}
		return hs[0].Token, nil
	},
	"Do": func(ctx context.Context, w world, r lane.Request) (token string, err error) {
		err = w.s.Do(ctx, r, lane.Wait{}, func(_ context.Context, h *lane.Hold) error {
			token = h.Token
			return nil
		})
		return token, err
	},
}

func token(h *lane.Hold) string {
	if h == nil {
		return ""
	}
	return h.Token
}

// TestALostAnswerDoesNotCostTheLane: the answer of an acquire is lost, and the caller still gets
// the lane.
func TestALostAnswerDoesNotCostTheLane(t *testing.T) {
	behindAProxy(t, func(t *testing.T, w, direct world, p *proxy.Proxy) {
		for name, take := range ways {
			for kind, lost := range map[string]string{"the acquire": acquireText, "the commit": "COMMIT"} {
				if lost == "COMMIT" && name != "AcquireAll" {
					continue // it is sent together with the acquire
				}
				t.Run(name+", "+kind, func(t *testing.T) {
					if err := w.DB.Check(t.Context()); err != nil {
						t.Fatal(err)
					}
					hit := p.At(lost, proxy.Fault{Kind: proxy.CutAnswer})
					got, err := take(t.Context(), w, w.request("x"))
					if err != nil || got == "" {
						t.Errorf("got %q, %v", got, err)
					}
					used(t, hit)
					direct.force(t, "x")
					direct.force(t, "y")
				})
			}
		}
	})
}

// TestAnAcquireWithoutAnAnswerLeavesNoHold: no answer ever comes, and no unknown hold keeps the
// lane.
func TestAnAcquireWithoutAnAnswerLeavesNoHold(t *testing.T) {
	behindAProxy(t, func(t *testing.T, w, direct world, p *proxy.Proxy) {
		for name, take := range ways {
			t.Run(name, func(t *testing.T) {
				if err := w.DB.Check(t.Context()); err != nil {
					t.Fatal(err)
				}
				var hits []<-chan struct{}
				for range 4 { // the request and its repeats
					lost := acquireText
					if name == "AcquireAll" {
						lost = "COMMIT"
					}
					hits = append(hits, p.At(lost, proxy.Fault{Kind: proxy.CutAnswer}))
				}
				if got, err := take(t.Context(), w, w.request("x")); !errors.Is(err, db.ErrUncertain) {
					t.Errorf("got %q, %v", got, err)
				}
				used(t, hits...)
				direct.mustBeFree(t, "x", "y")
			})
		}
	})
}

// TestACallerThatLeavesItsAcquireLeavesNoHold: a caller that leaves before the answer leaves no
// hold. When the caller knows the token, the hold stays, because the caller can repeat the request.
func TestACallerThatLeavesItsAcquireLeavesNoHold(t *testing.T) {
	behindAProxy(t, func(t *testing.T, w, direct world, p *proxy.Proxy) {
		for name, known := range map[string]string{"token of its own": "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "no token": ""} {
			t.Run(name, func(t *testing.T) {
				if err := w.DB.Check(t.Context()); err != nil {
					t.Fatal(err)
				}
				p.At(acquireText, proxy.Fault{Kind: proxy.SwallowAnswers})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r := w.request("x")
				r.Token = known
				left := make(chan error, 1)
				go func() {
					_, err := w.s.Acquire(ctx, r)
					left <- err
				}()
				direct.awaitHold(t, "x")
				cancel()
				if err := <-left; !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
				if known == "" {
					direct.mustBeFree(t, "x")
				} else if h := acquire(t, direct.s, r); h.Token != known {
					t.Errorf("repeated: %+v", h)
				}
				direct.force(t, "x")
			})
		}
	})
}

// TestAReleaseThatFailedIsMadeUpFor: the database is away when a hold is released. The hold is
// released later, before it expires.
func TestAReleaseThatFailedIsMadeUpFor(t *testing.T) {
	behindAProxy(t, func(t *testing.T, w, direct world, p *proxy.Proxy) {
		h := acquire(t, w.s, w.request("x"))
		p.Set(proxy.Fault{Kind: proxy.Cut})
		if err := w.s.Drop(t.Context(), h); err == nil || errors.Is(err, lane.ErrLost) {
			t.Fatalf("released without a database: %v", err)
		}
		if got, err := w.s.Settle(t.Context(), nothingElse); err == nil || len(got) != 0 {
			t.Errorf("settled without a database: %v, %v", got, err)
		}
		p.Set(proxy.Fault{})
		if got, err := w.s.Settle(t.Context(), nothingElse); err != nil || len(got) != 1 || got[0].Lane != "x" {
			t.Errorf("settled: %v, %v", got, err)
		}
		direct.mustBeFree(t, "x")
		other := acquire(t, direct.s, direct.request("x"))
		if got, err := w.s.Settle(t.Context(), nothingElse); err != nil || len(got) != 0 {
			t.Errorf("settled twice: %v, %v", got, err)
		}
		direct.release(t, other)
	})
}

func nothingElse(*db.Batch, *lane.Hold) {}

// TestWhatGoesWithALateReleaseIsNotForgotten: the additional writes of a late release are in its
// transaction. If the release fails, the next one releases the hold together with them.
func TestWhatGoesWithALateReleaseIsNotForgotten(t *testing.T) {
	behindAProxy(t, func(t *testing.T, w, direct world, p *proxy.Proxy) {
		h := acquire(t, w.s, w.request("x"))
		p.Set(proxy.Fault{Kind: proxy.Cut})
		if err := w.s.Drop(t.Context(), h); err == nil {
			t.Fatal("released without a database")
		}
		p.Set(proxy.Fault{})
		refused := func(b *db.Batch, _ *lane.Hold) { b.Exec(w.q.Put, "k", "not a number", "w") }
		if got, err := w.s.Settle(t.Context(), refused); err == nil || len(got) != 0 {
			t.Fatalf("settled: %v, %v", got, err)
		}
		if !direct.peek(t, "x").Held() {
			t.Error("the lane is released without what goes with it")
		}
		done := 0
		if got, err := w.s.Settle(t.Context(), func(*db.Batch, *lane.Hold) { done++ }); err != nil || len(got) != 1 || done != 1 {
			t.Errorf("settled, %d times: %v, %v", done, got, err)
		}
		direct.mustBeFree(t, "x")
	})
}

// TestHoldsAreDroppedThoughOneIsOver: several holds are dropped together. An expired one does not
// prevent the release of the others, nor their additional writes.
func TestHoldsAreDroppedThoughOneIsOver(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a, b := acquire(t, w.s, w.request("a")), acquire(t, w.s, w.request("b"))
		w.force(t, "a")
		done := 0
		if err := w.s.DropAll(t.Context(), lane.Holds{b, a}, func(*db.Batch) { done++ }); !errors.Is(err, lane.ErrLost) || done != 2 {
			t.Errorf("dropped: %v, with %d", err, done)
		}
		w.mustBeFree(t, "a", "b")
		if !b.Ended() || a.Ended() {
			t.Errorf("ended: %v, %v", a.Ended(), b.Ended())
		}
		c := acquire(t, w.s, w.request("c"))
		if err := w.s.DropAll(t.Context(), lane.Holds{b, c}, nil); err != nil || !c.Ended() {
			t.Errorf("dropped: %v", err)
		}
	})
}

// TestAReleaseThatFailedIsTheCallersToRepeat: a caller that has the token may continue with a hold
// whose release failed. Nobody takes the hold from it.
func TestAReleaseThatFailedIsTheCallersToRepeat(t *testing.T) {
	behindAProxy(t, func(t *testing.T, w, _ world, p *proxy.Proxy) {
		h := acquire(t, w.s, w.request("x"))
		p.Set(proxy.Fault{Kind: proxy.Cut})
		if err := w.s.Release(t.Context(), h); err == nil {
			t.Fatal("released without a database")
		}
		p.Set(proxy.Fault{})
		if got, err := w.s.Settle(t.Context(), nothingElse); err != nil || len(got) != 0 {
			t.Errorf("settled: %v, %v", got, err)
		}
		w.release(t, h)
	})
}

// awaitHold returns when somebody holds the lane.
func (w world) awaitHold(t testing.TB, name lane.Name) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; {
		i, err := w.s.Peek(t.Context(), w.Workspace, name)
		if err == nil && i.Held() {
			return
		}
		if err != nil && !errors.Is(err, db.ErrNoRows) || time.Now().After(until) {
			t.Fatalf("nobody takes lane %s: %v", name, err)
		}
	}
}

// used fails unless all faults have occurred.
func used(t *testing.T, hits ...<-chan struct{}) {
	t.Helper()
	for i, hit := range hits {
		select {
		case <-hit:
		default:
			t.Fatalf("fault %d of %d did not come to pass", i+1, len(hits))
		}
	}
}

// TestWhatCannotBeRepeatedStaysUnknown: an acquire whose answer was lost and that cannot be
// repeated stays unknown, also if the caller's time ends meanwhile. A caller that has its own token
// must release the lane.
func TestWhatCannotBeRepeatedStaysUnknown(t *testing.T) {
	behindAProxy(t, func(t *testing.T, w, _ world, p *proxy.Proxy) {
		var lost atomic.Bool
		p.OnRequest(func(data []byte) proxy.Fault {
			switch {
			case lost.Load():
				return proxy.Fault{Kind: proxy.Swallow}
			case bytes.Contains(data, []byte(acquireText)):
				lost.Store(true)
				return proxy.Fault{Kind: proxy.CutAnswer}
			}
			return proxy.Fault{}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		r := w.request("x")
		r.Token = "0193a1f0-0000-4000-8000-000000000001"
		if _, err := w.s.Acquire(ctx, r); !lost.Load() || !errors.Is(err, db.ErrUncertain) {
			t.Errorf("it came to %v", err)
		}
	})
}
