package thread_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// told is the skill's answer to the model.
type told struct {
	Success  bool   `json:"success"`
	Queued   bool   `json:"queued"`
	Position int    `json:"position"`
	Message  string `json:"messageId"`
}

// sends returns the skill. Messages to "deaf" are not deliverable.
func (w *world) sends(t testing.TB) skill.Skill {
	t.Helper()
	all, err := thread.Skills(w.threads, func(_, address, _ string) error {
		if address == "deaf" {
			return problem.Invalid("address", "hears nothing")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// says calls the skill for an execution, under a hold.
func (w *world) says(t testing.TB, execution, key, th, body string) (out told, err error) {
	t.Helper()
	k := w.sends(t)
	set, err := skill.NewSet(k)
	if err != nil {
		t.Fatal(err)
	}
	arguments, _ := json.Marshal(map[string]string{"threadId": th, "body": body})
	checked, _ := set.Find("send_message")
	if v := checked.Check(t.Context(), arguments); len(v) > 0 {
		t.Fatal(v)
	}
	lanes, err := lane.New(w.DB)
	if err != nil {
		t.Fatal(err)
	}
	ctx := trace.WithExecution(t.Context(), execution)
	request := lane.Request{Workspace: w.Workspace, Lane: lane.Name("work:" + ids()), Holder: "test"}
	err = lanes.Do(ctx, request, lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
		return lanes.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) error {
			raw, _, err := k.Invoke(ctx, time.Minute, tx, skill.Call{Workspace: w.Workspace, Key: key, Arguments: arguments})
			if err != nil {
				return err
			}
			return json.Unmarshal(raw, &out)
		})
	})
	return out, err
}

// undo takes back the message of a call, and reports whether that worked.
func (w *world) undo(t testing.TB, th string, s told) (back bool) {
	t.Helper()
	arguments, _ := json.Marshal(map[string]string{"threadId": th})
	result, _ := json.Marshal(s)
	w.must(t, func(ctx context.Context, tx *db.Tx) (err error) {
		back, err = w.sends(t).Undo(ctx, tx, arguments, result)
		return err
	})
	return back
}

// TestARunSpeaks: a run speaks as its execution. The execution holds the thread until it ends, each
// message is sent once, and the run waits for another holder of the thread.
func TestARunSpeaks(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, a, b := w.open(t, "x"), w.begin(t, "", false), w.begin(t, "", false)
		for range 2 { // the second time is a resumed run
			if s, err := w.says(t, a, "a:1.1", th, "A"); err != nil || !s.Success || s.Queued || s.Message == "" {
				t.Fatalf("%+v, %v", s, err)
			}
		}
		w.mustHold(t, th, a)
		if s, err := w.says(t, b, "b:1.1", strings.ToUpper(th), "B"); err != nil || !s.Success || !s.Queued || s.Position != 1 {
			t.Errorf("of another: %+v, %v", s, err)
		}
		w.drain(t)
		w.mustHaveSaid(t, "A")
		w.complete(t, a)
		w.drain(t)
		w.mustHaveSaid(t, "A", "B")
	})
}

// TestWhatIsApprovedLateIsSaid: an execution may have ended when a person approves its message. The
// message is then sent in its turn, and blocks the thread for nobody.
func TestWhatIsApprovedLateIsSaid(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		free, taken := w.open(t, "x"), w.open(t, "y")
		a, b := w.begin(t, "", false), w.begin(t, "", false)
		w.mustLock(t, taken, b, thread.Acquired)
		w.complete(t, a)
		if s, err := w.says(t, a, "approval:1", free, "A1"); err != nil || s.Queued {
			t.Errorf("%+v, %v", s, err)
		}
		if s, err := w.says(t, a, "approval:2", taken, "A2"); err != nil || !s.Queued || s.Position != 1 {
			t.Errorf("behind another: %+v, %v", s, err)
		}
		w.drain(t)
		w.mustHaveSaid(t, "A1")
		w.mustHold(t, free)
		w.complete(t, b)
		w.drain(t)
		w.mustHaveSaid(t, "A1", "A2")
		if _, err := w.trySend(t, thread.Outgoing{Thread: free, Execution: a, Body: "x"}); !errors.As(err, new(*execution.EndedError)) {
			t.Errorf("without a person: %v", err)
		}
	})
}

func TestWhatCannotBeSaidIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, a := w.open(t, "x"), w.begin(t, "", false)
		theirs := *w
		theirs.Workspace = dbtest.NewWorkspace(t, w.DB)
		if _, err := w.says(t, a, "k", th, "once"); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ name, key, th, body, want string }{
			{"no thread", "1", ids(), "x", "no such thread"},
			{"another workspace's", "2", theirs.open(t, "x"), "x", "no such thread"},
			{"nobody to hear it", "3", w.open(t, "deaf"), "x", "hears nothing"},
			{"nothing to say", "4", th, " ", "body"},
			{"something else under the key", "k", th, "twice", thread.ErrKey.Error()},
		} {
			_, err := w.says(t, a, c.key, c.th, c.body)
			if refusal, ok := errors.AsType[*skill.RefusalError](err); !ok || !strings.Contains(refusal.Reason, c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		w.drain(t)
		w.mustHaveSaid(t, "once")
	})
}

// TestWhatWasNotSaidIsTakenBack: a message that nobody has tried to send is taken back and blocks
// nothing; a sent message stays.
func TestWhatWasNotSaidIsTakenBack(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, a, b := w.open(t, "x"), w.begin(t, "", false), w.begin(t, "", false)
		var all []told
		for i, e := range []string{a, a, b} {
			s, err := w.says(t, e, fmt.Sprint(i), th, numbered(i))
			if err != nil {
				t.Fatal(err)
			}
			if all = append(all, s); i == 0 {
				w.drain(t)
			}
		}
		w.end(t, a, execution.Cancelled)
		for i, want := range []bool{false, true, true} {
			if back := w.undo(t, th, all[i]); back != want {
				t.Errorf("message %d is taken back: %v", i, back)
			}
		}
		if w.undo(t, th, all[1]) {
			t.Error("it is taken back twice")
		}
		w.drain(t)
		w.mustHaveSaid(t, numbered(0))
		w.mustHold(t, th)
		for i, want := range []outbox.Status{outbox.Sent, outbox.Superseded, outbox.Superseded} {
			if e := w.message(t, all[i].Message); e.Status != want {
				t.Errorf("message %d is %s", i, e.Status)
			}
		}
	})
}
