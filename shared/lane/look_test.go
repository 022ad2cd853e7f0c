package lane_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestListTellsTheLiveHoldsOldestFirst(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for _, name := range []lane.Name{"z", "expires", "m", "a"} {
			r := w.request(name)
			r.Holder = lane.Holder("holder of " + name)
			if name == "expires" {
				r.TTL = time.Minute
			}
			acquire(t, w.s, r)
			w.Skew.Advance(2 * time.Minute)
		}
		w.release(t, acquire(t, w.s, w.request("released")))
		acquire(t, w.s, lane.Request{Workspace: dbtest.NewWorkspace(t, w.DB), Lane: "foreign", Holder: "x"})

		list, err := w.s.List(t.Context(), w.Workspace, 10)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, i := range list {
			names = append(names, string(i.Lane))
			if !i.Held() || i.Holder != lane.Holder("holder of "+i.Lane) {
				t.Errorf("%+v", i)
			}
		}
		if got := strings.Join(names, " "); got != "z m a" {
			t.Errorf("listed %s", got)
		}
		if oldest := list[0]; !about(oldest.Age, 8*time.Minute) || !about(oldest.Remaining, 2*time.Minute) {
			t.Errorf("age %v, remaining %v", oldest.Age, oldest.Remaining)
		}
		if list, err := w.s.List(t.Context(), w.Workspace, 2); err != nil || len(list) != 2 || list[0].Lane != "z" {
			t.Errorf("of which two: %v, %v", list, err)
		}
	})
}

func TestPeekTellsOfALane(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		if _, err := w.s.Peek(t.Context(), w.Workspace, "never"); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("a lane never used: %v", err)
		}
		var b db.Batch
		never := w.s.PeekIn(&b, "never")
		h := acquire(t, w.s, w.request("x"))
		held := w.s.PeekIn(&b, "x")
		if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		if never.Held() || never.Lane != "" || !held.Held() || held.Fence != h.Fence {
			t.Errorf("never used: %+v, held: %+v", never, held)
		}
		w.Skew.Advance(11 * time.Minute)
		if i := w.peek(t, "x"); i.Held() || i.Remaining != 0 || i.Holder != "holder" {
			t.Errorf("after its expiry: %+v", i)
		}
	})
}

func TestExplain(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		explain := func(name lane.Name, doing func(string) string) lane.Explanation {
			t.Helper()
			e, err := w.s.Explain(t.Context(), w.Workspace, name, doing)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		if e := explain("x", nil); e.Held || e.Lane != "x" || e.Summary != "lane x is free: nobody has held it lately" {
			t.Errorf("never used: %+v", e)
		}

		execution := uuid.NewString()
		ctx := trace.WithExecution(trace.With(t.Context(), "hb_0mh8c1v2q_a7x2p1k9d4"), execution)
		h, err := w.s.Acquire(ctx, lane.Request{Workspace: w.Workspace, Lane: "x", Holder: "heartbeat/i-1/hb", TTL: 20 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.s.Want(ctx, w.Workspace, w.peek(t, "x"), "operate/i-2/op"); err != nil {
			t.Fatal(err)
		}
		w.Skew.Advance(5*time.Minute + 100*time.Millisecond)
		e := explain("x", func(id string) string {
			if id != execution {
				t.Errorf("asked what %s is doing", id)
			}
			return "at step 3"
		})
		// Some real time passes between the acquire and the read.
		for _, part := range []string{
			"lane x is held by heartbeat/i-1/hb, trace hb_0mh8c1v2q_a7x2p1k9d4, at step 3, since 5m",
			"; it ends in 1", " at the latest unless renewed; operate/i-2/op waits for it",
		} {
			if !strings.Contains(e.Summary, part) {
				t.Errorf("%q is not in %q", part, e.Summary)
			}
		}
		if !e.Held || e.Fence != h.Fence {
			t.Errorf("%+v", e)
		}
		if e := explain("x", func(string) string { return "" }); strings.Contains(e.Summary, ", ,") || !strings.Contains(e.Summary, "p1k9d4, since ") {
			t.Errorf("doing nothing known: %q", e.Summary)
		}
		if e := explain("x", nil); !strings.Contains(e.Summary, "p1k9d4, since ") {
			t.Errorf("nobody to ask what it is doing: %q", e.Summary)
		}

		w.release(t, h)
		if e := explain("x", nil); e.Held || e.Summary != "lane x is free; the last to hold it was heartbeat/i-1/hb" {
			t.Errorf("released: %+v", e)
		}
	})
}

func TestABusyErrorSaysWhoAndForHowLong(t *testing.T) {
	err := &lane.BusyError{Info: lane.Info{Lane: "x", Holder: "someone", Remaining: 90 * time.Second}}
	if got := err.Error(); got != "lane x is held by someone for at most another 1m30s" {
		t.Error(got)
	}
}
