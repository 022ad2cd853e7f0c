package heartbeat_test

import (
	"fmt"
	mathrand "math/rand/v2"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/quiet"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// randomly adds random rows to a workspace that may be work for a beat.
type randomly struct {
	*mathrand.Rand
	b *db.Batch
	n int
	q struct{ Objective, Execution, Row, Thread, Approval, Scheduled, Waiting, Event, Heal, Switch, Activity db.Query }
}

// pick returns one of the values.
func pick[T any](r *randomly, of ...T) T { return of[r.IntN(len(of))] }

// some returns one of the values, or nil.
func some(r *randomly, of ...any) any { return pick(r, append(of, nil)...) }

// age returns a random offset from now in milliseconds. None is near a limit.
func (r *randomly) age() int64 {
	return pick(r, -400*24*time.Hour, -8*24*time.Hour, -2*24*time.Hour, -90*time.Minute, -20*time.Minute, -time.Second, 30*time.Minute, 40*24*time.Hour).Milliseconds()
}

// a topic that this process sends, and one that it does not
const sentHere, sentElsewhere = "late", "later"

var skillNames = []string{"query_activity", "save_memory", "unknown", "heartbeat.advance"}

// row adds a row to a random table.
func (r *randomly) row(slots ...string) {
	r.n++
	unfinished := pick(r, "running", "waiting", "parked", "completed")
	switch r.IntN(12) {
	case 0:
		r.b.Exec(r.q.Objective, ids(), pick(r, "active", "paused", "completed"))
	case 1, 2: // with a lane
		r.b.Exec(r.q.Execution, ids(), pick(r, "hb", "op"), fmt.Sprint("lane:", r.n), nil, unfinished, nil, r.age())
	case 3: // without a lane
		r.b.Exec(r.q.Execution, ids(), pick(r, "op", "wk"), nil, nil, unfinished, some(r, 60, 10_000_000), r.age())
	case 4:
		r.b.Exec(r.q.Execution, ids(), "hb", lane.Heartbeat, pick(r, slots...)+fmt.Sprint(r.n), "completed", nil, r.age())
	case 5:
		status := pick(r, "ready", "sending", "failed", "queued")
		key := some(r, fmt.Sprint("o:", r.n))
		if status == "queued" {
			key = fmt.Sprint("thread:", r.n)
		}
		r.outbox(pick(r, sentHere, sentElsewhere), key, status)
	case 6: // a thread, perhaps with a queued message or an active execution
		id, active := ids(), any(nil)
		var locked, until any
		parked := any(nil)
		if r.IntN(3) > 0 {
			active, locked = ids(), r.age()
			if r.IntN(2) == 0 {
				r.b.Exec(r.q.Execution, active, "op", nil, nil, unfinished, nil, r.age())
			}
			if parked = pick(r, any(nil), active, any(ids())); parked != nil {
				until = r.age()
			}
		}
		r.b.Exec(r.q.Thread, id, fmt.Sprint(r.n), active, locked, parked, until)
		if r.IntN(2) == 0 {
			r.outbox(sentHere, "thread:"+id, "queued")
		}
	case 7:
		r.b.Exec(r.q.Approval, ids(), pick(r, "pending", "rejected"), r.age())
	case 8:
		r.b.Exec(r.q.Scheduled, ids(), fmt.Sprint(r.n), some(r, r.age()))
	case 9:
		r.b.Exec(r.q.Waiting, ids(), fmt.Sprint(r.n), pick(r, "memory.saved", "task.done"), pick(r, int64(0), 1<<60), pick(r, int64(0), 1<<60), r.age())
		for range r.IntN(3) {
			r.b.Exec(r.q.Event, pick(r, "memory.saved", "task.done"), r.age())
		}
	case 10:
		r.b.Exec(r.q.Heal, ids(), skillNames[r.n%len(skillNames)], pick(r, "active", "probing", "restored"), r.age())
		if r.n == 1 && r.IntN(2) == 0 {
			scope := pick(r, "workspace", "agent", "skill", "model")
			target := map[string]string{"agent": pick(r, activity.Operator, "ada"), "skill": "s", "model": "m"}[scope]
			r.b.Exec(r.q.Switch, ids(), scope, target, some(r, "ada"))
		}
	case 11:
		name, since := pick(r, skillNames...), pick(r, r.age(), -1000)
		for range r.IntN(6) {
			r.b.Exec(r.q.Activity, ids(), name, pick(r, "success", "error", "error", "error", "error", "error"), some(r, `{"class":"ours"}`, `{"class":"refused"}`, `{"text":"x"}`), since)
		}
	}
}

func (r *randomly) outbox(topic string, order any, status string) {
	var seq, token, until any
	if order != nil {
		seq = r.n
	}
	if status == "sending" {
		token, until = ids(), r.age()
	}
	r.b.Exec(r.q.Row, ids(), topic, fmt.Sprint(r.n), order, seq, status, r.age(), token, until, r.age(), some(r, ids()))
}

// TestWhatAFullLookFindsIsFoundByTheFirst checks, in many random states, that the first statement
// of a beat shows whether there is work. A beat reads no more if it shows none.
func TestWhatAFullLookFindsIsFoundByTheFirst(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		seed := mathrand.Uint64()
		r := &randomly{Rand: mathrand.New(mathrand.NewPCG(seed, 1))} //nolint:gosec // a test
		dbtest.Load(t, "testdata/quiet", &r.q)
		w := newWorld(t, e, idle(t))
		w.Sender.Handlers = map[string]outbox.Handler{sentHere: nil}
		seen, still := map[string]int{}, 0
		rounds := map[string]int{dbtest.OnSQLite: 1500, dbtest.OnPostgres: 300, dbtest.OnPgBouncer: 50}[e.Engine]
		for round := range rounds {
			ws := w.Workspace
			if round > 0 {
				ws = dbtest.NewWorkspace(t, w.DB)
			}
			past, slot, next := "heartbeat:a", "heartbeat:b", "heartbeat:c"
			r.b, r.n = new(db.Batch), 0
			for range 1 + r.IntN(2) {
				r.row(past, next)
			}
			if r.b.Len() > 0 {
				if err := w.DB.Do(t.Context(), ws, r.b); err != nil {
					t.Fatalf("seed %d, round %d: %v", seed, round, err)
				}
			}
			var b db.Batch
			first := w.Quiet.Look(&b, quiet.Question{Slot: slot, Topics: w.Sender.Topics(), Reflection: "heartbeat.reflect", Back: time.Hour})
			due, open := w.Objectives.Due(&b, 200), w.Runs.Open(&b, trace.Heartbeat, lane.Heartbeat)
			unsent, stale, unanswered := w.Outbox.Due(&b, w.Sender.Topics()...), w.Threads.Due(&b), w.Approvals.Pending(&b)
			automations, failing, orphans := w.Automations.Due(&b, 200), w.Heals.Look(&b), w.Heals.Orphans(&b)
			switches, ran := w.Switches.On(&b), w.Runs.Slot(&b, trace.Heartbeat, slot)
			if err := w.DB.Read(t.Context(), ws, &b); err != nil {
				t.Fatalf("seed %d, round %d: %v", seed, round, err)
			}
			for name, found := range map[string]bool{
				"objectives": len(*due) > 0, "open": len(*open) > 0, "unsent": *unsent > 0, "stale": *stale > 0,
				"overdue": unanswered.Overdue > 0, "unanswered": unanswered.Count > 0, "automations": len(*automations) > 0,
				"findings": len(failing.Findings) > 0, "cool": len(failing.Cool) > 0, "cut": len(orphans.Cut) > 0, "silent": len(orphans.Silent) > 0,
				"switches": switches.Run(activity.Operator, "") != "", "slot": len(*ran) > 0,
			} {
				if found {
					seen[name]++
				}
				if found && !first.Work {
					t.Errorf("seed %d, round %d: the full look finds %s, the first nothing", seed, round, name)
				}
			}
			if !first.Work {
				still++
			}
		}
		t.Logf("%v; nothing: %d", seen, still)
		if e.Engine == dbtest.OnSQLite && len(seen) != 13 || still < rounds/10 {
			t.Errorf("too little was seen: %v; nothing: %d", seen, still)
		}
	})
}
