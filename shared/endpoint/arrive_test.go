package endpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/endpoint"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// TestEventsArrive: endpoints of which one answers a third of the requests with errors, redirects or
// 429, one hangs, and one is gone, are told by processes that are killed before and after requests.
// Each change reaches the first endpoint under one id, in order per task, or its delivery has failed
// visibly. Nothing is told of changes that were rolled back. From each request its trace leads to the
// change that began it.
func TestEventsArrive(t *testing.T) {
	for engine, small := range map[string]int{dbtest.OnSQLite: 60, dbtest.OnPostgres: 40, dbtest.OnPgBouncer: 20} {
		t.Run(engine, func(t *testing.T) {
			changes := promise.Figure(small, 2000)
			r12 := promise.Of(t, "R12", "changes told to bad receivers by processes that are killed, on "+engine, "each at least once under one id; of what was rolled back none")
			r30 := promise.Of(t, "R30", "requests of webhooks back to their changes by the trace id, on "+engine, "100 %")
			a := &arrival{world: newWorld(t, dbtest.New(t, engine)), t: t, seed: promise.Seed(t), traces: map[string]string{}, order: map[string]int{}}
			a.to.Sender.Client = mortal{a.to.Sender.Client, a}
			a.to.Sender.Timeout = 200 * time.Millisecond
			a.run(changes)
			told, failed := a.check()
			r12.Tell("%d changes, %d kills, %d requests, %d told, %d failed visibly, 0 lost", changes, a.kills.Load(), len(a.bad.requests()), told, failed)
			r30.Tell("%d of %d", len(a.bad.requests()), len(a.bad.requests()))
		})
	}
}

type arrival struct {
	*world
	t        *testing.T
	seed     uint64
	kills    atomic.Int32
	chances  atomic.Int32
	bad      *receiver
	badID    string
	tasks    []string
	traces   map[string]string // by trace: task and status of the change that was committed
	order    map[string]int    // by trace: its place among all changes
	wantKill atomic.Bool
}

// mortal is a client in which the process sometimes dies: its goroutine ends, before or after the
// request.
type mortal struct {
	endpoint.Client
	a *arrival
}

func (m mortal) DoOnce(r *http.Request) (*http.Response, error) {
	if m.a.dies() {
		runtime.Goexit()
	}
	resp, err := m.Client.DoOnce(r)
	if m.a.dies() {
		if err == nil {
			_ = resp.Body.Close()
		}
		runtime.Goexit()
	}
	return resp, err
}

func (a *arrival) dies() bool {
	if !a.wantKill.Load() || a.chances.Add(1)%9 != 0 { // nine is odd: it dies before and after requests
		return false
	}
	a.kills.Add(1)
	return true
}

func (a *arrival) run(changes int) {
	t := a.t
	rnd := rand.New(rand.NewPCG(a.seed, 12))
	var mu sync.Mutex
	a.bad = receive(t, func(_ int, _ *http.Request, w http.ResponseWriter) {
		mu.Lock()
		k := rnd.IntN(12)
		mu.Unlock()
		switch k {
		case 0, 1:
			w.WriteHeader(http.StatusInternalServerError)
		case 2:
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusFound)
		case 3:
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	free := make(chan struct{})
	hang := receive(t, func(_ int, r *http.Request, _ http.ResponseWriter) {
		select {
		case <-free:
		case <-r.Context().Done():
		}
	})
	defer close(free)
	e, _ := a.add(t, a.bad.URL, endpoint.TaskStatusChanged)
	a.badID = e.ID
	hanging, _ := a.add(t, hang.URL, endpoint.TaskStatusChanged)
	a.add(t, receive(t, answering(http.StatusGone)).URL, endpoint.All)
	for i := range max(4, changes/8) {
		a.tasks = append(a.tasks, a.task(t, fmt.Sprint(i)))
	}
	a.wantKill.Store(true)
	statuses := []string{"ASSIGNED", "RUNNING", "PAUSED", "PENDING"}
	at := map[string]int{}
	for i := range changes {
		id := a.tasks[i%len(a.tasks)]
		a.change(id, "FAILED", true) // is rolled back
		status := statuses[at[id]%len(statuses)]
		at[id]++
		a.change(id, status, false)
		if i%20 == 19 {
			a.drain()
			a.Skew.Advance(6 * time.Second)
		}
		if i == changes/2 { // it has hung long enough for this test
			err := a.DB.Tx(t.Context(), a.Workspace, func(ctx context.Context, tx *db.Tx) error { return a.s.Delete(ctx, tx, hanging.ID) })
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for round := 0; ; round++ {
		a.wantKill.Store(round < 10)
		a.drain()
		open := a.sendings(t)
		if open["ready"]+open["sending"] == 0 {
			break
		}
		if round > 400 {
			t.Fatalf("still open: %v", open)
		}
		a.Skew.Advance(30 * time.Minute)
	}
}

// change sets a task's status in a trace of its own.
func (a *arrival) change(id, status string, undo bool) {
	undone := errors.New("undone")
	of := traces.New(trace.Operate)
	ctx := trace.With(a.t.Context(), of)
	err := a.DB.Tx(ctx, a.Workspace, func(ctx context.Context, tx *db.Tx) error {
		if _, err := tx.Exec(ctx, a.q.SetStatus, id, status); err != nil {
			return err
		}
		if undo {
			return undone
		}
		return nil
	})
	if err != nil && !errors.Is(err, undone) {
		a.t.Fatal(err)
	}
	if !undo {
		a.traces[string(of)], a.order[string(of)] = id+" "+status, len(a.traces)
	}
}

// drain has three processes send what is due. Claims of killed ones are over afterwards.
func (a *arrival) drain() {
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { _, _ = a.sender().Drain(a.t.Context(), a.Workspace, 1000) }) // its error: a goroutine was killed
	}
	all.Wait()
	a.Skew.Advance(40 * time.Second)
}

func (a *arrival) check() (told, failed int) {
	t := a.t
	ids := map[string]map[string]bool{} // by change: the webhook ids
	seen := map[string][]string{}       // by task: the changes in the order in which they came first
	for _, g := range a.bad.requests() {
		var body struct{ TaskID, NewStatus, TraceID string }
		if err := json.Unmarshal(g.body, &body); err != nil {
			t.Fatal(err)
		}
		if want := a.traces[body.TraceID]; want != body.TaskID+" "+body.NewStatus || g.header.Get("X-Trace-Id") != body.TraceID {
			t.Errorf("%s of trace %s, in which %q was committed", g.body, g.header.Get("X-Trace-Id"), want)
		}
		if ids[body.TraceID] == nil {
			ids[body.TraceID] = map[string]bool{}
			seen[body.TaskID] = append(seen[body.TaskID], body.TraceID)
		}
		ids[body.TraceID][g.header.Get("Webhook-Id")] = true
	}
	delivered := map[string]bool{}
	lastFailed := map[string]bool{}
	found, err := a.s.Deliveries(t.Context(), a.Workspace, endpoint.Filter{Endpoint: a.badID, Limit: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range found {
		delivered[string(d.Trace)] = delivered[string(d.Trace)] || d.Status == endpoint.Delivered
		lastFailed[string(d.Trace)] = true
	}
	for of, what := range a.traces {
		switch {
		case delivered[of] && len(ids[of]) == 1:
			told++
		case !delivered[of] && lastFailed[of]:
			failed++
		default:
			t.Errorf("%s of trace %s: delivered %t, ids %v", what, of, delivered[of], ids[of])
		}
	}
	if told < len(a.traces)*9/10 {
		t.Errorf("only %d of %d changes were told", told, len(a.traces))
	}
	for task, order := range seen {
		if !slices.IsSortedFunc(order, func(x, y string) int { return a.order[x] - a.order[y] }) {
			t.Errorf("the changes of task %s came out of order", task)
		}
	}
	if a.kills.Load() == 0 {
		t.Error("nobody was killed")
	}
	return told, failed
}
