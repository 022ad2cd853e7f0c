package api_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/sse"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// ticking is a clock that the test controls.
type ticking chan time.Time

// Ticks implements [sse.Clock].
func (c ticking) Ticks(time.Duration) (<-chan time.Time, func()) { return c, func() {} }

// TestLooksAreConstantInFollowers counts the statements of ticks without events. They are the same
// for one follower and for fifty. Then all followers get a new event.
func TestLooksAreConstantInFollowers(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, n := range []int{1, 50} {
			clock := ticking(make(chan time.Time))
			s := newStation(t, w, sse.Streams{Clock: clock})
			var all []*tuned
			for range n {
				f := s.tune(t, "", "")
				f.next()
				all = append(all, f)
			}
			w.costs(t, clock, n, 1)
			s.happen(t, "look")
			hear(t, clock, all, func(f *tuned) bool { return f.event().skill(t) == "look" })
			for _, f := range all {
				f.leave()
			}
		}
	})
}

// TestLooksAtARunAreConstantInFollowers does the same with an execution's journal. No entry is read
// twice.
func TestLooksAtARunAreConstantInFollowers(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, n := range []int{1, 50} {
			clock := ticking(make(chan time.Time))
			w := newWorld(t, w.Env, func(d *api.Deps) {
				streams := sse.Streams{For: time.Minute, Most: 1000, Clock: clock}
				d.Streams = &streams
			})
			server := httptest.NewServer(w)
			t.Cleanup(server.Close)
			j := w.journal(t)
			j.says(t, "before")
			s := &station{world: w, as: owner, url: server.URL + "/api/v1/executions/" + j.exec.ID + "/events"}
			var all []*tuned
			for range n {
				f := s.tune(t, "", "")
				if b := f.event(); !strings.Contains(b["data"], "before") {
					t.Fatalf("it begins with %v", b)
				}
				all = append(all, f)
			}
			w.costs(t, clock, n, 2)
			j.says(t, "then")
			hear(t, clock, all, func(f *tuned) bool { return strings.Contains(f.event()["data"], `"then"`) })
			j.end(t)
			hear(t, clock, all, func(f *tuned) bool { b := f.event(); return b["event"] == "done" && f.next() == nil })
		}
	})
}

// costs lets the clock tick, and compares the statements of the ticks with those of one look.
func (w *world) costs(t *testing.T, clock ticking, followers int, ofLook int64) {
	t.Helper()
	clock <- time.Time{}
	before := w.Deps.DB.Stats().Statements // including the first look
	for range 10 {
		clock <- time.Time{}
	}
	if got := w.Deps.DB.Stats().Statements - before; got < 9*ofLook || got > 11*ofLook {
		t.Errorf("%d followers: %d statements in 10 ticks, a look has %d", followers, got, ofLook)
	}
}

// hear lets the clock tick until all followers have heard what they wait for.
func hear(t *testing.T, clock ticking, all []*tuned, heard func(*tuned) bool) {
	t.Helper()
	var hearing sync.WaitGroup
	for _, f := range all {
		hearing.Go(func() {
			if !heard(f) {
				t.Error("a follower hears something else")
			}
		})
	}
	done := make(chan struct{})
	go func() { hearing.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return
		case clock <- time.Time{}:
		}
	}
}

// journal is an execution whose journal the test writes.
type journal struct {
	*world
	exec execution.Execution
	hold *lane.Hold
	seq  int
}

func (w *world) journal(t testing.TB) *journal {
	t.Helper()
	id := ids()
	j := &journal{world: w, exec: execution.Execution{
		ID: id, Agent: activity.Operator, Surface: trace.Operate, Trace: w.Traces.New(trace.Operate), Subject: lane.Execution(id), Attempt: 1,
	}}
	var err error
	j.hold, err = w.Lanes.Acquire(context.Background(), lane.Request{Workspace: w.Workspace, Lane: j.exec.Subject, Holder: "test"})
	if err != nil {
		t.Fatal(err)
	}
	j.write(t, func(tx lane.Tx) error { return w.Runs.Start(tx, j.exec) })
	return j
}

func (j *journal) write(t testing.TB, fn func(lane.Tx) error) {
	t.Helper()
	if err := j.Lanes.InHold(context.Background(), j.hold, func(_ context.Context, tx lane.Tx) error { return fn(tx) }); err != nil {
		t.Fatal(err)
	}
}

// says adds an answer of the model to the journal.
func (j *journal) says(t testing.TB, text string) {
	t.Helper()
	j.seq++
	j.write(t, func(tx lane.Tx) error {
		return j.Runs.Append(tx, j.exec, execution.Entry{
			Seq: j.seq, Step: j.seq, Kind: execution.Model, Status: execution.Succeeded, Body: json.RawMessage(`{"message":{"role":"assistant","text":"` + text + `"}}`),
		})
	})
}

func (j *journal) end(t testing.TB) {
	t.Helper()
	j.write(t, func(tx lane.Tx) error {
		return j.Runs.Leave(tx, j.exec, execution.Completed, json.RawMessage(`{}`), "")
	})
}
