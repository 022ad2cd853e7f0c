package approval_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// claim claims the one due row and does not answer, like a process that dies.
func (w *world) claim(t testing.TB, lease time.Duration) outbox.Claimed {
	t.Helper()
	claimed, err := w.box.Claim(t.Context(), outbox.Request{
		Workspace: w.Workspace, Topics: []string{approval.Topic}, Holder: "test", Limit: 10, Lease: lease,
	})
	if err != nil || len(claimed) != 1 {
		t.Fatalf("claimed %+v, %v", claimed, err)
	}
	return claimed[0]
}

// over lets all leases and waits expire.
func (w *world) over() { w.Skew.Advance(10 * time.Minute) }

// mustEnd checks how an approval ended, and how often its skill was called.
func (w *world) mustEnd(t testing.TB, id, message string, row outbox.Status, calls int) {
	t.Helper()
	a := w.get(t, id)
	if a.Status != approval.Executed || a.Error != message || w.row(t, id).Status != row {
		t.Errorf("%s: it is %s (%q), its row is %s (%q)", a.Skill, a.Status, a.Error, w.row(t, id).Status, w.row(t, id).LastError)
	}
	if n, keys := w.ran.count(); n != calls || keys > 1 {
		t.Errorf("%s: %d calls of %d keys, want %d of one", a.Skill, n, keys, calls)
	}
	want := "approval.approve success, " + a.Skill + " success"
	if message != "" {
		want = "approval.approve success, " + a.Skill + " error"
	}
	if story := w.story(t, a); story != want {
		t.Errorf("%s: the log says %s", a.Skill, story)
	}
	w.mustBeFree(t)
}

const cutOff = "uncertain: the call was cut off, and may have had its effect"

// fresh returns the environment with another workspace.
func (w *world) fresh(t testing.TB) dbtest.Env {
	t.Helper()
	e := w.Env
	e.Workspace = dbtest.NewWorkspace(t, w.DB)
	return e
}

// each runs fn once per skill, each time with a fresh world.
func each(t *testing.T, fn func(t *testing.T, w *world, name string)) {
	t.Helper()
	onEach(t, func(t *testing.T, w *world) {
		for _, name := range []string{"note", "post", "blind_post"} {
			fn(t, newWorld(t, w.fresh(t)), name)
		}
	})
}

func TestKilledBetweenTheClaimAndTheCall(t *testing.T) {
	each(t, func(t *testing.T, w *world, name string) {
		id := w.approved(t, name, `{"text":"a"}`)
		w.claim(t, time.Minute)
		if r := w.drain(t); r != (outbox.Report{}) {
			t.Errorf("%s: while it is claimed: %+v", name, r)
		}
		w.over()
		w.drain(t)
		w.mustEnd(t, id, "", outbox.Sent, 1)
	})
}

func TestKilledBetweenTheStartAndTheResult(t *testing.T) {
	each(t, func(t *testing.T, w *world, name string) {
		id := w.approved(t, name, `{"text":"a"}`)
		w.claim(t, time.Minute)
		w.exec(t, w.q.Begin, id)
		w.over()
		w.drain(t)
		if name == "blind_post" { // the outcome is unknown
			w.mustEnd(t, id, cutOff, outbox.Uncertain, 0)
		} else {
			w.mustEnd(t, id, "", outbox.Sent, 1)
		}
	})
}

// TestACallThatWasBegunAndCantBeMadeAgainIsUncertain, even if its skill has changed or can't be
// read any more. A call that was not begun fails.
func TestACallThatWasBegunAndCantBeMadeAgainIsUncertain(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for name, c := range map[string]struct {
			change func(w *world, id string)
			why    string
		}{
			"gone":     {func(w *world, _ string) { *w.skills = nil }, approval.ErrSkillGone.Error()},
			"tampered": {func(w *world, id string) { w.exec(t, w.q.Tamper, id, `{"text":"b"}`) }, "the stored call is not the one that was approved"},
			"changed": {func(w *world, _ string) {
				k := w.post(true)
				k.Parameters = []byte(`{"type": "object", "required": ["to"]}`)
				*w.skills = []skill.Skill{k}
			}, "the arguments don't fit the skill's parameters any more: missing property 'to'"},
			"unreadable": {func(w *world, _ string) { *w.skills = []skill.Skill{{Name: "post"}, {Name: "post"}} }, "the call could not be made in 20 tries"},
		} {
			for _, begun := range []bool{true, false} {
				w := newWorld(t, w.fresh(t))
				id := w.approved(t, "post", `{"text":"a"}`)
				calls := 0
				if begun {
					w.interrupt(w.over) // its result can't be written
					w.drain(t)
					calls = 1
				}
				c.change(w, id)
				for range approval.MaxAttempts {
					w.over()
					w.drain(t)
				}
				message, row := c.why, outbox.Sent
				switch {
				case begun && name == "unreadable":
					message, row = "uncertain: "+c.why, outbox.Uncertain
				case begun:
					message, row = cutOff+"; it is not made again: "+c.why, outbox.Uncertain
				}
				w.mustEnd(t, id, message, row, calls)
			}
		}
	})
}

// The call is made, but its result can't be written. For the next attempt, this looks as if the
// process was killed there.
func TestKilledBetweenTheCallAndItsResult(t *testing.T) {
	each(t, func(t *testing.T, w *world, name string) {
		w.interrupt(w.over)
		id := w.approved(t, name, `{"text":"a"}`)
		if diff := cmp.Diff(outbox.Report{Claimed: 1, Retried: 1}, w.drain(t)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if a := w.get(t, id); a.Status != approval.Approved || a.Result != nil || (a.StartedAt == nil) != (name == "note") || w.notes(t) != "" {
			t.Errorf("%s: it left %+v; notes: %s", name, a, w.notes(t))
		}
		w.over()
		w.drain(t)
		switch name {
		case "note": // called twice; the first call's writes were rolled back
			w.mustEnd(t, id, "", outbox.Sent, 2)
			if w.notes(t) != "a" {
				t.Errorf("notes: %s", w.notes(t))
			}
		case "post": // called twice with one key
			w.mustEnd(t, id, "", outbox.Sent, 2)
		default:
			w.mustEnd(t, id, cutOff, outbox.Uncertain, 1)
		}
	})
}

// first runs what at the first call only.
func first(what func()) func() {
	var begun atomic.Bool
	return func() {
		if !begun.Swap(true) {
			what()
		}
	}
}

// interrupt runs what once, during the first call of a skill.
func (w *world) interrupt(what func()) {
	once := first(what)
	for i, k := range *w.skills {
		if do := k.Do; do != nil {
			(*w.skills)[i].Do = func(ctx context.Context, c skill.Call) (any, error) {
				defer once()
				return do(ctx, c)
			}
		}
		if run := k.Run; run != nil {
			(*w.skills)[i].Run = func(ctx context.Context, tx lane.Tx, c skill.Call) (any, error) {
				defer once()
				return run(ctx, tx, c)
			}
		}
	}
}

// The claim and the lane of a call expire during the call, and another process makes it.
func TestFrozenInTheMiddleOfACall(t *testing.T) {
	each(t, func(t *testing.T, w *world, name string) {
		var second outbox.Report
		frozen := func() {
			w.over()
			second = w.drain(t)
		}
		if lanes := (*w.skills)[0].Lanes; name == "note" { // before its transaction, which would block
			once := first(frozen)
			(*w.skills)[0].Lanes = func(c skill.Call) []lane.Name { once(); return lanes(c) }
		} else {
			w.interrupt(frozen)
		}
		id := w.approved(t, name, `{"text":"a"}`)
		early := w.drain(t)
		if early.Lost != 1 || early.Sent != 0 || second.Claimed != 1 {
			t.Errorf("%s: the first: %+v, the second: %+v", name, early, second)
		}
		switch name {
		case "note":
			w.mustEnd(t, id, "", outbox.Sent, 1)
		case "post":
			w.mustEnd(t, id, "", outbox.Sent, 2)
		default:
			w.mustEnd(t, id, cutOff, outbox.Uncertain, 1)
		}
	})
}

// Only the claim expires: the lane still decides who may write, and the result is kept.
func TestWhoHoldsTheLaneWritesTheResult(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		id := w.approved(t, "blind_post", `{"text":"a"}`)
		early := w.claim(t, time.Second)
		var second outbox.Claimed
		w.interrupt(func() {
			w.Skew.Advance(2 * time.Second)
			second = w.claim(t, time.Minute)
		})
		if _, settled := errors.AsType[*outbox.SettledError](w.e.Handle(t.Context(), early)); !settled {
			t.Error("the first did not settle it")
		}
		if a := w.get(t, id); a.Status != approval.Executed || a.Error != "" || w.row(t, id).Status != outbox.Sending {
			t.Errorf("%+v; its row is %s", a, w.row(t, id).Status)
		}
		if err := w.e.Handle(t.Context(), second); err != nil { // nothing is left to do
			t.Error(err)
		}
		var mark db.Batch
		w.box.SentIn(&mark, second)
		if err := w.DB.Do(t.Context(), w.Workspace, &mark); err != nil {
			t.Error(err)
		}
		w.mustEnd(t, id, "", outbox.Sent, 1)
	})
}

// The time of the invocation ends during a call.
func TestATimeThatEndsInTheMiddleOfACall(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, keyed := range []bool{true, false} {
			w := newWorld(t, w.fresh(t))
			k := w.post(keyed)
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			do := k.Do
			k.Do = func(ctx context.Context, c skill.Call) (any, error) {
				if calls++; calls == 1 {
					cancel()
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return do(ctx, c)
			}
			*w.skills = []skill.Skill{k}
			id := w.approved(t, k.Name, `{"text":"a"}`)
			if r, err := w.sender().Drain(ctx, w.Workspace, 10); err == nil || r.Retried != 1 {
				t.Errorf("%s: %+v, %v", k.Name, r, err)
			}
			w.mustBeFree(t)
			w.over()
			w.drain(t)
			if keyed {
				w.mustEnd(t, id, "", outbox.Sent, 1)
			} else {
				w.mustEnd(t, id, cutOff, outbox.Uncertain, 0)
			}
		}
	})
}

// A call that may have had its effect is repeated with its key. In the end, or without a key, a
// person must decide.
func TestACallWhoseEffectStaysOpen(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for name, do := range map[string]func(context.Context) (any, error){
			"no answer": func(context.Context) (any, error) { return nil, &skill.UncertainError{Reason: "no answer came"} },
			"panics":    func(context.Context) (any, error) { panic("secret") },
			"hangs":     func(ctx context.Context) (any, error) { <-ctx.Done(); return nil, ctx.Err() },
		} {
			why := map[string]string{"no answer": "no answer came", "panics": "the skill failed", "hangs": "the skill took longer than 1ms"}[name]
			for _, keyed := range []bool{true, false} {
				w := newWorld(t, w.fresh(t))
				tries := 0
				k := outside("open", func(ctx context.Context) (any, error) { tries++; return do(ctx) })
				k.Keyed = keyed
				if name == "hangs" {
					k.Timeout = time.Millisecond
				}
				*w.skills = []skill.Skill{k}
				id := w.approved(t, "open", `{"text":"a"}`)
				for range approval.MaxAttempts {
					w.drain(t)
					w.over()
				}
				w.mustEnd(t, id, "uncertain: "+why, outbox.Uncertain, 0)
				if want := map[bool]int{true: approval.MaxAttempts, false: 1}[keyed]; tries != want {
					t.Errorf("%s: %d tries, want %d", name, tries, want)
				}
			}
		}
	})
}

// TestKilledInTheLastTry: each try was cut off before it recorded a start. The approval ends, and the call is not made.
func TestKilledInTheLastTry(t *testing.T) {
	each(t, func(t *testing.T, w *world, name string) {
		id := w.approved(t, name, `{"text":"a"}`)
		for range approval.MaxAttempts {
			w.claim(t, time.Minute)
			w.over()
		}
		w.drain(t)
		w.mustEnd(t, id, "the call could not be made in 20 tries", outbox.Sent, 0)
	})
}

// hasty is the executor in a process whose time is up.
type hasty struct{ *approval.Executor }

func (h hasty) Handle(ctx context.Context, c outbox.Claimed) error {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	return h.Executor.Handle(ended, c)
}

// TestTheLastTryCantBegin: the call is tried once more, because nothing else would end its approval.
func TestTheLastTryCantBegin(t *testing.T) {
	each(t, func(t *testing.T, w *world, name string) {
		id := w.approved(t, name, `{"text":"a"}`)
		for range approval.MaxAttempts - 1 {
			w.claim(t, time.Minute)
			w.over()
		}
		s := w.sender()
		s.Handlers[approval.Topic] = hasty{w.e}
		if _, err := s.Drain(t.Context(), w.Workspace, 1); err != nil {
			t.Fatal(err)
		}
		if row := w.row(t, id); row.Status != outbox.Ready {
			t.Errorf("%s: its row is %+v", name, row)
		}
		w.over()
		w.drain(t)
		w.mustEnd(t, id, "", outbox.Sent, 1)
	})
}
