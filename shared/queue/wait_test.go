package queue_test

import (
	"context"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/queue"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// TestAWaitPastItsLimitWarnsWhileItWaits: one warning, with the jobs before it and the jobs that
// block it.
func TestAWaitPastItsLimitWarnsWhileItWaits(t *testing.T) {
	var text strings.Builder
	var mu sync.Mutex
	var told []queue.Waiting
	var over bool
	o := queue.Options{
		Log: slog.New(slog.NewTextHandler(&text, nil)),
		Warn: func(_ context.Context, w queue.Waiting) {
			mu.Lock()
			defer mu.Unlock()
			if over {
				t.Error("it warns of a wait that is over")
			}
			told = append(told, w)
		},
	}
	bubble(t, o, func(t *testing.T, c *crowd) {
		ctx := trace.With(t.Context(), "hb_0mh8c1v2q_a7x2p1k9d4")
		c.comes(t.Context(), in("memory:a"), takes(20*time.Second))
		c.comes(ctx, in("cron"), func(ctx context.Context) error {
			return do(ctx, c.q, in("main"), func(ctx context.Context) error {
				defer func() { mu.Lock(); defer mu.Unlock(); over = true }()
				ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
				defer cancel()
				return do(ctx, c.q, in("memory:a"), fine)
			})
		})
		time.Sleep(time.Second)
		c.comes(t.Context(), in("main"), fine)
		time.Sleep(time.Second / 2)
		c.comes(t.Context(), in("main"), fine)
		for range 2 { // they leave before WarnAfter
			ctx, cancel := context.WithTimeout(t.Context(), 1900*time.Millisecond)
			defer cancel()
			c.comes(ctx, queue.Job{Queue: "main", Class: queue.User}, fine)
		}
		c.Wait()
	})
	if len(told) != 3 || told[0].Queue != "memory:a" {
		t.Fatalf("told %+v", told)
	}
	blocker := queue.Blocker{Chain: []string{"cron", "main"}, Trace: "hb_0mh8c1v2q_a7x2p1k9d4", Active: 3 * time.Second, WaitsFor: []string{"memory:a"}}
	want := queue.Waiting{Queue: "main", Waited: 2 * time.Second, Ahead: 2, Behind: 1, Active: 1, Blockers: []queue.Blocker{blocker}}
	if !reflect.DeepEqual(told[1], want) {
		t.Errorf("told %+v", told[1])
	}
	want.Ahead, want.Behind, want.Blockers[0].Active = 1, 0, 3500*time.Millisecond
	if !reflect.DeepEqual(told[2], want) {
		t.Errorf("told %+v", told[2])
	}
	line := `level=WARN msg="a job waits for its queue" queue=main class=background waited_ms=2000 ahead=2 behind=1 active=1 ` +
		`blockers="[cron → main (hb_0mh8c1v2q_a7x2p1k9d4) for 3s, waits for memory:a]"`
	if !strings.Contains(text.String(), line) || strings.Count(text.String(), "queue=main") != 2 {
		t.Errorf("logged %s", text.String())
	}
}

// TestAWarningNamesTheOldestBlockersAndNotAHundred checks the limit of blockers in a warning.
func TestAWarningNamesTheOldestBlockersAndNotAHundred(t *testing.T) {
	var told queue.Waiting
	o := queue.Options{
		Default: queue.Limits{MaxConcurrent: 100},
		Warn:    func(_ context.Context, w queue.Waiting) { told = w },
	}
	bubble(t, o, func(t *testing.T, c *crowd) {
		for range 100 {
			c.comes(t.Context(), in("main"), takes(time.Minute))
			time.Sleep(time.Millisecond)
		}
		c.comes(t.Context(), in("main"), fine)
	})
	if told.Active != 100 || len(told.Blockers) != 10 || told.Blockers[0].Active != 2100*time.Millisecond {
		t.Errorf("told %+v", told)
	}
}

// TestAWarningThatPanicsLeavesNobodyInTheQueue checks that a panic in Warn removes the job.
func TestAWarningThatPanicsLeavesNobodyInTheQueue(t *testing.T) {
	bubble(t, queue.Options{Warn: func(context.Context, queue.Waiting) { panic("no") }}, func(t *testing.T, c *crowd) {
		c.comes(t.Context(), in("main"), takes(time.Minute))
		func() {
			defer func() {
				if recover() == nil {
					t.Error("nobody learns of it")
				}
			}()
			_ = do(t.Context(), c.q, in("main"), fine)
		}()
		if s := stats(c.q)[""]; s.Depth != 0 || s.Active != 1 {
			t.Errorf("the queue is %+v", s)
		}
	})
}

func TestTheCountsOfALane(t *testing.T) {
	var mu sync.Mutex
	var seen []queue.Done
	o := queue.Options{
		Queues:  map[string]queue.Limits{"session": {}, "cron": {}, "unused": {}},
		Default: queue.Limits{Cap: 1},
		Observe: func(_ context.Context, d queue.Done) { mu.Lock(); defer mu.Unlock(); seen = append(seen, d) },
	}
	bubble(t, o, func(t *testing.T, c *crowd) {
		for _, name := range []string{"session:a", "session:a", "session:b", "any", "any", "any"} {
			c.comes(t.Context(), in(name), takes(5*time.Second))
		}
		c.comes(t.Context(), in("cron"), func(context.Context) error { panic("no") })
		time.Sleep(time.Second)
		hasty, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c.comes(hasty, in("session:b"), fine)
		if s := stats(c.q)["session"]; s.Active != 2 || s.Depth != 2 || s.Oldest != time.Second {
			t.Errorf("sessions meanwhile: %+v", s)
		}
		c.Wait()
		s := stats(c.q)
		if a := s["session"]; a.Completed != 3 || a.Failed != 0 || a.GaveUp != 1 || a.Waited[0].Jobs != 2 || a.Waited[4].Jobs != 1 ||
			a.Waited[4].Until != 10*time.Second || a.Service != 5*time.Second || a.Oldest != 0 {
			t.Errorf("sessions: %+v", a)
		}
		if a := s["cron"]; a.Failed != 1 || a.Completed != 0 {
			t.Errorf("cron: %+v", a)
		}
		if a := s[""]; a.Completed != 2 || a.Refused != 1 {
			t.Errorf("others: %+v", a)
		}
		if len(s) != 4 || s["unused"].Completed != 0 {
			t.Errorf("got %+v", s)
		}
		ran := 0
		for _, d := range seen {
			if d.Started {
				ran++
			} else if d.Queue != "session:b" || d.Waited != time.Second || d.Err == nil {
				t.Errorf("saw %+v", d)
			}
		}
		if len(seen) != 7 || ran != 6 {
			t.Errorf("saw %+v", seen)
		}
	})
}
