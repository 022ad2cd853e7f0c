package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestACallThatWaitsIsReadBack(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		in := asked("note", `{"text":"größe ☺"}`)
		id := w.request(t, in)
		got := w.get(t, id)
		same(t, "its input", got.Input(), `{"text":"größe ☺"}`)
		in.ID, in.SkillID, in.Status = id, w.note().ID, approval.Pending
		if diff := cmp.Diff(in, got, cmpopts.IgnoreFields(approval.Approval{}, "Arguments", "Digest", "RequestedAt", "ExpiresAt")); diff != "" {
			t.Error(diff)
		}
		if waits := got.ExpiresAt.Sub(got.RequestedAt); waits != 72*time.Hour || len(got.Digest) != 64 {
			t.Errorf("it waits for %s, its digest is %q", waits, got.Digest)
		}
		there := dbtest.NewWorkspace(t, w.DB)
		if _, err := w.s.Get(t.Context(), there, id); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("a neighbour reads it: %v", err)
		}
		if _, err := w.s.Approve(t.Context(), there, id, ada, nil); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("a neighbour approves it: %v", err)
		}
		if _, err := w.s.Reject(t.Context(), there, id, ada, "no"); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("a neighbour rejects it: %v", err)
		}
	})
}

func TestHowLongACallWaitsIsTheWorkspacesToSay(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.exec(t, w.q.Set, `{"approval_hours": 1}`)
		a := w.get(t, w.request(t, asked("note", `{"text":"a"}`)))
		if waits := a.ExpiresAt.Sub(a.RequestedAt); waits != time.Hour {
			t.Errorf("it waits for %s", waits)
		}
	})
}

func TestARequestBelongsToItsTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		request := lane.Request{Workspace: w.Workspace, Lane: "another", Holder: "test"}
		hold, err := w.lanes.Acquire(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		in := func(a approval.Approval, then error) error {
			return w.lanes.InHold(t.Context(), hold, func(ctx context.Context, tx lane.Tx) error {
				_, err := w.s.Request(ctx, tx, a)
				return errors.Join(err, then)
			})
		}
		if err := in(asked("note", `{"text":"a"}`), nil); !errors.Is(err, lane.ErrNotProven) {
			t.Errorf("under another lane: %v", err)
		}
		a := asked("note", `{"text":"a"}`)
		a.Subject = "another"
		if sorry := errors.New("sorry"); !errors.Is(in(a, sorry), sorry) {
			t.Error("no error")
		}
		if items, _, err := w.s.List(t.Context(), w.Workspace, approval.Filter{}); err != nil || len(items) != 0 {
			t.Errorf("%+v, %v", items, err)
		}
		if err := in(a, nil); err != nil {
			t.Error(err)
		}
		if err := in(a, nil); !errors.Is(err, db.ErrUnique) { // a call waits only once
			t.Errorf("twice: %v", err)
		}
	})
}

// TestAnObjectiveAsksOnce for the same call while that waits or is to be made, whichever beat asks again.
func TestAnObjectiveAsksOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		of := func(objective, arguments string) approval.Approval {
			a := asked("note", arguments)
			a.Subject = lane.Objective(objective)
			return a
		}
		first := of("a", `{"text":"a","n":1}`)
		id := w.request(t, first)
		if again := w.request(t, of("a", `{"n":1.0,"text":"a"}`)); again != id {
			t.Error("the next beat asks again for the same call")
		}
		own := of("a", `{"n":1,"text":"a"}`)
		own.Execution, own.Call = first.Execution, "4.1"
		for what, a := range map[string]approval.Approval{
			"other arguments":               of("a", `{"text":"b","n":1}`),
			"another objective":             of("b", `{"text":"a","n":1}`),
			"a second call of the same run": own,
		} {
			if w.request(t, a) == id {
				t.Errorf("%s: nobody is asked", what)
			}
		}
		if _, err := w.s.Approve(t.Context(), w.Workspace, id, ada, nil); err != nil {
			t.Fatal(err)
		}
		if again := w.request(t, of("a", `{"text":"a","n":1}`)); again != id {
			t.Error("while the approved call is not made yet, it asks again")
		}
		rejected := of("c", `{"text":"a"}`)
		id = w.request(t, rejected)
		if _, err := w.s.Reject(t.Context(), w.Workspace, id, ada, "no"); err != nil {
			t.Fatal(err)
		}
		if w.request(t, of("c", `{"text":"a"}`)) == id {
			t.Error("rejected: nobody is asked")
		}
		expired := w.request(t, of("d", `{"text":"a"}`))
		w.Skew.Advance(80 * time.Hour)
		if w.request(t, of("d", `{"text":"a"}`)) == expired {
			t.Error("expired: nobody is asked")
		}
	})
}

func TestApproving(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		id := w.request(t, asked("note", `{"text":"a"}`))
		a, err := w.s.Approve(t.Context(), w.Workspace, id, ada, nil)
		if err != nil || a.Status != approval.Approved || a.DecidedBy != ada || a.DecidedAt == nil {
			t.Fatalf("%+v, %v", a, err)
		}
		if diff := cmp.Diff(w.get(t, id), a); diff != "" {
			t.Error(diff)
		}
		row := w.row(t, id)
		if row.Kind != outbox.Kick || row.Topic != approval.Topic || row.Status != outbox.Ready || row.Trace != a.Trace || row.Execution != a.Execution {
			t.Errorf("in the outbox: %+v", row)
		}
		same(t, "its payload", row.Payload, fmt.Sprintf(`{"approval":%q}`, id))
		if story := w.story(t, a); story != "approval.approve success" {
			t.Errorf("the log says %s", story)
		}
		line := w.actions(t, activity.Filter{Trace: a.Trace})[0]
		var in struct {
			Approval, Skill, By string
			Edited              bool
		}
		if err := json.Unmarshal(line.Input, &in); err != nil || in.Approval != id || in.Skill != "note" || in.By != ada || in.Edited || line.Surface != trace.Operate {
			t.Errorf("%s, %v", line.Input, err)
		}
		if calls, _ := w.ran.count(); calls != 0 {
			t.Error("it ran")
		}
	})
}

func TestWhatIsDecidedStaysSo(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, status := range []approval.Status{approval.Approved, approval.Rejected, approval.Expired, approval.Executed} {
			id := w.request(t, asked("note", `{"text":"a"}`))
			w.exec(t, w.q.Become, id, status)
			before := w.get(t, id)
			_, approving := w.s.Approve(t.Context(), w.Workspace, id, ada, nil)
			_, rejecting := w.s.Reject(t.Context(), w.Workspace, id, ada, "no")
			for what, err := range map[string]error{"approving": approving, "rejecting": rejecting} {
				if d, ok := errors.AsType[*approval.DecidedError](err); !ok || d.Status != status {
					t.Errorf("%s one that is %s: %v", what, status, err)
				}
			}
			if diff := cmp.Diff(before, w.get(t, id)); diff != "" {
				t.Errorf("%s: %s", status, diff)
			}
		}
		if n := len(w.actions(t, activity.Filter{})); n != 0 {
			t.Errorf("%d lines in the log", n)
		}
	})
}

var statuses = []approval.Status{approval.Pending, approval.Approved, approval.Rejected, approval.Expired, approval.Executed}

// TestTheDatabaseFollowsTheTable tries every pair of statuses with the operation that leads to the
// second.
func TestTheDatabaseFollowsTheTable(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, from := range statuses {
			for _, to := range statuses {
				id := w.request(t, asked("post", `{"text":"a"}`))
				w.exec(t, w.q.Become, id, from)
				var err error
				switch to {
				case approval.Approved:
					_, err = w.s.Approve(t.Context(), w.Workspace, id, ada, nil)
				case approval.Rejected:
					_, err = w.s.Reject(t.Context(), w.Workspace, id, ada, "no")
				case approval.Expired:
					w.Skew.Advance(80 * time.Hour)
					_, err = w.s.ExpireDue(t.Context(), w.Workspace)
				case approval.Executed:
					var b db.Batch
					w.box.Enqueue(t.Context(), &b, outbox.Row{
						Kind: outbox.Kick, Topic: approval.Topic, Key: id, Payload: json.RawMessage(fmt.Sprintf(`{"approval":%q}`, id)), Trace: traces.New(trace.Operate),
					})
					err = w.DB.Do(t.Context(), w.Workspace, &b)
					w.drain(t)
				}
				want := from
				if from.Can(to) {
					want = to
				}
				if got := w.get(t, id).Status; got != want {
					t.Errorf("%s to %s: it is %s, want %s (%v)", from, to, got, want, err)
				}
				w.exec(t, w.q.Become, id, approval.Rejected)
				w.drain(t)
			}
		}
		if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Become, w.request(t, asked("post", `{"text":"a"}`)), "lost"); !errors.Is(err, db.ErrCheck) {
			t.Errorf("a status that there is not: %v", err)
		}
	})
}

func TestStatuses(t *testing.T) {
	for _, from := range statuses {
		for _, to := range statuses {
			want := map[approval.Status]string{approval.Pending: "approved rejected expired", approval.Approved: "executed"}[from]
			if from.Can(to) != strings.Contains(want, string(to)) {
				t.Errorf("%s to %s", from, to)
			}
		}
	}
}

func TestEditedArgumentsAreHeldAgainstTheSchema(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		id := w.request(t, asked("note", `{"text":"a"}`))
		for edited, want := range map[string]int{
			`{"text":5,"n":"x"}`: 2, `{}`: 1, `null`: 1, `[1]`: 1, `"x"`: 1, `{"text":"a","more":1}`: 1, `{"text":"a`: 1, `{"n":1e400,"text":"a"}`: 1,
			`{"text":"` + strings.Repeat("x", 21) + `"}`: 1,
		} {
			_, err := w.s.Approve(t.Context(), w.Workspace, id, ada, json.RawMessage(edited))
			if invalid, ok := errors.AsType[*approval.InvalidError](err); !ok || len(invalid.Violations) != want {
				t.Errorf("%s: %v", edited, err)
			}
		}
		known := redact.New(nil)
		known.Add(secret.NewValue("hunter2-hunter2"))
		_, err := w.s.Approve(redact.With(t.Context(), known), w.Workspace, id, ada, json.RawMessage(`{"text":"hunter2-hunter2"}`))
		if invalid, ok := errors.AsType[*approval.InvalidError](err); !ok || !strings.Contains(invalid.Violations[0].Problem, "value of a secret") {
			t.Errorf("the value of a secret: %v", err)
		}
		if a := w.get(t, id); a.Status != approval.Pending || a.Edited != nil {
			t.Errorf("%+v", a)
		}
		a, err := w.s.Approve(t.Context(), w.Workspace, id, ada, json.RawMessage(`{"n": 5.0, "text": "b"}`))
		if err != nil {
			t.Fatal(err)
		}
		same(t, "its input", a.Input(), `{"n":5,"text":"b"}`)
		same(t, "what was asked for", a.Arguments, `{"text":"a"}`)
		if line := w.actions(t, activity.Filter{Trace: a.Trace})[0]; !strings.Contains(strings.ReplaceAll(string(line.Input), " ", ""), `"edited":true`) {
			t.Errorf("the log says %s", line.Input)
		}
	})
}

func TestWhatCantBeApproved(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		approve := func(id string) error {
			_, err := w.s.Approve(t.Context(), w.Workspace, id, ada, nil)
			return err
		}
		changed := w.request(t, asked("note", `{"text":"a"}`))
		w.exec(t, w.q.Tamper, changed, `{"text":"b"}`)
		if err := approve(changed); !errors.Is(err, approval.ErrChanged) {
			t.Errorf("a changed call: %v", err)
		}
		w.exec(t, w.q.Tamper, changed, `{"text": "a"}`)
		if err := approve(changed); err != nil {
			t.Errorf("changed back: %v", err)
		}
		id := w.request(t, asked("note", `{"text":"a"}`))
		old := *w.skills
		for what, skills := range map[string][]skill.Skill{"gone": nil, "another of that name": {renumbered(old[0])}, "of another spelling": {renamed(old[0])}} {
			*w.skills = skills
			if err := approve(id); !errors.Is(err, approval.ErrSkillGone) {
				t.Errorf("a skill that is %s: %v", what, err)
			}
		}
		narrower := old[0]
		narrower.Parameters = []byte(`{"type": "object", "required": ["to"]}`)
		*w.skills = []skill.Skill{narrower}
		if err := approve(id); !isInvalid(err) {
			t.Errorf("a schema that has changed: %v", err)
		}
		*w.skills = old
		external := asked("note", `{"text":"a"}`)
		external.Surface = trace.Chat
		if err := approve(w.request(t, external)); !errors.Is(err, approval.ErrSkillGone) {
			t.Errorf("a skill that is not the surface's: %v", err)
		}
	})
}

// The approved call is the one that the person saw: a call that is edited between the look and the
// decision is not approved.
func TestACallThatChangesWhileItIsApprovedIsNotApproved(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		id := w.request(t, asked("note", `{"text":"a"}`))
		w.meanwhile = func() { w.exec(t, w.q.Rebind, id, "another digest") }
		if a, err := w.s.Approve(t.Context(), w.Workspace, id, ada, nil); !errors.Is(err, approval.ErrChanged) {
			t.Errorf("approved %+v, %v, want %v", a, err, approval.ErrChanged)
		}
	})
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[*approval.InvalidError](err)
	return ok
}

func renumbered(k skill.Skill) skill.Skill { k.ID = ids(); return k }
func renamed(k skill.Skill) skill.Skill    { k.Name = "Note"; return k }

func TestRejecting(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		id := w.request(t, asked("note", `{"text":"a"}`))
		a, err := w.s.Reject(t.Context(), w.Workspace, id, ada, "not on a Friday\x00")
		if err != nil || a.Status != approval.Rejected || a.Reason != "not on a Friday\uFFFD" || a.DecidedBy != ada || a.DecidedAt == nil {
			t.Fatalf("%+v, %v", a, err)
		}
		if story := w.story(t, a); story != "approval.reject success" {
			t.Errorf("the log says %s", story)
		}
		if e, ok := w.found(t, id); ok {
			t.Errorf("a row in the outbox: %+v", e)
		}
	})
}

func TestWhoDoesNotAnswerInTimeHasDenied(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		first := w.request(t, asked("note", `{"text":"a"}`))
		w.Skew.Advance(71 * time.Hour)
		later := w.request(t, asked("note", `{"text":"b"}`))
		pending := func() approval.Unanswered {
			t.Helper()
			var b db.Batch
			u := w.s.Pending(&b)
			if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil {
				t.Fatal(err)
			}
			return *u
		}
		if u := pending(); u.Count != 2 || u.Overdue != 0 || !u.Oldest.Equal(w.get(t, first).RequestedAt) {
			t.Errorf("%+v", u)
		}
		if n, err := w.s.ExpireDue(t.Context(), w.Workspace); n != 0 || err != nil {
			t.Errorf("%d have expired, %v", n, err)
		}
		w.Skew.Advance(time.Hour)
		// It has expired, although this is not recorded yet.
		if u := pending(); u.Count != 1 || u.Overdue != 1 {
			t.Errorf("%+v", u)
		}
		if a := w.get(t, first); a.Status != approval.Expired || a.DecidedAt != nil {
			t.Errorf("%+v", a)
		}
		_, approving := w.s.Approve(t.Context(), w.Workspace, first, ada, nil)
		_, rejecting := w.s.Reject(t.Context(), w.Workspace, first, ada, "no")
		for what, err := range map[string]error{"approving": approving, "rejecting": rejecting} {
			if d, ok := errors.AsType[*approval.DecidedError](err); !ok || d.Status != approval.Expired {
				t.Errorf("%s it: %v", what, err)
			}
		}
		if n, err := w.s.ExpireDue(t.Context(), w.Workspace); n != 0 || err != nil || w.settled != 1 {
			t.Errorf("%d have expired, %d runs that wait learned so, %v", n, w.settled, err)
		}
		a := w.get(t, first)
		if a.Status != approval.Expired || a.DecidedAt == nil || a.DecidedBy != "" || w.story(t, a) != "approval.expire skipped" {
			t.Errorf("%+v: %s", a, w.story(t, a))
		}
		if u := pending(); u.Count != 1 || u.Overdue != 0 || w.get(t, later).Status != approval.Pending {
			t.Errorf("%+v", u)
		}
		w.approve(t, later)
		if u := pending(); u.Count != 0 || u.Overdue != 0 || u.Oldest != nil {
			t.Errorf("%+v", u)
		}
	})
}

// The time of the decision counts, not the time at which the approval was read.
func TestAnApprovalThatExpiresWhileItIsApproved(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		id := w.request(t, asked("note", `{"text":"a"}`))
		w.meanwhile = func() { w.Skew.Advance(73 * time.Hour) }
		_, err := w.s.Approve(t.Context(), w.Workspace, id, ada, nil)
		if d, ok := errors.AsType[*approval.DecidedError](err); !ok || d.Status != approval.Expired {
			t.Errorf("got %v", err)
		}
		if e, ok := w.found(t, id); ok {
			t.Errorf("a row in the outbox: %+v", e)
		}
	})
}

// The expiry is not recorded yet.
func TestWhatHasExpiredIsNotRejected(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		id := w.request(t, asked("note", `{"text":"a"}`))
		w.Skew.Advance(73 * time.Hour)
		_, err := w.s.Reject(t.Context(), w.Workspace, id, ada, "no")
		if d, ok := errors.AsType[*approval.DecidedError](err); !ok || d.Status != approval.Expired {
			t.Errorf("got %v", err)
		}
		if a := w.get(t, id); a.Status != approval.Expired || a.DecidedBy != "" {
			t.Errorf("%+v", a)
		}
	})
}

func TestManyExpireInBatches(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	for range 101 {
		w.request(t, asked("note", `{"text":"a"}`))
	}
	w.Skew.Advance(73 * time.Hour)
	if n, err := w.s.ExpireDue(t.Context(), w.Workspace); n != 101 || err != nil {
		t.Errorf("%d have expired, %v", n, err)
	}
}

func TestOfManyWhoDecideAtOnceOneWins(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for range 5 {
			id := w.request(t, asked("note", `{"text":"a"}`))
			var wg sync.WaitGroup
			var mu sync.Mutex
			won := 0
			for i := range 8 {
				wg.Go(func() {
					var err error
					if i%2 == 0 {
						_, err = w.s.Approve(t.Context(), w.Workspace, id, fmt.Sprint(i), nil)
					} else {
						_, err = w.s.Reject(t.Context(), w.Workspace, id, fmt.Sprint(i), "no")
					}
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						won++
					} else if _, decided := errors.AsType[*approval.DecidedError](err); !decided {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			a := w.get(t, id)
			if story := w.story(t, a); won != 1 || story != "approval.approve success" && story != "approval.reject success" {
				t.Errorf("%d have won; the log says %s", won, story)
			}
		}
	})
}

func TestListing(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var all []string
		for range 5 {
			all = append([]string{w.request(t, asked("note", `{"text":"a"}`))}, all...)
			w.Skew.Advance(time.Minute)
		}
		w.exec(t, w.q.Become, all[1], approval.Rejected)
		list := func(f approval.Filter) (ids []string, more bool) {
			t.Helper()
			items, more, err := w.s.List(t.Context(), w.Workspace, f)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range items {
				ids = append(ids, a.ID)
			}
			return ids, more
		}
		same := func(what string, got, want []string) {
			t.Helper()
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
		}
		got, _ := list(approval.Filter{})
		same("all", got, all)
		got, _ = list(approval.Filter{Status: approval.Rejected})
		same("rejected", got, all[1:2])
		got, _ = list(approval.Filter{Status: approval.Pending})
		same("pending", got, append(all[:1:1], all[2:]...))
		var walked []string
		f := approval.Filter{Limit: 2}
		for {
			got, more := list(f)
			walked = append(walked, got...)
			if !more || len(walked) > 5 {
				break
			}
			last := w.get(t, got[len(got)-1])
			f.Before = db.Position{At: last.RequestedAt, ID: last.ID}
		}
		same("page by page", walked, all)
		w.Skew.Advance(72*time.Hour - 4*time.Minute - 30*time.Second) // the first one has expired
		got, _ = list(approval.Filter{Status: approval.Expired})
		same("expired, not noted", got, all[4:])
		got, _ = list(approval.Filter{Status: approval.Pending})
		same("still pending", got, []string{all[0], all[2], all[3]})
	})
}
