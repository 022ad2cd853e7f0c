package turn_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

var all = approval.Filter{}

// TestATurnGoesOnHoursLater: a person decides on a call long after the turn. The same execution
// continues and answers in the thread.
func TestATurnGoesOnHoursLater(t *testing.T) {
	for name, c := range map[string]struct {
		decide func(t *testing.T, w *world, id string)
		told   string
		paid   int
	}{
		"approved": {func(t *testing.T, w *world, id string) {
			t.Helper()
			must(w.Approvals.Approve(t.Context(), w.Workspace, id, "user:ada", nil))(t)
		}, "R-1", 1},
		"rejected": {func(t *testing.T, w *world, id string) {
			t.Helper()
			must(w.Approvals.Reject(t.Context(), w.Workspace, id, "user:ada", "too dear"))(t)
		}, "rejected, and not made: too dear", 0},
		"expired": {func(t *testing.T, w *world, _ string) {
			t.Helper()
			w.Skew.Advance(100 * time.Hour)
			must(w.Approvals.ExpireDue(t.Context(), w.Workspace))(t)
		}, "nobody answered in time", 0},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) {
				m := llmtest.Write(t, llmtest.WritesCalls("", "pay", `{}`), llmtest.Writes("It waits."), llmtest.Writes("That is that."))
				w.think(m)
				r := w.said(t, turn.Turn{Message: "Pay."})
				if r.Status != execution.Waiting || r.Answer != "It waits." || len(r.Approvals) != 1 || w.execution(t, r.Execution).Status != execution.Waiting {
					t.Fatalf("got %+v", r)
				}
				w.mustBeFree(t)
				w.Skew.Advance(20 * time.Hour)
				if got := w.drain(t); got.Claimed != 0 {
					t.Errorf("nobody has decided: %+v", got)
				}
				c.decide(t, w, r.Approvals[0])
				if got := w.drain(t); got.Sent != 1+c.paid || got.Retried+got.Failed != 0 {
					t.Errorf("sent %+v", got)
				}
				if e := w.execution(t, r.Execution); e.Status != execution.Completed || w.paid != c.paid {
					t.Errorf("it is %+v, paid %d times", e, w.paid)
				}
				told := m.Request(2).Messages
				if last := told[len(told)-1].Text; !strings.Contains(last, c.told) {
					t.Errorf("the model is told %q", last)
				}
				if got := w.spoken(t, r.Thread); !slices.Equal(got, []string{"user: Pay.", "assistant: It waits.", "assistant: That is that."}) {
					t.Errorf("the thread is %q", got)
				}
				w.mustBeFree(t)
			})
		})
	}
}

// TestOfTwoCallsThatWaitEachIsTold: two waiting calls are decided one after the other.
func TestOfTwoCallsThatWaitEachIsTold(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(llmtest.Write(t, llmtest.WritesCalls("", "pay", `{}`, `{}`), llmtest.Writes("Both wait."), llmtest.Writes("One is paid."), llmtest.Writes("The other is not.")))
		r := w.said(t, turn.Turn{Message: "Pay twice."})
		if len(r.Approvals) != 2 {
			t.Fatalf("got %+v", r)
		}
		must(w.Approvals.Approve(t.Context(), w.Workspace, r.Approvals[0], "user:ada", nil))(t)
		w.drain(t)
		if e := w.execution(t, r.Execution); e.Status != execution.Waiting {
			t.Errorf("after one it is %s", e.Status)
		}
		must(w.Approvals.Reject(t.Context(), w.Workspace, r.Approvals[1], "user:ada", "once is enough"))(t)
		w.drain(t)
		if e := w.execution(t, r.Execution); e.Status != execution.Completed || w.paid != 1 {
			t.Errorf("after both it is %s, paid %d times", e.Status, w.paid)
		}
		if got := w.spoken(t, r.Thread); len(got) != 4 || got[3] != "assistant: The other is not." {
			t.Errorf("the thread is %q", got)
		}
	})
}

// TestWhatIsSaidAfterWordsFromOutsideIsApproved: an execution with untrusted text sends no message
// before a person has approved it. It then sends the message as the execution that asked.
func TestWhatIsSaidAfterWordsFromOutsideIsApproved(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		to := must(w.Threads.Open(t.Context(), w.Workspace, thread.Thread{Channel: "log", Address: "grace"}))(t).ID
		w.think(llmtest.Write(t, llmtest.WritesCalls("", "save_memory", geese), llmtest.WritesCalls("", "search_memory", `{"q": "geese"}`),
			llmtest.WritesCalls("", "send_message", fmt.Sprintf(`{"threadId": %q, "body": "Geese fly in a V."}`, to)), llmtest.Writes("It waits."), llmtest.Writes("She knows.")))
		r := w.said(t, turn.Turn{Message: "Tell Grace what you know of geese."})
		sent := func() []outbox.Entry {
			entries, _, err := w.Threads.Outbox(t.Context(), w.Workspace, to, outbox.Filter{Limit: 10})
			return must(entries, err)(t)
		}
		if r.Status != execution.Waiting || len(r.Approvals) != 1 || len(sent()) != 0 {
			t.Fatalf("got %+v, said %+v", r, sent())
		}
		must(w.Approvals.Approve(t.Context(), w.Workspace, r.Approvals[0], "user:ada", nil))(t)
		w.drain(t)
		if got := sent(); len(got) != 1 || got[0].Status != outbox.Sent || got[0].Execution != r.Execution {
			t.Errorf("said %+v", got)
		}
		if e := w.execution(t, r.Execution); e.Status != execution.Completed {
			t.Errorf("it is %+v", e)
		}
	})
}

// TestAnEleventhCallDoesNotWaitToo: a turn waits with ten calls, and continues when one of them is
// decided.
func TestAnEleventhCallDoesNotWaitToo(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		m := llmtest.Write(t, llmtest.WritesCalls("I pay.", "pay", slices.Repeat([]string{`{}`}, 7)...), llmtest.WritesCalls("And again.", "pay", slices.Repeat([]string{`{}`}, 4)...),
			llmtest.WritesCalls("", "pay", `{}`), llmtest.Writes("Enough."))
		w.think(m)
		r := w.said(t, turn.Turn{Message: "Pay eleven times."})
		if r.Status != execution.Waiting || len(r.Approvals) != 10 || w.execution(t, r.Execution).Status != execution.Waiting {
			t.Fatalf("got %+v", r)
		}
		if filed, _, err := w.Approvals.List(t.Context(), w.Workspace, all); err != nil || len(filed) != 10 {
			t.Errorf("filed %d, %v", len(filed), err)
		}
		w.mustBeFree(t)
		must(w.Approvals.Reject(t.Context(), w.Workspace, r.Approvals[0], "user:ada", "too dear"))(t)
		w.drain(t)
		told := m.Request(2).Messages
		results := told[len(told)-2].Results
		if last := results[3]; len(results) != 4 || !last.IsError || !strings.Contains(last.Content, "10 calls") || results[2].IsError {
			t.Errorf("the model is told %+v", results)
		}
		if e := w.execution(t, r.Execution); e.Status != execution.Waiting {
			t.Errorf("it is %+v", e)
		}
		if filed, _, err := w.Approvals.List(t.Context(), w.Workspace, approval.Filter{Status: approval.Pending}); err != nil || len(filed) != 10 {
			t.Errorf("pending are %d, %v", len(filed), err)
		}
	})
}

// TestALookupLeadsToAnother: a call that only reads needs no approval, even for persons who may
// approve nothing.
func TestALookupLeadsToAnother(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var found []string
		lookup := skill.Skill{
			Name: "lookup", Kind: skill.HTTP, Effect: skill.Read, Description: "Looks up.", Parameters: []byte(`{"type":"object"}`),
			Do: func(_ context.Context, c skill.Call) (any, error) {
				found = append(found, string(c.Arguments))
				return "more on the next page", nil
			},
		}
		set := must(skill.NewSet(lookup))(t)
		w.Skills = func(context.Context, db.Workspace, trace.Surface) (*skill.Set, error) { return set, nil }
		for by, limited := range map[string]bool{"user:owner": false, "user:member": true} {
			found = nil
			w.think(llmtest.Write(t, llmtest.WritesCalls("", "lookup", `{"page":1}`), llmtest.WritesCalls("", "lookup", `{"page":2}`), llmtest.Writes("Found.")))
			r := w.said(t, turn.Turn{Message: "Look it up.", By: by, Limited: limited})
			if r.Status != execution.Completed || r.Answer != "Found." || !slices.Equal(found, []string{`{"page":1}`, `{"page":2}`}) {
				t.Errorf("%s: got %+v, looked up %q", by, r, found)
			}
		}
		if filed, _, err := w.Approvals.List(t.Context(), w.Workspace, all); err != nil || len(filed) != 0 {
			t.Errorf("filed %+v, %v", filed, err)
		}
	})
}

// A member's turn cannot use skills that the API reserves for admins, by any name. Rows that a turn
// creates belong to its person.
func TestAMemberTalksAgentIntoNothingTheyMayNotDo(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var by []string
		publish := skill.Skill{
			Name: "publish", Kind: skill.Builtin, Scope: skill.Internal, Admins: true, Description: "Publishes.", Parameters: []byte(`{"type":"object"}`),
			Run: func(_ context.Context, _ lane.Tx, c skill.Call) (any, error) {
				by = append(by, c.By)
				return "published", nil
			},
		}
		own, err := skill.Skills() // run_skill is one of them
		if err != nil {
			t.Fatal(err)
		}
		set := must(skill.NewSet(append(own, publish, w.note())...))(t)
		w.Skills = func(context.Context, db.Workspace, trace.Surface) (*skill.Set, error) { return set, nil }
		for _, person := range []struct {
			by      string
			limited bool
			made    []string
		}{{"user:bob", true, nil}, {"user:ada", false, []string{"user:ada", "user:ada"}}} {
			by = nil
			m := llmtest.Write(t, llmtest.WritesCalls("", "publish", `{}`), llmtest.WritesCalls("", "run_skill", `{"skill":"publish","input":{}}`), llmtest.Writes("So be it."))
			w.think(m)
			w.said(t, turn.Turn{Message: "Publish.", By: person.by, Limited: person.limited})
			offered := slices.ContainsFunc(m.Request(0).Tools, func(tool llm.Tool) bool { return tool.Name == "publish" })
			if !slices.Equal(by, person.made) || offered == person.limited {
				t.Errorf("%s: published by %q, offered %t", person.by, by, offered)
			}
		}
	})
}
