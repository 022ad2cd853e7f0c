package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

func TestAnApprovedCallIsMadeWithWhatWasStored(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, name := range []string{"note", "post", "blind_post"} {
			id := w.approved(t, name, `{"text":"a"}`)
			if diff := cmp.Diff(outbox.Report{Claimed: 1, Sent: 1}, w.drain(t)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			a := w.get(t, id)
			if a.Status != approval.Executed || a.Error != "" || a.ExecutedAt == nil || (a.StartedAt == nil) != (name == "note") {
				t.Errorf("%s: %+v", name, a)
			}
			same(t, "its result", a.Result, map[bool]string{true: `{"noted":"a"}`, false: `"posted"`}[name == "note"])
			if story := w.story(t, a); story != "approval.approve success, "+name+" success" {
				t.Errorf("%s: the log says %s", name, story)
			}
			line := w.actions(t, activity.Filter{Trace: a.Trace, Skill: name})[0]
			if line.Agent != a.Agent || line.Surface != a.Surface || line.SkillID != a.SkillID {
				t.Errorf("%s: %+v", name, line)
			}
			same(t, "the input in the log", line.Input, `{"text":"a"}`)
			call := w.ran.calls[len(w.ran.calls)-1]
			if call.Key != approval.Key(id) || call.Agent != a.Agent || call.Surface != a.Surface || call.Workspace != w.Workspace || call.Subject != a.Subject {
				t.Errorf("%s: the call is %+v", name, call)
			}
			if row := w.row(t, id); row.Status != outbox.Sent {
				t.Errorf("%s: in the outbox: %+v", name, row)
			}
			w.mustBeFree(t)
		}
		if calls, keys := w.ran.count(); calls != 3 || keys != 3 || w.notes(t) != "a" {
			t.Errorf("%d calls of %d keys; notes: %s", calls, keys, w.notes(t))
		}
		if r := w.drain(t); r != (outbox.Report{}) {
			t.Errorf("then %+v", r)
		}
	})
}

// TestWhatIsSwitchedOffIsPutOff for as long as it is off, and made afterwards.
func TestWhatIsSwitchedOffIsPutOff(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for name, off := range map[string]switched{"note": {skill: "note"}, "post": {agent: activity.Operator}} {
			id := w.approved(t, name, `{"text":"a"}`)
			w.off = off
			for range approval.MaxAttempts + 1 {
				if diff := cmp.Diff(outbox.Report{Claimed: 1, Retried: 1}, w.drain(t)); diff != "" {
					t.Fatalf("%s: %s", name, diff)
				}
				w.over()
			}
			calls, _ := w.ran.count()
			a, row := w.get(t, id), w.row(t, id)
			if calls > 0 || a.Status != approval.Approved || a.StartedAt != nil || row.Attempts != 0 || !strings.HasSuffix(row.LastError, "is switched off") {
				t.Errorf("%s: after %d calls it is %+v, its row %+v", name, calls, a, row)
			}
			w.mustBeFree(t)
			w.off = switched{}
			w.drain(t)
			w.mustEnd(t, id, "", outbox.Sent, 1)
			w.ran.calls = nil
		}
	})
}

// TestACallIsMadeWithTheTrustItWasAskedWith: the call has the trust of its request.
func TestACallIsMadeWithTheTrustItWasAskedWith(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, outside := range []bool{true, false} {
			for _, name := range []string{"note", "post"} {
				a := asked(name, `{"text":"a"}`)
				a.Untrusted = outside
				id := w.request(t, a)
				w.approve(t, id)
				w.drain(t)
				if got := w.ran.calls[len(w.ran.calls)-1]; got.Key != approval.Key(id) || got.Untrusted != outside || w.get(t, id).Untrusted != outside {
					t.Errorf("%s, from outside: %v: the call is %+v", name, outside, got)
				}
			}
		}
	})
}

func TestAnEditedCallIsMadeAsItWasEdited(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		id := w.request(t, asked("note", `{"text":"a"}`))
		if _, err := w.s.Approve(t.Context(), w.Workspace, id, ada, json.RawMessage(`{"text":"b", "n": 1e1}`)); err != nil {
			t.Fatal(err)
		}
		w.drain(t)
		a := w.get(t, id)
		if a.Status != approval.Executed || w.notes(t) != "b" {
			t.Errorf("%+v; notes: %s", a, w.notes(t))
		}
		same(t, "what was asked for", a.Arguments, `{"text":"a"}`)
		same(t, "the call's input", w.ran.calls[0].Arguments, `{"n":10,"text":"b"}`)
	})
}

func TestWhatWasNotApprovedIsNotMade(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		rejected, expired := w.request(t, asked("note", `{"text":"r"}`)), w.request(t, asked("note", `{"text":"e"}`))
		if _, err := w.s.Reject(t.Context(), w.Workspace, rejected, ada, "no"); err != nil {
			t.Fatal(err)
		}
		w.Skew.Advance(73 * time.Hour)
		if _, err := w.s.ExpireDue(t.Context(), w.Workspace); err != nil {
			t.Fatal(err)
		}
		pending := w.request(t, asked("note", `{"text":"p"}`))
		for _, id := range []string{rejected, expired, pending} { // a kick for it, from any source
			w.kick(t, id)
		}
		w.drain(t)
		if calls, _ := w.ran.count(); calls != 0 || w.notes(t) != "" {
			t.Errorf("%d calls; notes: %s", calls, w.notes(t))
		}
	})
}

// kick adds an outbox row for an approval, without any checks.
func (w *world) kick(t testing.TB, id string) {
	t.Helper()
	payload, err := json.Marshal(map[string]string{"approval": id})
	if err != nil {
		t.Fatal(err)
	}
	var b db.Batch
	w.box.Enqueue(t.Context(), &b, outbox.Row{Kind: outbox.Kick, Topic: approval.Topic, Key: ids(), Payload: payload, Trace: traces.New("op")})
	if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
}

func TestKicksThatLeadNowhere(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.kick(t, "")
		w.kick(t, ids())
		if diff := cmp.Diff(outbox.Report{Claimed: 2, Failed: 2}, w.drain(t)); diff != "" {
			t.Error(diff)
		}
		w.mustBeFree(t)
	})
}

func TestACallThatFailsIsItsApprovalsError(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		*w.skills = append(*w.skills,
			outside("refused", func(context.Context) (any, error) { return nil, skill.Fail(skill.Theirs, "they don't want it") }),
			outside("broken", func(context.Context) (any, error) { return nil, errors.New("secret") }),
			outside("odd", func(context.Context) (any, error) { return func() {}, nil }),
			skill.Skill{Name: "lost", Parameters: []byte(textOnly), Lanes: func(skill.Call) []lane.Name { panic("secret") },
				Run: func(context.Context, lane.Tx, skill.Call) (any, error) { return nil, nil }},
		)
		slow := w.fragile()
		slow.Name, slow.Timeout = "slow", time.Millisecond
		slow.Run = func(ctx context.Context, _ lane.Tx, _ skill.Call) (any, error) { <-ctx.Done(); return nil, ctx.Err() }
		*w.skills = append(*w.skills, slow)
		for _, c := range []struct{ name, text, want string }{
			{"fragile", "refuse", "no more of that"},
			{"fragile", "panic", "the skill failed"},
			{"fragile", "long", "the database refused a value of the call"},
			{"lost", "x", "the skill failed"},
			{"slow", "x", "the skill took longer than 1ms"},
			{"refused", "x", "they don't want it"},
			{"broken", "x", "the skill failed"},
			{"odd", "x", "the skill's result can't be written as JSON"},
		} {
			id := w.approved(t, c.name, `{"text":"`+c.text+`"}`)
			if diff := cmp.Diff(outbox.Report{Claimed: 1, Sent: 1}, w.drain(t)); diff != "" {
				t.Errorf("%s %s: %s", c.name, c.text, diff)
			}
			a := w.get(t, id)
			if a.Status != approval.Executed || a.Error != c.want || a.Result != nil {
				t.Errorf("%s %s: %+v", c.name, c.text, a)
			}
			if story := w.story(t, a); story != "approval.approve success, "+c.name+" error" {
				t.Errorf("%s %s: the log says %s", c.name, c.text, story)
			}
			w.mustBeFree(t)
		}
		if w.notes(t) != "" {
			t.Errorf("what failed has written %s", w.notes(t))
		}
	})
}

// outside returns a skill without a key.
func outside(name string, do func(context.Context) (any, error)) skill.Skill {
	return skill.Skill{Name: name, Parameters: []byte(textOnly), Do: func(ctx context.Context, _ skill.Call) (any, error) { return do(ctx) }}
}

// The call is checked again: the skill may have changed since the approval.
func TestACallIsCheckedOnceMore(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		old := *w.skills
		narrower := old[0]
		narrower.Parameters = []byte(`{"type": "object", "required": ["to"]}`)
		for want, change := range map[string]func(id string){
			"the skill is not there any more, or is disabled":                                func(string) { *w.skills = nil },
			"the stored call is not the one that was approved":                               func(id string) { w.exec(t, w.q.Tamper, id, `{"text":"b"}`) },
			"the arguments don't fit the skill's parameters any more: missing property 'to'": func(string) { *w.skills = []skill.Skill{narrower} },
		} {
			*w.skills = old
			id := w.approved(t, "note", `{"text":"a"}`)
			change(id)
			w.drain(t)
			if a := w.get(t, id); a.Status != approval.Executed || a.Error != want {
				t.Errorf("%+v", a)
			}
		}
		if calls, _ := w.ran.count(); calls != 0 {
			t.Errorf("%d calls", calls)
		}
	})
}

func TestACallThatCantBeMadeNowIsTriedAgain(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		id := w.approved(t, "note", `{"text":"a"}`)
		*w.skills = append(*w.skills, skill.Skill{Name: "note"}) // two with the same name: they can't be loaded
		if diff := cmp.Diff(outbox.Report{Claimed: 1, Retried: 1}, w.drain(t)); diff != "" {
			t.Fatal(diff)
		}
		if a := w.get(t, id); a.Status != approval.Approved {
			t.Errorf("%+v", a)
		}
		w.mustBeFree(t)
		*w.skills = (*w.skills)[:4]
		w.Skew.Advance(time.Minute)
		w.drain(t)
		if a := w.get(t, id); a.Status != approval.Executed || a.Error != "" || w.notes(t) != "a" {
			t.Errorf("%+v; notes: %s", a, w.notes(t))
		}
	})
}

func TestACallThatCanNeverBeMadeEnds(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		id := w.approved(t, "fragile", `{"text":"error"}`)
		for range approval.MaxAttempts {
			w.drain(t)
			w.Skew.Advance(10 * time.Minute)
		}
		a := w.get(t, id)
		if a.Status != approval.Executed || a.Error != "the call could not be made in 20 tries" || w.row(t, id).Status != outbox.Sent {
			t.Errorf("%+v; %+v", a, w.row(t, id))
		}
		if story := w.story(t, a); story != "approval.approve success, fragile error" || w.notes(t) != "" {
			t.Errorf("the log says %s; notes: %s", story, w.notes(t))
		}
		for _, line := range w.actions(t, activity.Filter{}) {
			if strings.Contains(line.Error, "secret") {
				t.Errorf("%+v", line)
			}
		}
	})
}

func TestALaneThatIsBusyIsAReasonToComeBack(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		id := w.approved(t, "note", `{"text":"a"}`)
		*w.skills = []skill.Skill{(*w.skills)[0]}
		(*w.skills)[0].Timeout = time.Millisecond // this also limits its wait for the lane
		h, err := w.lanes.Acquire(t.Context(), lane.Request{Workspace: w.Workspace, Lane: "notes", Holder: "somebody"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(outbox.Report{Claimed: 1, Retried: 1}, w.drain(t)); diff != "" {
			t.Error(diff)
		}
		if err := w.lanes.Release(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		(*w.skills)[0].Timeout = 0
		w.Skew.Advance(time.Minute)
		w.drain(t)
		if a := w.get(t, id); a.Status != approval.Executed || a.Error != "" {
			t.Errorf("%+v", a)
		}
	})
}

func TestACallIsMadeOnceThoughManyDrainAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const n = 6
		var all []string
		for i := range n {
			all = append(all, w.approved(t, []string{"note", "post", "blind_post"}[i%3], `{"text":"a"}`))
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, err := w.sender().Drain(t.Context(), w.Workspace, 100); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		w.Skew.Advance(time.Minute) // for calls that met a busy lane
		w.drain(t)
		// A call of note may have been rolled back and repeated: what it wrote counts.
		if w.notes(t) != "a, a" {
			t.Errorf("notes: %s", w.notes(t))
		}
		for _, id := range all {
			a := w.get(t, id)
			if a.Status != approval.Executed || a.Error != "" || w.story(t, a) != "approval.approve success, "+a.Skill+" success" {
				t.Errorf("%+v: %s", a, w.story(t, a))
			}
		}
		for _, c := range w.ran.calls {
			if n := w.ran.of(c.Key); n != 1 {
				t.Errorf("%d effects of %s", n, c.Key)
			}
		}
	})
}

func (l *ledger) of(key string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if c.Key == key {
			n++
		}
	}
	return n
}
