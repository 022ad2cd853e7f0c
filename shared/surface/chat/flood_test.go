package chat_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/surface/chat"
)

// neighbour is the token of a site of another workspace.
const neighbour = "token-of-a-neighbour"

// S6: one visitor sends messages as fast as the process takes them. The limit holds, the memory is
// bounded, and the messages of another workspace take hardly longer than without.
func TestAFloodFromOneVisitor(t *testing.T) {
	n, quiet := promise.Figure(1000, 10_000), promise.Figure(20, 300)
	proof := promise.Of(t, "S6", fmt.Sprintf("%d messages from one visitor of a site, as fast as they are taken", n),
		"the limit holds; another workspace's p99 ≤ 2 × without; < 128 MB")
	collectsAsInProduction(t)
	e := dbtest.New(t, dbtest.OnPostgres)
	there := dbtest.NewWorkspace(t, e.DB)
	w := newWorld(t, e, limitedTelling(time.Now, slog.New(slog.DiscardHandler)), func(h *chat.Handler) {
		h.Poll = 0 // as in production: its turns wait in line, and look as often as there
		ours := tokens(e.Workspace)
		h.Auth = auth.New(func(ctx context.Context, token string) (auth.Principal, error) {
			if token == neighbour {
				return auth.Principal{Workspace: there, Kind: auth.Key, ID: "9", Role: auth.Member, Scopes: []auth.Scope{"chat:write"}}, nil
			}
			return ours(ctx, token)
		})
	})
	w.Reason.Model = greeter{}
	begun, number := time.Now(), 0
	// neighbours talk, each visitor once, some in a second.
	talk := func() (times []time.Duration) {
		for range quiet {
			number++
			at := time.Now()
			got := w.call(t, http.MethodPost, messages, neighbour, fmt.Sprintf(`{"message":"Hi.","user":"v%d"}`, number))
			times = append(times, time.Since(at))
			if got.status != 200 {
				t.Fatalf("a neighbour gets %d %s", got.status, got.body)
			}
			if promise.Full() { // as many as a workspace may send in a minute
				time.Sleep(200*time.Millisecond - time.Since(at))
			}
		}
		slices.Sort(times)
		return times
	}
	p99 := func(times []time.Duration) time.Duration { return times[len(times)*99/100] }
	before := p99(talk())

	var served, sent, most atomic.Int64
	var flood sync.WaitGroup
	for range 32 {
		flood.Go(func() {
			for sent.Add(1) <= int64(n) {
				got, err := http.DefaultClient.Do(w.request(t, http.MethodPost, completions, site,
					`{"user":"ann","messages":[{"role":"user","content":"`+strings.Repeat("a", 1000)+`"}]}`))
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, got.Body)
				_ = got.Body.Close()
				switch got.StatusCode {
				case http.StatusOK:
					served.Add(1)
				case http.StatusTooManyRequests:
				default:
					t.Errorf("the flood gets %d", got.StatusCode)
				}
			}
		})
	}
	ended := make(chan struct{})
	var measuring sync.WaitGroup
	measuring.Go(func() {
		var m runtime.MemStats
		for tick := time.Tick(20 * time.Millisecond); ; {
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), int64(m.HeapInuse+m.StackInuse)))
			select {
			case <-tick:
			case <-ended:
				return
			}
		}
	})
	during := p99(talk())
	flood.Wait()
	close(ended)
	measuring.Wait()
	allowed := 21 + int64(time.Since(begun).Minutes()*20)
	proof.Tell("%d were answered, of %d that might be; another workspace's p99 %v, before %v; at most %d MiB", served.Load(), allowed,
		during.Round(time.Millisecond), before.Round(time.Millisecond), most.Load()>>20)
	if got := served.Load(); got < 20 || got > allowed {
		t.Errorf("%d messages of a visitor were answered, not 20 to %d", got, allowed)
	}
	if most.Load() > 128<<20 {
		t.Errorf("it took %d MiB", most.Load()>>20)
	}
	if promise.Full() && during > 2*before {
		t.Errorf("another workspace's p99 is %v, before it was %v", during, before)
	}
}

// collectsAsInProduction has a test that measures memory collect garbage as often as a function does.
func collectsAsInProduction(t *testing.T) {
	usual := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(usual) })
}
