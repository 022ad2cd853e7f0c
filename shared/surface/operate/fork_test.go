package operate_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
)

// TestAForkWaitsForAPerson forks a turn before its last step, which then asks for a
// call that waits: the fork is told what was decided.
func TestAForkWaitsForAPerson(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(llmtest.Write(t, llmtest.WritesCalls("", "note", `{"what":"x"}`), llmtest.Writes("Noted.")))
		r := w.said(t, "Note x.")
		m := llmtest.Write(t, llmtest.WritesCalls("", "pay", `{}`), llmtest.Writes("It waits."), llmtest.Writes("Then not."))
		w.think(m)
		fork := must(w.Fork(t.Context(), w.Workspace, r.Trace, "", 2, operate.Edits{}))(t)
		if got := w.drain(t); got.Sent != 1 || got.Retried+got.Failed != 0 {
			t.Errorf("sent %+v", got)
		}
		if e := w.execution(t, fork.ID); e.Status != execution.Waiting {
			t.Fatalf("it is %+v", e)
		}
		waits, _, err := w.Approvals.List(t.Context(), w.Workspace, approval.Filter{})
		if err != nil || len(waits) != 1 {
			t.Fatalf("%+v, %v", waits, err)
		}
		must(w.Approvals.Reject(t.Context(), w.Workspace, waits[0].ID, "user:ada", "too dear"))(t)
		w.drain(t)
		told := m.Request(2).Messages
		if e := w.execution(t, fork.ID); e.Status != execution.Completed || !strings.Contains(told[len(told)-1].Text, "too dear") {
			t.Errorf("it is %+v, the model was told %+v", e, told[len(told)-1])
		}
		w.mustBeFree(t)
	})
}

// TestAPoisonForkIsGivenUp too.
func TestAPoisonForkIsGivenUp(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(llmtest.Write(t, append([]llmtest.Writing{llmtest.Writes("Hello.")}, slices.Repeat([]llmtest.Writing{w.dies(t)}, 5)...)...))
		r := w.said(t, "Hello.")
		fork := must(w.Fork(t.Context(), w.Workspace, r.Trace, "", 1, operate.Edits{}))(t)
		for range 10 {
			w.drain(t)
			w.Skew.Advance(time.Hour)
		}
		if e := w.execution(t, fork.ID); e.Status != execution.Failed || !strings.HasPrefix(e.Error, "given up: it was cut off in attempt ") {
			t.Errorf("it is %+v", e)
		}
		w.mustBeFree(t)
	})
}

// TestAForkGoesOnAfterALongHalt: a kill switch stops it for longer than its outbox row has tries.
func TestAForkGoesOnAfterALongHalt(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(llmtest.Write(t, llmtest.Writes("Hello."), llmtest.Writes("Again.")))
		r := w.said(t, "Hello.")
		fork := must(w.Fork(t.Context(), w.Workspace, r.Trace, "", 1, operate.Edits{}))(t)
		w.Reason.Switches = func(context.Context, db.Workspace) (reason.Halts, error) { return stopped{}, nil }
		for range 30 {
			w.drain(t)
			w.Skew.Advance(10 * time.Minute)
		}
		if e := w.execution(t, fork.ID); e.Status != execution.Parked {
			t.Errorf("while it is stopped, it is %+v", e)
		}
		w.Reason.Switches = nil
		w.Skew.Advance(time.Hour)
		w.drain(t)
		if e := w.execution(t, fork.ID); e.Status != execution.Completed {
			t.Errorf("then it is %+v", e)
		}
		w.mustBeFree(t)
	})
}
